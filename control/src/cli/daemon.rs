//! `better-compute daemon`.

use clap::Subcommand;

use super::{exit::Exit, failure::Failure, online::Online};

mod install_script;

/// Bring the agent to machines
#[derive(Debug, Subcommand)]
pub(super) enum DaemonCommand {
    InstallScript(install_script::InstallScript),
}

impl DaemonCommand {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        match self {
            Self::InstallScript(command) => command.run(online).await,
        }
    }
}
