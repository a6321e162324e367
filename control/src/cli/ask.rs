//! Questions on the terminal.
//!
//! Takes a question, gives yes or a failure. Asks only where somebody can answer: a script is never held up.

use std::io::{self, IsTerminal};

use clap::Args;
use dialoguer::Confirm;

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
        .map_err(Failure::Terminal)?;
    if agreed {
        Ok(())
    } else {
        Err(Failure::Declined)
    }
}

/// Whether somebody sits there who can answer.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
