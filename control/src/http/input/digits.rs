//! Numbers that are written with more digits than are read.
//!
//! Takes the text of a JSON object, gives the field of the first number with a fraction that a double would round. Shares and
//! seconds are exact decimals with a few places, so that whoever writes more has meant something else. Pure.

/// So many digits come out of a double as they went in.
const DIGITS_MAX: usize = 15;

/// The field whose number would be rounded. Of text that is no JSON nothing is said: its reader refuses it.
pub(super) fn rounded(json: &[u8]) -> Option<String> {
    let mut walk = Walk::default();
    let mut rest = json;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = match byte {
            b'"' => {
                let end = end_of_text(behind)?;
                walk.text = behind.get(..end);
                behind.get(end + 1..)?
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                let length = rest.iter().take_while(|byte| is_part(byte)).count();
                let (number, behind) = rest.split_at(length);
                if is_rounded(number) {
                    return Some(walk.path());
                }
                behind
            }
            punctuation => {
                walk.past(punctuation);
                behind
            }
        };
    }
    None
}

/// Where a text ends, its quotation mark not included.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })
}

fn is_rounded(number: &[u8]) -> bool {
    let is_whole = !number.iter().any(|byte| b".eE".contains(byte));
    let mantissa = number.split(|byte| b"eE".contains(byte)).next();
    let digits: Vec<u8> = mantissa
        .unwrap_or_default()
        .iter()
        .copied()
        .filter(u8::is_ascii_digit)
        .collect();
    let first = digits.iter().position(|digit| *digit != b'0');
    let last = digits.iter().rposition(|digit| *digit != b'0');
    let significant = first.zip(last).map_or(0, |(first, last)| last - first + 1);
    !is_whole && significant > DIGITS_MAX
}

/// Which fields lie around a place.
#[derive(Default)]
struct Walk<'a> {
    /// The text that came last.
    text: Option<&'a [u8]>,
    /// The field in whose value this is.
    field: Option<&'a [u8]>,
    /// Those around it.
    around: Vec<Option<&'a [u8]>>,
}

impl Walk<'_> {
    fn past(&mut self, punctuation: u8) {
        match punctuation {
            b':' => self.field = self.text.take(),
            b'{' => self.around.push(self.field.take()),
            b'}' => self.field = self.around.pop().flatten(),
            _ => {}
        }
    }

    fn path(&self) -> String {
        let fields = self.around.iter().flatten().chain(&self.field);
        let names: Vec<_> = fields.map(|name| String::from_utf8_lossy(name)).collect();
        names.join(".")
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    fn check(json: &str, field: Option<&str>) {
        assert_eq!(rounded(json.as_bytes()).as_deref(), field, "{json}");
    }

    #[test]
    fn a_number_that_would_be_rounded_is_found_by_its_field() {
        check(
            r#"{"maxFailureRatio": 0.05000000000000000001}"#,
            Some("maxFailureRatio"),
        );
        check(
            r#"{"a": 1, "policy": {"disruptionBudget": 0.29999999999999998}}"#,
            Some("policy.disruptionBudget"),
        );
        check(r#"{"waves": [1, 10.000000000000001, 100]}"#, Some("waves"));
        check(
            r#"{"x": {"y": 1}, "soakSeconds": -1.00000000000000005e0}"#,
            Some("soakSeconds"),
        );
    }

    #[test]
    fn what_is_read_exactly_passes() {
        for json in [
            r#"{"maxFailureRatio": 0.05, "waves": [0.0001, 12.5, 100]}"#,
            r#"{"maxFailureRatio": 0.0500000000000000000000}"#,
            r#"{"after": 18446744073709551615}"#,
            r#"{"name": "0.05000000000000000001", "a\"b": "1.2345678901234567890"}"#,
            r#"{"x": 1e300}"#,
            "{",
            r#"{"x": "#,
            r#"{"open"#,
        ] {
            check(json, None);
        }
    }
}
