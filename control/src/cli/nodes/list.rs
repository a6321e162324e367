//! `nodes list`.

use clap::Args;

use crate::{
    api::fleet::{ListNodes, Nodes},
    cli::{exit::Exit, failure::Failure, online::Online},
};

/// List nodes and the versions that they run
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Of one pool only, by id or name
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
}

impl List {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let pool_id = match self.pool {
            Some(pool) => Some(online.pool(&pool).await?),
            None => None,
        };
        let request = ListNodes {
            tenant_id: online.client.tenant.clone(),
            pool_id,
            after: None,
            limit: None,
        };
        online.show::<Nodes>("nodes/list", &request).await
    }
}
