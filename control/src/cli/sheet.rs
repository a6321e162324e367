//! What people see of an answer: lines of fields, and tables.
//!
//! Takes cells, gives text with aligned columns. What others wrote (names, reasons, errors) is escaped: a label must
//! not move the cursor of the terminal that lists it. On a terminal, free text is clipped in tables and broken in
//! fields, so that 500 characters of it leave the rest in its place.

use std::fmt::Display;

use comfy_table::{Cell as Drawn, ContentArrangement, Table, presets::NOTHING};
use dialoguer::console::measure_text_width;

mod cell;
mod printable;
mod room;
mod short;

use crate::clock::Moment;
use cell::Kind;
pub(super) use cell::{Cell, PoolNames, Tone};
pub(super) use printable::{printable, printable_json};
pub(super) use room::Room;

/// Between two columns.
const GAP: usize = 2;

/// Of a text in a table, where lines have no end: as much as an operator may write. One node's words, of which each may
/// be escaped, must not move the columns of all others out of sight.
const PROSE_COLUMNS_MAX: usize = 500;

/// How a pool is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolStyle {
    /// Where there is little room.
    Name,
    /// Where there is more.
    NameAndId,
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
    Sentence(Cell),
    Fields(Vec<(&'static str, Cell)>),
    Rows {
        header: Vec<&'static str>,
        rows: Vec<Vec<Cell>>,
    },
}

impl Sheet {
    /// A sentence.
    pub(super) fn sentence(content: impl Display) -> Self {
        Self {
            parts: vec![Part::Sentence(Cell::prose(content))],
        }
    }

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

    /// Whether it is a table, and nothing is in it.
    pub(super) fn is_empty_table(&self) -> bool {
        match self.parts.as_slice() {
            [Part::Rows { rows, .. }] => rows.is_empty(),
            [] | [_, ..] => false,
        }
    }

    /// Whether it would be easier to read with the names of pools.
    pub(super) fn has_pools(&self) -> bool {
        let is_pool = |cell: &Cell| cell.kind == Kind::Pool;
        self.parts.iter().any(|part| match part {
            Part::Sentence(_) => false,
            Part::Fields(fields) => fields.iter().any(|(_, cell)| is_pool(cell)),
            Part::Rows { rows, .. } => rows.iter().flatten().any(is_pool),
        })
    }

    /// The same with the names of pools: beside their ids in fields, and as `style` says in tables.
    #[must_use]
    pub(super) fn with_pools(mut self, names: &PoolNames, style: PoolStyle) -> Self {
        for part in &mut self.parts {
            match part {
                Part::Sentence(_) => {}
                Part::Fields(fields) => {
                    for (_, cell) in fields {
                        cell.named(names, PoolStyle::NameAndId);
                    }
                }
                Part::Rows { rows, .. } => {
                    for cell in rows.iter_mut().flatten() {
                        cell.named(names, style);
                    }
                }
            }
        }
        self
    }

    /// The same with ids in tables no longer than it takes to tell them apart.
    #[must_use]
    pub(super) fn with_short_ids(mut self) -> Self {
        for part in &mut self.parts {
            match part {
                Part::Sentence(_) | Part::Fields(_) => {}
                Part::Rows { rows, .. } => short::shorten(rows),
            }
        }
        self
    }

    /// The text. Colours are in it; whoever writes it takes them out where they are not wanted.
    pub(super) fn text(self, headers: Headers, room: Room) -> String {
        let parts: Vec<String> = self
            .parts
            .into_iter()
            .map(|part| part.text(headers, room))
            .collect();
        parts.join("\n")
    }
}

impl Part {
    fn text(self, headers: Headers, room: Room) -> String {
        let mut table = Table::new();
        table
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .enforce_styling()
            .style_text_only();
        match self {
            Self::Sentence(cell) => return format!("{}\n", room.wrap(&cell.text)),
            Self::Fields(fields) => {
                let names = fields.iter().map(|(name, _)| name.len() + ":".len() + GAP);
                let room = room.beside(names.max().unwrap_or(0));
                for (name, mut cell) in fields {
                    cell.text = room.wrap(&cell.text);
                    table.add_row(vec![Drawn::new(format!("{name}:")), cell.drawn()]);
                }
            }
            Self::Rows { header, mut rows } => {
                clip(&header, &mut rows, room);
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

/// Clips free text to what the other columns leave.
fn clip(header: &[&'static str], rows: &mut [Vec<Cell>], room: Room) {
    if room == Room::Unbounded {
        return clip_prose(rows, Room::Columns(PROSE_COLUMNS_MAX));
    }
    let mut widths: Vec<usize> = header.iter().map(|name| name.len() + GAP).collect();
    let mut prose = vec![false; header.len()];
    for row in rows.iter() {
        for ((cell, width), prose) in row.iter().zip(&mut widths).zip(&mut prose) {
            if cell.kind == Kind::Prose {
                *prose = true;
            } else {
                *width = (*width).max(measure_text_width(&cell.text) + GAP);
            }
        }
    }
    let taken = widths.iter().zip(&prose).filter(|(_, prose)| !**prose);
    let taken: usize = taken.map(|(width, _)| *width).sum();
    let free = prose.iter().filter(|prose| **prose).count();
    let room = room
        .beside(taken + free.saturating_sub(1) * GAP)
        .shared(free);
    clip_prose(rows, room);
}

fn clip_prose(rows: &mut [Vec<Cell>], room: Room) {
    for cell in rows.iter_mut().flatten() {
        if cell.kind == Kind::Prose {
            cell.text = room.clip(&cell.text).into_owned();
        }
    }
}

/// A moment to the second: what people compare with their own clock.
pub(super) fn second(moment: Moment) -> String {
    moment
        .timestamp()
        .map_or_else(|_| moment.to_string(), |second| second.to_string())
}

#[cfg(test)]
mod tests {
    use bc_protocol::id::PoolId;

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

    fn text(sheet: Sheet) -> String {
        sheet.text(Headers::Shown, Room::Unbounded)
    }

    #[test]
    fn columns_are_aligned_and_escapes_are_harmless() {
        insta::assert_snapshot!(text(sheet()), @r"
        ID            STATE    REASON
        rollout_1     running  -
        rollout_long  paused   wave 2\u{1b}[2Jfailed
        ");
    }

    #[test]
    fn without_headers_every_line_is_a_row() {
        let text = sheet().text(Headers::Hidden, Room::Unbounded);
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn fields_stand_above_tables_and_empty_tables_are_left_out() {
        let fields = || {
            Sheet::fields(vec![
                ("id", Cell::new("x")),
                ("version", Cell::new("1.0.0")),
            ])
        };
        insta::assert_snapshot!(text(fields().above(sheet())), @r"
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
    fn a_long_reason_leaves_tables_and_fields_whole() {
        let reason = "the canary lost its disk ".repeat(20);
        let row = |id: &str| {
            vec![
                Cell::new(id),
                Cell::prose(&reason),
                Cell::toned("paused", Tone::Plain),
            ]
        };
        let rows = Sheet::rows(&["ID", "REASON", "STATE"], vec![row("a"), row("bc")]);
        let fields = Sheet::fields(vec![
            ("id", Cell::new("x")),
            ("why", Cell::prose(&reason[..60])),
        ]);
        insta::assert_snapshot!(fields.above(rows).text(Headers::Shown, Room::Columns(44)), @r"
        id:   x
        why:  the canary lost its disk the canary
              lost its disk the canary

        ID  REASON                            STATE
        a   the canary lost its disk the ca…  paused
        bc  the canary lost its disk the ca…  paused
        ");
    }

    #[test]
    fn no_text_makes_a_table_endless_and_fields_are_whole() {
        let words = "\u{1}".repeat(1024);
        let rows = Sheet::rows(&["HELD"], vec![vec![Cell::prose(&words)]]);
        let longest = text(rows).lines().map(measure_text_width).max();
        assert_eq!(longest, Some(PROSE_COLUMNS_MAX));
        let fields = Sheet::fields(vec![("held", Cell::prose(&words))]);
        assert_eq!(text(fields).matches("\\u{1}").count(), 1024);
    }

    #[test]
    fn pools_are_called_by_their_names() {
        let id: PoolId = format!("pool_{:026}", 1).parse().unwrap();
        let names = PoolNames::from([(id.to_string(), "edge\u{1b}".to_owned())]);
        let sheet = Sheet::fields(vec![("pool", Cell::pool(&id))])
            .above(Sheet::rows(&["POOL"], vec![vec![Cell::pool(&id)]]));
        assert!(sheet.has_pools());
        insta::assert_snapshot!(text(sheet.clone().with_pools(&names, PoolStyle::Name)), @r"
        pool:  edge\u{1b} (pool_00000000000000000000000001)

        POOL
        edge\u{1b}
        ");
        let unknown = sheet.clone().with_pools(&PoolNames::new(), PoolStyle::Name);
        assert_eq!(unknown, sheet);
    }

    #[test]
    fn reports_keep_their_lines_and_nothing_else() {
        let fields = Sheet::fields(vec![("report", Cell::lines("a\n  b\u{1b}[1m\n"))]);
        insta::assert_snapshot!(text(fields), @r"
        report:  a
                   b\u{1b}[1m
        ");
    }
}
