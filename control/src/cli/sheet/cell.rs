//! One cell of what people see.
//!
//! Takes what others wrote, gives it fit for a terminal, with what is known about it: whether it may be clipped, and
//! whether it is a pool or another thing's id.

use std::{collections::BTreeMap, fmt::Display};

use bc_protocol::id::PoolId;
use comfy_table::{Cell as Drawn, Color};

use super::{PoolStyle, printable};

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Cell {
    /// What it says, fit for a terminal.
    pub(super) text: String,
    tone: Tone,
    /// What that is.
    pub(super) kind: Kind,
}

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What is copied, compared or counted: shown whole.
    Word,
    /// What is read: as long as there is room.
    Prose,
    /// The id of a pool, which people know by its name.
    Pool,
    /// Another id, of which a beginning is enough to name it.
    Id,
}

/// How a cell should strike the eye.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    /// Like everything else.
    Plain,
    /// As it should be.
    Good,
    /// On its way.
    Busy,
    /// Somebody should look.
    Bad,
}

/// Pools' names by their ids.
pub(in crate::cli) type PoolNames = BTreeMap<String, String>;

impl Cell {
    /// A cell without colour.
    pub(in crate::cli) fn new(content: impl Display) -> Self {
        Self::toned(content, Tone::Plain)
    }

    /// A cell with a colour, where colours are shown.
    pub(in crate::cli) fn toned(content: impl Display, tone: Tone) -> Self {
        Self {
            text: printable(&content.to_string()),
            tone,
            kind: Kind::Word,
        }
    }

    /// What may be absent: a dash then.
    pub(in crate::cli) fn optional(content: Option<impl Display>) -> Self {
        content.map_or_else(|| Self::new("-"), Self::new)
    }

    /// What somebody wrote, or a program said, at any length.
    pub(in crate::cli) fn prose(content: impl Display) -> Self {
        Self::new(content).into_prose()
    }

    /// The same where it may be absent.
    pub(in crate::cli) fn optional_prose(content: Option<impl Display>) -> Self {
        Self::optional(content).into_prose()
    }

    /// Text whose lines stay lines.
    pub(in crate::cli) fn lines(content: &str) -> Self {
        let lines: Vec<String> = content.trim_end().lines().map(printable).collect();
        Self {
            text: lines.join("\n"),
            tone: Tone::Plain,
            kind: Kind::Prose,
        }
    }

    /// A pool.
    pub(in crate::cli) fn pool(id: &PoolId) -> Self {
        Self {
            kind: Kind::Pool,
            ..Self::new(id)
        }
    }

    /// An id: in a table its beginning is enough, where nothing else begins like it.
    pub(in crate::cli) fn id(id: impl Display) -> Self {
        Self {
            kind: Kind::Id,
            ..Self::new(id)
        }
    }

    /// This cell as one that may be clipped.
    pub(in crate::cli) fn into_prose(self) -> Self {
        Self {
            kind: Kind::Prose,
            ..self
        }
    }

    /// A pool by its name, where that is known.
    pub(super) fn named(&mut self, names: &PoolNames, style: PoolStyle) {
        if self.kind != Kind::Pool {
            return;
        }
        let Some(name) = names.get(&self.text) else {
            return;
        };
        let name = printable(name);
        self.text = match style {
            PoolStyle::Name => name,
            PoolStyle::NameAndId => format!("{name} ({})", self.text),
        };
        // Its name is known now: another pool's may look like its id.
        self.kind = Kind::Word;
    }

    /// As the table draws it.
    pub(super) fn drawn(self) -> Drawn {
        let cell = Drawn::new(self.text);
        match self.tone {
            Tone::Plain => cell,
            Tone::Good => cell.fg(Color::DarkGreen),
            Tone::Busy => cell.fg(Color::DarkYellow),
            Tone::Bad => cell.fg(Color::DarkRed),
        }
    }
}
