//! Text that others wrote, made fit for a terminal.
//!
//! Takes any text, gives one that neither moves the cursor nor shows itself as something else. Pure.

use std::fmt::Write as _;

/// The text with everything escaped that is not for reading.
pub(in crate::cli) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_unseen(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// JSON with everything escaped that is not for reading, as JSON escapes: it stays the same to programs.
pub(in crate::cli) fn printable_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        // Line breaks stand between values; within texts they are escaped already.
        if character != '\n' && (character.is_control() || is_unseen(character)) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string does not fail.
                let _written = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Characters that nobody sees and that change what is seen: the order of others, where lines end, or which of two names
/// that look the same it is.
fn is_unseen(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_reading_stays() {
        for text in ["größer 🚀", "日本語", "<b>&amp;</b>", "$(rm -rf ~); `x`"] {
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn what_moves_the_cursor_shows_itself() {
        for (text, shown) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\r\n\tb", "a\\r\\n\\tb"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{7f}\u{0}", "\\u{7f}\\u{0}"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }

    #[test]
    fn what_nobody_sees_shows_itself() {
        assert_eq!(printable("a\u{202e}b\u{2066}"), "a\\u{202e}b\\u{2066}");
        assert_eq!(printable("adm\u{200b}in"), "adm\\u{200b}in");
        assert_eq!(printable("a\u{2028}b\u{e0041}"), "a\\u{2028}b\\u{e0041}");
    }

    #[test]
    fn json_stays_the_same_to_programs() {
        let value = serde_json::json!({"a\u{9b}": "b\u{202e}\n\u{1b}[2J\u{e0041}é"});
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let shown = printable_json(&pretty);
        assert!(!shown.chars().any(is_unseen), "{shown}");
        assert!(!shown.contains('\u{9b}'), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, value);
    }

    proptest::proptest! {
        #[test]
        fn no_control_character_comes_through(text: String) {
            proptest::prop_assert!(!printable(&text).chars().any(char::is_control));
        }
    }
}
