//! Serde for values that are their text.
//!
//! Takes a type with `Display` and `FromStr`, gives it `Serialize` and `Deserialize` through them, so that a value has
//! one grammar wherever it is read. Never accepts what `FromStr` refuses.

macro_rules! serde_as_text {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use serde_as_text;

/// What is kept of a text that somebody else wrote at length: its beginning, and U+FFFD for U+0000, which PostgreSQL
/// refuses together with all that came beside it.
pub(crate) fn bounded(text: String, bytes_max: usize) -> String {
    let mut text = if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    };
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

/// A text that stays on its line, wherever it is shown: a space for each control character.
pub(crate) fn one_line(text: String) -> String {
    if text.contains(char::is_control) {
        text.replace(char::is_control, " ")
    } else {
        text
    }
}

/// What an error message shows of a text that somebody else wrote: bounded, and escaped so that it stays on its line.
pub(crate) fn excerpt(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 200;
    let mut shown = String::new();
    for found in text.chars().take(SHOWN_CHARS_MAX) {
        match found {
            // Harmless, and messages quote with them.
            '"' | '\'' | '\\' => shown.push(found),
            _ => shown.extend(found.escape_debug()),
        }
    }
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::{bounded, excerpt};

    #[test]
    fn what_is_kept_fits_and_holds_no_nul() {
        assert_eq!(bounded("a\0b".to_owned(), 100), "a\u{fffd}b");
        assert_eq!(bounded("\0\0".to_owned(), 4), "\u{fffd}");
        assert_eq!(bounded("äöü".to_owned(), 5), "äö");
        assert_eq!(bounded("a\n\u{1}".to_owned(), 100), "a\n\u{1}");
    }

    #[test]
    fn a_long_or_wild_text_stays_short_and_on_one_line() {
        assert_eq!(excerpt("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(excerpt(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(excerpt(&"x".repeat(201)), format!("{}…", "x".repeat(200)));
    }
}
