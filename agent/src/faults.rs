//! Deliberate misbehaviour, for demonstrations and tests of everything that has to survive it.
//!
//! Takes the word that a build was given, gives a [`Fault`]. Compiled only with the feature `faults`.

use thiserror::Error;

/// One way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `bcd node` starts and logs, and never opens a connection.
    NeverConnects,
}

/// A build was given a word that names no fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected BCD_FAULT to be never-connects when this program was built, found \"{found}\"")]
pub(crate) struct UnknownFault {
    found: String,
}

impl Fault {
    /// The fault of that name.
    pub(crate) fn named(word: &str) -> Result<Self, UnknownFault> {
        match word {
            "never-connects" => Ok(Self::NeverConnects),
            other => Err(UnknownFault {
                found: other.to_owned(),
            }),
        }
    }
}
