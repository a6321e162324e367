//! `tokens revoke`.

use bc_protocol::id::TokenId;
use clap::Args;

use crate::{
    api::access::{OneToken, Token},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Take an API token back: nobody is known by it any more
#[derive(Debug, Args)]
pub(in crate::cli) struct Revoke {
    /// Its id
    #[arg(value_name = "TOKEN_ID")]
    token: TokenId,
}

impl Revoke {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OneToken {
            tenant_id: online.client.tenant.clone(),
            token_id: self.token,
        };
        online.show::<Token>("tokens/revoke", &request).await
    }
}
