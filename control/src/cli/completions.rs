//! `completions`.

use clap::{Args, Command};
use clap_complete::Shell;

use super::{exit::Exit, failure::Failure, print::write_out};

/// Print a script that lets the shell complete this program's arguments
///
/// For bash: source <(better-compute completions bash)
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// For which shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, mut tree: Command) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        let name = tree.get_name().to_owned();
        clap_complete::generate(self.shell, &mut tree, name, &mut script);
        write_out(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
