//! `gateways remove`.

use bc_protocol::id::GatewayId;
use clap::Args;

use crate::{
    api::gateway::{Gateway, Gateways, ListGateways, RemoveGateway, RemovedGateway},
    cli::{
        ask::{Consent, confirm},
        exit::Exit,
        failure::Failure,
        named::{is_meant, is_part, only},
        online::Online,
    },
};

/// Remove a gateway: control closes its link, takes no other from it, and names it to no node
///
/// Stop it first, so that its nodes go to another one. A token that it has not enrolled with is worth nothing any more,
/// and another gateway can have its name.
#[derive(Debug, Args)]
pub(in crate::cli) struct Remove {
    /// Its name, its id, or the beginning or end of that
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
        let gateways = listed.await?.value.gateways;
        let named = |gateway: &&Gateway| gateway.name == self.gateway;
        if let Some(gateway) = gateways.iter().find(named) {
            return Ok(gateway.id.clone());
        }
        let meant = |id: &GatewayId| {
            is_part::<GatewayId>(&self.gateway) && is_meant::<GatewayId>(&self.gateway, id.as_str())
        };
        let ids = gateways.into_iter().map(|gateway| gateway.id);
        match ids.filter(meant).collect::<Vec<_>>() {
            none if none.is_empty() => Err(Failure::NoGateway {
                name: self.gateway.clone(),
            }),
            found => only(&self.gateway, found),
        }
    }
}
