//! `fleet freeze`.

use clap::Args;

use crate::{
    api::freeze::{Fleet, FreezeFleet},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::Online,
        rollouts::reason,
    },
};

/// Start nothing more in the tenant: no node of any rollout, and no late one
///
/// Nodes under way settle, and rollouts stay as they are, until `fleet unfreeze`.
#[derive(Debug, Args)]
pub(in crate::cli) struct Freeze {
    /// Why, for everybody who looks at it later
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    consent: Consent,
}

impl Freeze {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let question = format!(
            "Freeze tenant {}? Nothing starts in it until `fleet unfreeze`.",
            online.client.tenant
        );
        confirm(&question, &self.consent)?;
        let request = FreezeFleet {
            tenant_id: online.client.tenant.clone(),
            reason: self.reason,
        };
        online.show::<Fleet>("fleet/freeze", &request).await
    }
}
