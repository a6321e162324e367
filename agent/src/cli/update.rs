//! `bcd update`

#[cfg(feature = "faults")]
pub(super) mod by_hand;

use std::io::{self, Write as _};

use bc_protocol::version::Version;
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::{CommandError, Global, status};
use crate::{
    Build, hold,
    node::memory,
    paths::Paths,
    shown::one_line,
    updater::host::{Host, HostError},
};

/// See what this node is to run, and hold it back from updates or let it go on
#[derive(Debug, Args)]
pub(super) struct Update {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show what this node runs, what its fleet wants it to run, and whether it is held
    Check {
        /// For people or for programs
        #[arg(long, short, value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    /// Begin no update until `release`; a trial that runs goes on
    Hold {
        /// Why; operators of the fleet see it
        #[arg(long, value_name = "TEXT", default_value = "")]
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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    running: String,
    /// Absent where the fleet has not said.
    wanted: Option<Version>,
    up_to_date: bool,
    /// The owner's reason.
    held: Option<String>,
}

impl Update {
    pub(super) fn run(self, global: &Global, build: Build) -> Result<(), CommandError> {
        let (config, paths) = global.load()?;
        match self.what {
            What::Check { output } => {
                let held = hold::seen(&paths).map_err(|error| not_held(&paths, error))?;
                let checked = check(&Host::new(paths, &config), build, held)?;
                say(&match output {
                    Format::Text => text_of(&checked),
                    Format::Json => {
                        let json = serde_json::to_string(&checked);
                        json.map_err(|error| CommandError::Output(error.into()))? + "\n"
                    }
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

fn not_held(paths: &Paths, error: io::Error) -> CommandError {
    CommandError::file(hold::file(paths), error)
}

fn check(host: &Host, build: Build, held: Option<String>) -> Result<Checked, HostError> {
    let running = status::version_of(host, &host.status()?, build);
    let paths: &Paths = host.paths();
    let section = memory::spec(paths).and_then(|spec| spec.daemon);
    let wanted = section.map(|section| section.version);
    Ok(Checked {
        up_to_date: wanted
            .as_ref()
            .is_none_or(|wanted| wanted.as_str() == running),
        running,
        wanted,
        held,
    })
}

fn text_of(checked: &Checked) -> String {
    let wanted = match &checked.wanted {
        Some(wanted) if checked.up_to_date => format!("{wanted}: up to date"),
        Some(wanted) => wanted.to_string(),
        None => "nothing in particular".to_owned(),
    };
    format!(
        "running      {}\nwanted       {wanted}\nupdates      {}\n",
        checked.running,
        held_text(checked.held.as_ref())
    )
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
