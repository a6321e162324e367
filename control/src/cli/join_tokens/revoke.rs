//! `join-tokens revoke`.

use bc_protocol::id::JoinTokenId;
use clap::Args;

use crate::{
    api::access::{JoinToken, OneJoinToken},
    cli::{exit::Exit, failure::Failure, named::Named, online::Online},
};

/// Let nobody in with a join token any more; nodes that joined with it stay
#[derive(Debug, Args)]
pub(in crate::cli) struct Revoke {
    /// Its id, or the beginning or end of it
    #[arg(value_name = "JOIN_TOKEN")]
    token: Named<JoinTokenId>,
}

impl Revoke {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneJoinToken {
            tenant_id: online.client.tenant.clone(),
            join_token_id: online.id(&self.token).await?,
        };
        online
            .show::<JoinToken>("joinTokens/revoke", &request)
            .await
    }
}
