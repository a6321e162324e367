//! `man`.

use std::path::PathBuf;

use clap::{Args, Command};

use super::{exit::Exit, failure::Failure};

/// Write the manual: a page for this program and one for each of its commands
///
/// Made of the same texts as --help. Packages put the pages where `man` finds them.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// The folder; it is made where there is none
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Man {
    pub(super) fn run(self, tree: Command) -> Result<Exit, Failure> {
        // A page for `help` would say what every page says.
        let tree = tree.disable_help_subcommand(true);
        std::fs::create_dir_all(&self.out)
            .and_then(|()| clap_mangen::generate_to(tree, &self.out))
            .map_err(|source| Failure::Write {
                path: self.out,
                source,
            })?;
        Ok(Exit::Done)
    }
}
