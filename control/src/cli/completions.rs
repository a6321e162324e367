//! `completions`, and what the shell asks for while somebody types.

use std::ffi::OsString;

use clap::{Args, Command};
use clap_complete::{
    Shell,
    env::{CompleteEnv, Shells},
};

use super::{exit::Exit, failure::Failure, print::write_out};

mod candidates;

/// Where the shell says which one it is, when it asks.
const VARIABLE: &str = "BETTER_COMPUTE_COMPLETE";

/// Print a script that lets the shell complete this program's arguments
///
/// Commands and flags, and the ids and names of rollouts, nodes, pools and releases of the control that is in force.
///
/// bash: source <(better-compute completions bash)
///
/// zsh: source <(better-compute completions zsh)
///
/// fish: better-compute completions fish | source
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, tree: &Command) -> Result<Exit, Failure> {
        let shell = self.shell.to_string();
        let shells = Shells::builtins();
        let Some(completer) = shells.completer(&shell) else {
            return Err(Failure::Usage(format!("expected a shell, found {shell}")));
        };
        let name = tree.get_name();
        let mut script = Vec::new();
        completer
            .write_registration(VARIABLE, name, name, name, &mut script)
            .map_err(Failure::Runtime)?;
        write_out(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}

/// Answers the shell, if it is the shell that asks.
pub(super) fn answer(tree: fn() -> Command) -> Result<Answered, clap::Error> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(Answered::NotAsked);
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let here = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(|| candidates::add(tree()))
        .var(VARIABLE)
        .try_complete(words, here.as_deref())?;
    Ok(if answered {
        Answered::Done
    } else {
        Answered::NotAsked
    })
}

/// Whether it was the shell that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// It was, and has its answer.
    Done,
    /// It was somebody who wants something done.
    NotAsked,
}
