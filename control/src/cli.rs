//! The command line.
//!
//! Takes the process's arguments, gives its exit code.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod release;

/// Roll one signed release through a fleet.
#[derive(Debug, Parser)]
#[command(name = "better-compute")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make keys, sign releases and check them, offline
    #[command(subcommand)]
    Release(release::ReleaseCommand),
    Serve(crate::serve::ServeArgs),
}

/// Does what the arguments say.
#[must_use]
pub fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Release(command) => command.run(),
        Command::Serve(args) => crate::serve::run(&args),
    }
}
