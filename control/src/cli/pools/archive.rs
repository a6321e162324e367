//! `pools archive`.

use clap::Args;

use crate::{
    api::fleet::{ArchivePool, OnePool, Pool},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::{Online, PoolScope},
    },
};

/// Archive a pool: no node joins it any more, and rollouts leave it out
///
/// A pool with nodes in it is refused, unless --force says that they are to stay there without updates. `pools unarchive`
/// takes it back.
#[derive(Debug, Args)]
pub(in crate::cli) struct Archive {
    /// Its id or name
    #[arg(value_name = "POOL")]
    pool: String,
    /// Also where nodes are in it
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    consent: Consent,
}

impl Archive {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = ArchivePool {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool_in(&self.pool, PoolScope::UsedFirst).await?,
            force: self.force,
        };
        // Without nodes nothing is lost by it, and with nodes but without force it is refused.
        if self.force && self.consent.is_open() {
            confirm(&question(online, &request).await?, &self.consent)?;
        }
        online.show::<Pool>("pools/archive", &request).await
    }
}

/// Says what it is about.
async fn question(online: &Online, request: &ArchivePool) -> Result<String, Failure> {
    let request = OnePool {
        tenant_id: request.tenant_id.clone(),
        pool_id: request.pool_id.clone(),
    };
    let pool = online.client.call::<Pool>("pools/get", &request).await?;
    let Pool { name, nodes, .. } = pool.value;
    Ok(format!(
        "Archive the pool {name} with {nodes} nodes in it? They stay in the fleet, and get no release any more."
    ))
}
