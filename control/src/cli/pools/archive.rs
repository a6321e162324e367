//! `pools archive`.

use clap::Args;

use crate::{
    api::fleet::{OnePool, Pool},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// Archive a pool: no node joins it any more, and rollouts leave it out
#[derive(Debug, Args)]
pub(in crate::cli) struct Archive {
    /// Its id or name
    #[arg(value_name = "POOL")]
    pool: String,
}

impl Archive {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OnePool {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool(&self.pool).await?,
        };
        online.show::<Pool>("pools/archive", &request).await
    }
}
