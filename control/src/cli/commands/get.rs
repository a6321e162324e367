//! `commands get`.

use bc_protocol::id::CommandId;
use clap::Args;

use super::watch::{WatchFlags, or_show};
use crate::{
    api::command::{Command, OneCommand},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// Show one command: how far it has come, and what was collected
///
/// `--query report` with `--output json` gives the report alone.
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "COMMAND")]
    command: Named<CommandId>,
    #[command(flatten)]
    watch: WatchFlags,
}

impl Get {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneCommand {
            tenant_id: online.client.tenant.clone(),
            command_id: online.id(&self.command).await?,
        };
        let found = online
            .client
            .call::<Command>("commands/get", &request)
            .await?;
        or_show(online, self.watch, found).await
    }
}
