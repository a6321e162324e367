//! `daemon install-script`.

use clap::Args;

use super::super::{exit::Exit, failure::Failure, online::Online, print::write_out};

/// Print the script that makes a machine a node
///
/// It installs the agent that the fleet runs, joins with a token, and starts it; it is safe to run again, moves a node
/// between root and a user without rights, and removes it with --uninstall. Control serves the same at /install.sh:
///
///   better-compute daemon install-script >install.sh; sudo sh install.sh --token-file FILE
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(in crate::cli) struct InstallScript {
    /// Have the node run as a user without rights, with a helper
    #[arg(long)]
    unprivileged: bool,
}

impl InstallScript {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let query = self.unprivileged.then_some("unprivileged");
        let script = online.client.page("install.sh", query).await?;
        write_out(&script)?;
        Ok(Exit::Done)
    }
}
