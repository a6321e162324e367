//! `pools update`.

use bc_protocol::share::Share;
use clap::{ArgGroup, Args};

use crate::{
    api::fleet::{Pool, PoolPolicy, UpdatePool},
    cli::{exit::Exit, failure::Failure, online::Online, shares},
};

/// Change a pool's name or budget
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("change").args(["name", "budget"]).required(true).multiple(true)))]
pub(in crate::cli) struct Update {
    /// Its name, its id, or the beginning or end of that
    #[arg(value_name = "POOL")]
    pool: String,
    /// A new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// A new share of its nodes that may be disrupted at once, like 0.05 or 5%, rounded down and at least one node
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = shares::share)]
    budget: Option<Share>,
}

impl Update {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = UpdatePool {
            tenant_id: online.client.tenant.clone(),
            pool_id: online.pool(&self.pool).await?,
            name: self.name,
            policy: self
                .budget
                .map(|disruption_budget| PoolPolicy { disruption_budget }),
        };
        online.show::<Pool>("pools/update", &request).await
    }
}
