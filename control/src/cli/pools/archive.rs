//! `pools archive`.

use clap::Args;

use crate::{
    api::fleet::{OnePool, Pool},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::{Online, PoolScope},
    },
};

/// Archive a pool: no node joins it any more, and rollouts leave it out
///
/// Nodes that are in it stay members and keep what they run; they get no release any more, and rollouts that they wait in go
/// on without them. `pools unarchive` takes it back.
#[derive(Debug, Args)]
pub(in crate::cli) struct Archive {
    /// Its name, its id, or the beginning or end of that
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    consent: Consent,
}

impl Archive {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = OnePool {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool_in(&self.pool, PoolScope::UsedFirst).await?,
        };
        if self.consent.is_open()
            && let Some(question) = question(online, &request).await?
        {
            confirm(&question, &self.consent)?;
        }
        online.show::<Pool>("pools/archive", &request).await
    }
}

/// Says what it is about; without nodes nothing is lost by it.
async fn question(online: &Online, request: &OnePool) -> Result<Option<String>, Failure> {
    let pool = online.client.call::<Pool>("pools/get", request).await?;
    let Pool {
        name,
        nodes,
        archived_at,
        ..
    } = pool.value;
    if nodes == 0 || archived_at.is_some() {
        return Ok(None);
    }
    Ok(Some(format!(
        "Archive the pool {name} with {nodes} nodes in it? They stay in the fleet, and get no release any more."
    )))
}
