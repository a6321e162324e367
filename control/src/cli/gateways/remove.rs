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
        sheet::printable,
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
        if self.consent.is_open() {
            let question = self.question(online, &gateway_id).await?;
            confirm(&question, &self.consent)?;
        }
        let request = RemoveGateway {
            tenant_id: online.client.tenant.clone(),
            gateway_id,
        };
        online
            .show::<RemovedGateway>("gateways/remove", &request)
            .await
    }

    /// Says what is lost by it.
    async fn question(&self, online: &Online, id: &GatewayId) -> Result<String, Failure> {
        let request = ListGateways {
            tenant_id: online.client.tenant.clone(),
        };
        let listed = online.client.call::<Gateways>("gateways/list", &request);
        let gateways = listed.await?.value.gateways;
        Ok(question(&self.gateway, id, &gateways))
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

/// A fleet may live by one gateway alone.
fn question(called: &str, id: &GatewayId, gateways: &[Gateway]) -> String {
    let is_linked = |gateway: &&Gateway| gateway.linked;
    let is_it = |gateway: &Gateway| gateway.id == *id;
    let (it, others): (Vec<&Gateway>, Vec<&Gateway>) = gateways
        .iter()
        .filter(is_linked)
        .partition(|gateway| is_it(gateway));
    let what = match (it.is_empty(), others.len()) {
        (true, _) => "It is not linked.",
        (false, 0) => "It is linked, and no other is: control sees no node until another one is.",
        (false, _) => "It is linked: stop it, and its nodes go to another one.",
    };
    format!("{what} Remove the gateway {}?", printable(called))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gateway(number: u32, linked: bool) -> Gateway {
        serde_json::from_value(json!({
            "id": format!("gw_{number:026}"), "name": format!("g{number}"),
            "url": "wss://localhost/session", "enrolled": true, "linked": linked,
        }))
        .unwrap()
    }

    #[test]
    fn the_last_linked_gateway_is_not_removed_unawares() {
        let asked = |first, second| {
            let all = [gateway(1, first), gateway(2, second)];
            question("g1", &all[0].id, &all)
        };
        for (first, second, begin) in [
            (true, false, "It is linked, and no other is:"),
            (true, true, "It is linked: stop it"),
            (false, true, "It is not linked."),
        ] {
            let asked = asked(first, second);
            assert!(asked.starts_with(begin), "{asked}");
            assert!(asked.ends_with("Remove the gateway g1?"), "{asked}");
        }
    }
}
