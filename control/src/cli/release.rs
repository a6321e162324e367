//! `better-compute release`: the offline half of a release.
//!
//! Takes files, gives files and what a person needs to see of them. Opens no connection and asks no server: the keys
//! that sign releases are only ever where this runs.

use std::io::Write;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

mod cosign;
mod failure;
mod file;
mod keygen;
mod show;
mod sign;
mod verify;

use failure::Failure;

/// Make keys, sign releases and check them, offline
#[derive(Debug, Subcommand)]
pub(crate) enum ReleaseCommand {
    Keygen(keygen::Keygen),
    Sign(sign::Sign),
    Show(show::Show),
    Cosign(cosign::Cosign),
    Verify(verify::Verify),
}

impl ReleaseCommand {
    /// Does it, and says how it ended: 0, or 1 with the reason on standard error.
    pub(crate) fn run(self) -> ExitCode {
        let format = self.format();
        let mut out = anstream::stdout().lock();
        let done = self
            .execute(&mut out)
            .and_then(|()| out.flush().map_err(Failure::output));
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                // Where standard error cannot be written either, the exit code is all that is left to say.
                let _unwritable = failure.print(format, &mut anstream::stderr().lock());
                ExitCode::FAILURE
            }
        }
    }

    fn execute(self, out: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Keygen(command) => command.execute(out),
            Self::Sign(command) => command.execute(out),
            Self::Show(command) => command.execute(out),
            Self::Cosign(command) => command.execute(out),
            Self::Verify(command) => command.execute(out),
        }
    }

    const fn format(&self) -> Format {
        match self {
            Self::Keygen(command) => command.output,
            Self::Show(command) => command.output,
            Self::Verify(command) => command.output,
            Self::Sign(_) | Self::Cosign(_) => Format::Text,
        }
    }
}

/// Whom the output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    Text,
    /// For programs: one object.
    Json,
}
