//! The token: whether control knows it, and what it may do.

use serde::{Serialize, de::DeserializeOwned};

use super::Findings;
use crate::{
    api::{
        access::{ListTokens, Tokens},
        error::Code,
        fleet::{ListPools, Pools},
        freeze::{FleetSummary, OneFleet},
    },
    cli::{
        client::{CallError, Client},
        failure::Failure,
    },
};

const CHECK: &str = "token";

/// What the token may do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rights {
    /// Releases, rollouts, gateways, freezes.
    pub drives_rollouts: bool,
}

/// Looks at what the token may do, by doing what changes nothing.
pub(super) async fn look(client: &Client, to: &mut Findings) -> Rights {
    let tenant_id = || client.tenant.clone();
    let pools = ListPools {
        tenant_id: tenant_id(),
    };
    let summary = OneFleet {
        tenant_id: tenant_id(),
    };
    let tokens = ListTokens {
        tenant_id: tenant_id(),
    };
    let answers = [
        may::<Pools>(client, "pools/list", &pools).await,
        may::<FleetSummary>(client, "fleet/summary", &summary).await,
        may::<Tokens>(client, "tokens/list", &tokens).await,
    ];
    let [Ok(pools), Ok(rollouts), Ok(tokens)] = answers else {
        for failure in answers.into_iter().filter_map(Result::err).take(1) {
            to.failed(CHECK, &failure);
        }
        return Rights::default();
    };
    tell(
        &client.tenant.to_string(),
        &[
            (pools, "look at pools and nodes"),
            (rollouts, "drive rollouts"),
            (tokens, "make tokens"),
        ],
        to,
    );
    Rights {
        drives_rollouts: rollouts,
    }
}

fn tell(tenant: &str, rights: &[(bool, &str)], to: &mut Findings) {
    let named = |may: bool| -> Vec<&str> {
        let those = rights.iter().filter(|(allowed, _)| *allowed == may);
        those.map(|(_, what)| *what).collect()
    };
    let (may, may_not) = (named(true), named(false));
    let hint = "an administrator can make one that may: `better-compute tokens create`";
    if may_not.is_empty() {
        to.good(CHECK, format!("in {tenant} it may {}", may.join(", ")));
    } else if may.is_empty() {
        let found = format!("known, but in {tenant} it may not {}", may_not.join(", "));
        to.wrong(CHECK, found, hint);
    } else {
        let (may, may_not) = (may.join(", "), may_not.join(", "));
        to.note(
            CHECK,
            format!("in {tenant} it may {may}; not {may_not}"),
            hint,
        );
    }
}

async fn may<T: DeserializeOwned>(
    client: &Client,
    method: &'static str,
    request: &impl Serialize,
) -> Result<bool, Failure> {
    match client.call::<T>(method, request).await {
        Ok(_) => Ok(true),
        Err(CallError::Refused { refusal }) if refusal.object.code == Code::AccessDenied => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
