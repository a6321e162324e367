//! `bcd update`

#[cfg(feature = "faults")]
pub(super) mod by_hand;
mod check;

use std::io::{self, Write as _};

use clap::{Args, Subcommand, ValueEnum};

use super::{CommandError, Global, status};
use crate::{Build, hold, paths::Paths, shown::one_line, updater::host::Host};

/// See what this node is to run, and hold it back from updates or let it go on
#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show what this node runs, what its fleet tells it to run, whether it is held, and what happens next
    ///
    /// It changes nothing and asks nobody: it tells what the node was told last. Ends with 0 whatever there is to do, and
    /// with 1 where it cannot be found out; with --output json, upToDate says whether the binary that runs is the one that
    /// is wanted, which a held node may be as well.
    Check {
        /// For people or for programs
        #[arg(long, short, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Begin no update until `release`; a trial that runs goes on
    Hold {
        /// Why; operators of the fleet see it
        ///
        /// At most 200 characters. A node that is held keeps the reason that it has unless another one is given.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = reason)]
        reason: String,
    },
    /// Let updates begin again
    Release,
    #[cfg(feature = "faults")]
    #[command(flatten)]
    ByHand(by_hand::Step),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl Update {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        match self.what {
            What::Check { output } => {
                let held = hold::looked_at(&paths).map_err(|error| not_held(&paths, error))?;
                let checked = check::look(&Host::new(paths, &config), build, held)?;
                say(&match output {
                    Format::Text => checked.text(),
                    Format::Json => checked.json()?,
                })
            }
            What::Hold { reason } => {
                hold::hold(&paths, &reason).map_err(|error| not_held(&paths, error))?;
                say(&format!("{}\n", held_text(hold::reason(&paths).as_ref())))
            }
            What::Release => {
                hold::release(&paths).map_err(|error| not_held(&paths, error))?;
                say(&format!("{}\n", held_text(None)))
            }
            #[cfg(feature = "faults")]
            What::ByHand(step) => Ok(step.carry_out(&Host::new(paths, &config))?),
        }
    }
}

fn reason(text: &str) -> Result<String, String> {
    match text.chars().count() {
        0..=hold::REASON_CHARS_MAX => Ok(text.to_owned()),
        found => Err(format!(
            "expected at most {} characters, found {found}",
            hold::REASON_CHARS_MAX
        )),
    }
}

fn not_held(paths: &Paths, error: io::Error) -> CommandError {
    CommandError::file(hold::file(paths), error)
}

fn held_text(held: Option<&String>) -> String {
    match held {
        Some(reason) => format!("held: {}", one_line(reason)),
        None => "not held".to_owned(),
    }
}

fn say(text: &str) -> Result<(), CommandError> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(CommandError::Output)
}
