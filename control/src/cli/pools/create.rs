//! `pools create`.

use bc_protocol::share::Share;
use clap::Args;

use crate::{
    api::fleet::{CreatePool, Pool, PoolPolicy},
    cli::{dry::DryRun, exit::Exit, failure::Failure, online::Online, shares},
};

/// Make a pool that nodes can join
#[derive(Debug, Args)]
pub(in crate::cli) struct Create {
    /// What people call it
    #[arg(value_name = "NAME")]
    name: String,
    /// The share of its nodes that may be disrupted at once, like 0.05 or 5%, rounded down and at least one node; control's default is 0.05
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = shares::share)]
    budget: Option<Share>,
    #[command(flatten)]
    dry_run: DryRun,
}

impl Create {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let policy = self
            .budget
            .map(|disruption_budget| PoolPolicy { disruption_budget });
        let request = CreatePool {
            tenant_id: online.client.tenant.clone(),
            name: self.name,
            policy: policy.unwrap_or_default(),
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "pools/create", &request);
        }
        online.show::<Pool>("pools/create", &request).await
    }
}
