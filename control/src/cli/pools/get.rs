//! `pools get`.

use clap::Args;

use crate::{
    api::fleet::{OnePool, Pool},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{Online, PoolScope},
    },
};

/// Show one pool
#[derive(Debug, Args)]
pub(in crate::cli) struct Get {
    /// Its name, its id, or the beginning or end of that
    #[arg(value_name = "POOL")]
    pool: String,
}

impl Get {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OnePool {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool_in(&self.pool, PoolScope::UsedFirst).await?,
        };
        online.show::<Pool>("pools/get", &request).await
    }
}
