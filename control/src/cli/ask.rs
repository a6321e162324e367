//! Questions on the terminal.
//!
//! Takes a question, gives yes or a failure. Asks only where somebody can answer: a script is never held up.

use std::io::{self, IsTerminal};

use clap::Args;
use dialoguer::{Confirm, console::Term};

use super::failure::Failure;

/// Whether the operator has agreed beforehand.
#[derive(Debug, Args)]
pub(super) struct Consent {
    /// Do not ask; off a terminal nothing is asked anyway
    #[arg(long, short = 'y')]
    yes: bool,
}

impl Consent {
    /// Whether it is still to be asked for.
    pub(super) fn is_open(&self) -> bool {
        !self.yes && is_interactive()
    }
}

/// Asks, where it makes sense to ask.
pub(super) fn confirm(question: &str, consent: &Consent) -> Result<(), Failure> {
    if !consent.is_open() {
        return Ok(());
    }
    let agreed = Confirm::new()
        .with_prompt(question)
        .default(false)
        .interact()
        .map_err(unanswered)?;
    if agreed {
        Ok(())
    } else {
        Err(Failure::Declined)
    }
}

/// Why there is no answer. Ctrl-C leaves the cursor hidden, as it was while the question stood.
pub(super) fn unanswered(error: dialoguer::Error) -> Failure {
    let dialoguer::Error::IO(cause) = &error;
    if cause.kind() == io::ErrorKind::Interrupted {
        // A terminal that does not show it has gone away.
        let _gone = Term::stderr().show_cursor();
        return Failure::Interrupted;
    }
    Failure::Terminal(error)
}

/// Whether somebody sits there who can answer.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
