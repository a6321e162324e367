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
    use super::excerpt;

    #[test]
    fn a_long_or_wild_text_stays_short_and_on_one_line() {
        assert_eq!(excerpt("a\nb\u{1b}[31m"), "a\\nb\\u{1b}[31m");
        assert_eq!(excerpt(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(excerpt(&"x".repeat(201)), format!("{}…", "x".repeat(200)));
    }
}
