//! `better-compute config`: the contexts of the config file.

use clap::Subcommand;

use super::{exit::Exit, failure::Failure, globals::Globals, settings::Environment};

mod list;
mod show;
mod use_context;

/// Choose between contexts, and see what is in force
///
/// The config file is ~/.config/better-compute/config.toml, or the one that --config names. It holds contexts:
///
///     current_context = "prod"
///
///     [contexts.prod]
///     url = "https://control.example"
///     token_file = "/home/me/.secrets/prod.token"   # or token = "…"
///     tenant = "root"
///     output = "table"
///     ca_file = "/etc/ssl/our-ca.pem"
///
/// `better-compute login` writes them. Flags count more than BETTER_COMPUTE_… variables, variables more than the
/// context.
#[derive(Debug, Subcommand)]
#[command(verbatim_doc_comment)]
pub(super) enum ConfigCommand {
    UseContext(use_context::UseContext),
    List(list::List),
    Show(show::Show),
}

impl ConfigCommand {
    pub(super) fn run(self, flags: &Globals, environment: &Environment) -> Result<Exit, Failure> {
        match self {
            Self::UseContext(command) => command.run(flags, environment),
            Self::List(command) => command.run(flags, environment),
            Self::Show(command) => command.run(flags, environment),
        }
    }
}
