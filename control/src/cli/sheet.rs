//! What people see of an answer: lines of fields, and tables.
//!
//! Takes cells, gives text with aligned columns. What others wrote (names, reasons, errors) is escaped: a label must
//! not move the cursor of the terminal that lists it.

use std::fmt::Display;

use comfy_table::{Cell as Drawn, Color, ContentArrangement, Table, presets::NOTHING};

use crate::clock::Moment;

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

/// How a cell should strike the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Like everything else.
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Busy,
    /// Somebody should look.
    Bad,
}

impl Cell {
    /// A cell without colour.
    pub(super) fn new(content: impl Display) -> Self {
        Self::toned(content, Tone::Plain)
    }

    /// A cell with a colour, where colours are shown.
    pub(super) fn toned(content: impl Display, tone: Tone) -> Self {
        Self {
            text: printable(&content.to_string()),
            tone,
        }
    }

    /// What may be absent: a dash then.
    pub(super) fn optional(content: Option<impl Display>) -> Self {
        content.map_or_else(|| Self::new("-"), Self::new)
    }

    fn drawn(self) -> Drawn {
        let cell = Drawn::new(self.text);
        match self.tone {
            Tone::Plain => cell,
            Tone::Good => cell.fg(Color::DarkGreen),
            Tone::Busy => cell.fg(Color::DarkYellow),
            Tone::Bad => cell.fg(Color::DarkRed),
        }
    }
}

/// Whether a table says what its columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Headers {
    /// The first line does.
    Shown,
    /// Every line is a row.
    Hidden,
}

/// Fields and tables, one below the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sheet {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Fields(Vec<(&'static str, Cell)>),
    Rows {
        header: Vec<&'static str>,
        rows: Vec<Vec<Cell>>,
    },
}

impl Sheet {
    /// One line a field.
    pub(super) fn fields(fields: Vec<(&'static str, Cell)>) -> Self {
        Self {
            parts: vec![Part::Fields(fields)],
        }
    }

    /// One line a row.
    pub(super) fn rows(header: &[&'static str], rows: Vec<Vec<Cell>>) -> Self {
        Self {
            parts: vec![Part::Rows {
                header: header.to_vec(),
                rows,
            }],
        }
    }

    /// Both, an empty line between them. A table without rows is left out.
    #[must_use]
    pub(super) fn above(mut self, below: Self) -> Self {
        self.parts.extend(
            below
                .parts
                .into_iter()
                .filter(|part| !matches!(part, Part::Rows { rows, .. } if rows.is_empty())),
        );
        self
    }

    /// The text. Colours are in it; whoever writes it takes them out where they are not wanted.
    pub(super) fn text(self, headers: Headers) -> String {
        let parts: Vec<String> = self
            .parts
            .into_iter()
            .map(|part| part.text(headers))
            .collect();
        parts.join("\n")
    }
}

impl Part {
    fn text(self, headers: Headers) -> String {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .enforce_styling()
            .style_text_only();
        match self {
            Self::Fields(fields) => {
                for (name, cell) in fields {
                    table.add_row(vec![Drawn::new(format!("{name}:")), cell.drawn()]);
                }
            }
            Self::Rows { header, rows } => {
                if headers == Headers::Shown {
                    table.set_header(header);
                }
                for row in rows {
                    table.add_row(row.into_iter().map(Cell::drawn).collect::<Vec<_>>());
                }
            }
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table
            .lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    }
}

/// A moment to the second: what people compare with their own clock.
pub(super) fn second(moment: Moment) -> String {
    moment
        .timestamp()
        .map_or_else(|_| moment.to_string(), |second| second.to_string())
}

/// The text with everything escaped that is not for reading.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_bidirectional(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Characters that change the order in which others are shown: what one reads is then not what is there.
fn is_bidirectional(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        Sheet::rows(
            &["ID", "STATE", "REASON"],
            vec![
                vec![
                    Cell::new("rollout_1"),
                    Cell::new("running"),
                    Cell::optional(None::<&str>),
                ],
                vec![
                    Cell::new("rollout_long"),
                    Cell::new("paused"),
                    Cell::new("wave 2\u{1b}[2Jfailed"),
                ],
            ],
        )
    }

    #[test]
    fn columns_are_aligned_and_escapes_are_harmless() {
        insta::assert_snapshot!(sheet().text(Headers::Shown), @r"
        ID            STATE    REASON
        rollout_1     running  -
        rollout_long  paused   wave 2\u{1b}[2Jfailed
        ");
    }

    #[test]
    fn without_headers_every_line_is_a_row() {
        assert_eq!(sheet().text(Headers::Hidden).lines().count(), 2);
    }

    #[test]
    fn fields_stand_above_tables_and_empty_tables_are_left_out() {
        let fields = || {
            Sheet::fields(vec![
                ("id", Cell::new("x")),
                ("version", Cell::new("1.0.0")),
            ])
        };
        insta::assert_snapshot!(fields().above(sheet()).text(Headers::Shown), @r"
        id:       x
        version:  1.0.0

        ID            STATE    REASON
        rollout_1     running  -
        rollout_long  paused   wave 2\u{1b}[2Jfailed
        ");
        let empty = Sheet::rows(&["ID"], Vec::new());
        assert_eq!(fields().above(empty), fields());
    }

    #[test]
    fn order_changing_characters_show_themselves() {
        assert_eq!(printable("a\u{202e}b\nc"), "a\\u{202e}b\\nc");
        assert_eq!(printable("größer 🚀"), "größer 🚀");
    }
}
