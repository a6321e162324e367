//! `join-tokens list`.

use clap::Args;

use crate::{
    api::access::{JoinTokens, ListJoinTokens},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List join tokens, without their secrets; used-up, expired and revoked ones too
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Of this pool only, by id or name
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let pool_id = match &self.pool {
            Some(pool) => Some(online.pool(pool).await?),
            None => None,
        };
        let request = ListJoinTokens {
            tenant_id: online.client.tenant.clone(),
            pool_id,
        };
        online.show::<JoinTokens>("joinTokens/list", &request).await
    }
}
