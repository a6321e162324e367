//! `pools unarchive`.

use clap::Args;

use crate::{
    api::fleet::{OnePool, Pool},
    cli::{
        exit::Exit,
        failure::Failure,
        online::{Online, PoolScope},
    },
};

/// Take an archived pool into use again, with the nodes that are in it
#[derive(Debug, Args)]
pub(in crate::cli) struct Unarchive {
    /// Its name, its id, or the beginning or end of that
    #[arg(value_name = "POOL")]
    pool: String,
}

impl Unarchive {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OnePool {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool_in(&self.pool, PoolScope::ArchivedFirst).await?,
        };
        online.show::<Pool>("pools/unarchive", &request).await
    }
}
