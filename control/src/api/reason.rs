//! What an operator may write as a reason.
//!
//! It goes into logs, tables and terminals, and not every database takes a NUL.

use thiserror::Error;

/// Characters of a reason: what a table and a chat message can show.
pub(crate) const CHARS_MAX: usize = 500;

/// Why a text is no reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum NoReason {
    /// Nobody reads that far.
    #[error("expected at most {CHARS_MAX} characters, found {found}")]
    TooLong {
        /// Its characters.
        found: usize,
    },
    /// It would change the terminal that shows it.
    #[error("expected text without control characters, found {}", found.escape_default())]
    Control {
        /// The first of them.
        found: char,
    },
}

/// Whether a text can be shown. A longer one may have lines.
pub(crate) fn check(reason: &str) -> Result<(), NoReason> {
    let found = reason.chars().count();
    if found > CHARS_MAX {
        return Err(NoReason::TooLong { found });
    }
    let unprintable =
        |character: &char| character.is_control() && !['\n', '\t'].contains(character);
    match reason.chars().find(unprintable) {
        Some(found) => Err(NoReason::Control { found }),
        None => Ok(()),
    }
}
