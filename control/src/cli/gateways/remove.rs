//! `gateways remove`.

use bc_protocol::id::GatewayId;
use clap::Args;

use crate::{
    api::gateway::{Gateways, ListGateways, RemoveGateway, RemovedGateway},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        online::Online,
    },
};

/// Remove a gateway: control closes its link, takes no other from it, and names it to no node
///
/// Stop it first, so that its nodes go to another one. A token that it has not enrolled with is worth nothing any more,
/// and another gateway can have its name.
#[derive(Debug, Args)]
pub(in crate::cli) struct Remove {
    /// Its id or its name
    #[arg(value_name = "GATEWAY")]
    gateway: String,
    #[command(flatten)]
    consent: Consent,
}

impl Remove {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let gateway_id = self.meant(online).await?;
        let question = format!("Remove the gateway {}?", self.gateway);
        confirm(&question, &self.consent)?;
        let request = RemoveGateway {
            tenant_id: online.client.tenant.clone(),
            gateway_id,
        };
        online
            .show::<RemovedGateway>("gateways/remove", &request)
            .await
    }

    async fn meant(&self, online: &Online) -> Result<GatewayId, Failure> {
        // Also of one that is gone: to remove it twice is no mistake.
        if let Ok(id) = self.gateway.parse() {
            return Ok(id);
        }
        let request = ListGateways {
            tenant_id: online.client.tenant.clone(),
        };
        let listed = online.client.call::<Gateways>("gateways/list", &request);
        listed
            .await?
            .value
            .gateways
            .into_iter()
            .find(|gateway| gateway.name == self.gateway)
            .map(|gateway| gateway.id)
            .ok_or_else(|| Failure::NoGateway {
                name: self.gateway.clone(),
            })
    }
}
