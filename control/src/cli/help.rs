//! `help`.

use clap::{Args, Command};

use super::{exit::Exit, failure::Failure, print::write_out};

/// Show help for a command, or about exit-codes
#[derive(Debug, Args)]
pub(super) struct Help {
    /// The command, as in `help rollouts create`, or `exit-codes`
    #[arg(value_name = "NAME")]
    path: Vec<String>,
}

impl Help {
    pub(super) fn run(self, mut tree: Command) -> Result<Exit, Failure> {
        if self.path == ["exit-codes"] {
            write_out(&Exit::help())?;
            return Ok(Exit::Done);
        }
        // Gives every command its full name, as usage lines show it.
        tree.build();
        let mut command = &mut tree;
        for name in &self.path {
            command = command.find_subcommand_mut(name).ok_or_else(|| {
                Failure::Usage(format!(
                    "expected a command or exit-codes, found \"{}\"",
                    self.path.join(" ")
                ))
            })?;
        }
        write_out(&command.render_long_help().ansi().to_string())?;
        Ok(Exit::Done)
    }
}
