//! What a person is shown of texts that others wrote: gateways, control, release servers, dead binaries.
//!
//! Takes a text, gives it on one line and without what a terminal would obey. Pure. It changes nothing that can be read.

/// The text with everything escaped that ends a line, moves a cursor or turns the order of letters around.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() || is_format(letter) {
            line.extend(letter.escape_debug());
        } else {
            line.push(letter);
        }
    }
    line
}

/// Line and paragraph ends that are no control characters, and what changes the direction of writing.
fn is_format(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_the_rest_stays() {
        for (text, shown) in [
            (
                "a trade fair, \"Ülm\" \\ 'x'",
                "a trade fair, \"Ülm\" \\ 'x'",
            ),
            ("one\ntwo\r\t", "one\\ntwo\\r\\t"),
            (
                "\u{1b}[2J\u{9b}31m\0\u{7f}",
                "\\u{1b}[2J\\u{9b}31m\\0\\u{7f}",
            ),
            ("abc\u{202e}cba\u{2028}", "abc\\u{202e}cba\\u{2028}"),
        ] {
            assert_eq!(one_line(text), shown);
        }
    }
}
