//! Room for text: how wide what is printed may be.
//!
//! Takes texts, gives them clipped or broken into lines that fit. Off a terminal there is no end to a line: whoever
//! searches it wants all of it.

use std::{borrow::Cow, io::IsTerminal};

use dialoguer::console::{Term, measure_text_width, truncate_str};

/// However narrow the terminal is, free text is worth reading.
const LEAST_COLUMNS: usize = 24;

/// How wide what is printed may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Room {
    /// A terminal's width.
    Columns(usize),
    /// A file, or a program that reads.
    Unbounded,
}

impl Room {
    /// What standard output has.
    pub(in crate::cli) fn of_stdout() -> Self {
        if !std::io::stdout().is_terminal() {
            return Self::Unbounded;
        }
        match Term::stdout().size_checked() {
            Some((_, columns)) if columns > 0 => Self::Columns(usize::from(columns)),
            Some(_) | None => Self::Unbounded,
        }
    }

    /// What is left beside so many columns that are taken.
    pub(super) fn beside(self, taken: usize) -> Self {
        match self {
            Self::Columns(all) => Self::Columns(all.saturating_sub(taken).max(LEAST_COLUMNS)),
            Self::Unbounded => Self::Unbounded,
        }
    }

    /// The same for each of several.
    pub(super) fn shared(self, by: usize) -> Self {
        match self {
            Self::Columns(all) => Self::Columns((all / by.max(1)).max(LEAST_COLUMNS)),
            Self::Unbounded => Self::Unbounded,
        }
    }

    /// The beginning of a text, as far as there is room.
    pub(super) fn clip(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Columns(columns) => truncate_str(text, columns, "…"),
            Self::Unbounded => Cow::Borrowed(text),
        }
    }

    /// All of a text, in lines that fit, broken between words where there are any.
    pub(super) fn wrap(self, text: &str) -> String {
        match self {
            Self::Columns(columns) => {
                let lines = text.split('\n').flat_map(|line| broken(line, columns));
                lines.collect::<Vec<_>>().join("\n")
            }
            Self::Unbounded => text.to_owned(),
        }
    }
}

/// One line as several.
fn broken(line: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        for (part, piece) in pieces(word, columns).into_iter().enumerate() {
            let current = lines.last_mut().map(std::mem::take).unwrap_or_default();
            let gap = if current.is_empty() { "" } else { " " };
            let together = format!("{current}{gap}{piece}");
            if part == 0 && measure_text_width(&together) <= columns {
                replace_last(&mut lines, together);
            } else {
                replace_last(&mut lines, current);
                lines.push(piece);
            }
        }
    }
    lines.retain(|line| !line.is_empty());
    if lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn replace_last(lines: &mut [String], with: String) {
    if let Some(last) = lines.last_mut() {
        *last = with;
    }
}

/// A word in pieces that fit.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    let mut width = 0;
    for character in word.chars() {
        let wide = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if width + wide > columns {
            pieces.push(String::new());
            width = 0;
        }
        width += wide;
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_where_there_are_none() {
        for (text, lines) in [
            ("", ""),
            ("one two", "one two"),
            ("one two three", "one two\nthree"),
            ("12345678901234567", "12345678\n90123456\n7"),
            ("a 12345678901 b", "a\n12345678\n901 b"),
            ("日本語日本語", "日本語日\n本語"),
            ("one\ntwo", "one\ntwo"),
        ] {
            assert_eq!(Room::Columns(8).wrap(text), lines, "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_clipped_and_says_so() {
        assert_eq!(Room::Columns(4).clip("12345"), "123…");
        assert_eq!(Room::Columns(5).clip("12345"), "12345");
        assert_eq!(Room::Unbounded.clip(&"x".repeat(500)).len(), 500);
    }

    #[test]
    fn free_text_keeps_some_room_on_a_narrow_terminal() {
        let room = Room::Columns(40).beside(39);
        assert_eq!(room, Room::Columns(LEAST_COLUMNS));
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_wider_than_its_room(text in "[a-z ]{0,80}", columns in 1_usize..20) {
            for line in Room::Columns(columns).wrap(&text).lines() {
                proptest::prop_assert!(measure_text_width(line) <= columns);
            }
        }
    }
}
