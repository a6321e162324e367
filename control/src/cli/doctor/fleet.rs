//! What only operators of the platform may look at: freezes, gateways, releases.

use std::time::Duration;

use bc_protocol::id::TenantId;

use super::Findings;
use crate::{
    api::{
        freeze::{FleetSummary, OneFleet},
        gateway::{Gateways, ListGateways},
        release::{ListReleases, Releases},
    },
    cli::{client::Client, failure::Failure, sheet::second},
    clock::Moment,
};

/// Signing takes people, and people take days.
const EXPIRY_NOTICE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Looks at what would keep a rollout from moving.
pub(super) async fn look(client: &Client, to: &mut Findings) {
    let tenant_id = || client.tenant.clone();
    let request = OneFleet {
        tenant_id: tenant_id(),
    };
    match client.call::<FleetSummary>("fleet/summary", &request).await {
        Ok(summary) => freeze(&client.tenant, &summary.value, to),
        Err(error) => to.failed("fleet", &Failure::from(error)),
    }
    let request = ListGateways {
        tenant_id: tenant_id(),
    };
    match client.call::<Gateways>("gateways/list", &request).await {
        Ok(gateways) => links(&gateways.value, to),
        Err(error) => to.failed("gateways", &Failure::from(error)),
    }
    let request = ListReleases {
        tenant_id: tenant_id(),
    };
    match client.call::<Releases>("releases/list", &request).await {
        Ok(releases) => expiry(&releases.value, to),
        Err(error) => to.failed("releases", &Failure::from(error)),
    }
}

fn freeze(tenant: &TenantId, summary: &FleetSummary, to: &mut Findings) {
    let total = &summary.total;
    match &summary.frozen {
        None if summary.pools.is_empty() => to.note(
            "fleet",
            format!("tenant {tenant} has no pool"),
            "is it spelled as it should be? `better-compute config show` says where it comes from; `pools create` makes a pool",
        ),
        None if total.online == 0 && total.nodes > 0 => to.wrong(
            "fleet",
            format!("none of {} nodes is online", total.nodes),
            "look whether a gateway runs where nodes look for one; `bcd doctor` on a node goes the way from there",
        ),
        None if total.refusing > 0 => to.note(
            "fleet",
            format!(
                "{} of {} nodes online, {} refuse what they are told to run",
                total.online, total.nodes, total.refusing
            ),
            "`better-compute nodes list --failed` shows them and why; once that is mended, `rollouts retry` of a completed rollout, or another rollout, tries them again",
        ),
        None => to.good(
            "fleet",
            format!("{} of {} nodes online", total.online, total.nodes),
        ),
        Some(frozen) => to.note(
            "fleet",
            format!("frozen by {}: {}", frozen.by, frozen.reason),
            "`better-compute fleet unfreeze` lets nodes start again",
        ),
    }
}

fn links(gateways: &Gateways, to: &mut Findings) {
    const CHECK: &str = "gateways";
    let enrolled = || gateways.gateways.iter().filter(|gateway| gateway.enrolled);
    let away: Vec<&str> = enrolled()
        .filter(|gateway| !gateway.linked)
        .map(|gateway| gateway.name.as_str())
        .collect();
    match (enrolled().count(), away.as_slice()) {
        (0, _) => to.wrong(
            CHECK,
            "none has enrolled: nodes have nowhere to go",
            "`better-compute gateways enrol NAME --url wss://HOST/session` lets one in",
        ),
        (all, []) => to.good(CHECK, format!("{all} of {all} linked")),
        (_, away) => to.wrong(
            CHECK,
            format!("not linked: {}", away.join(", ")),
            "their own /readyz and logs say why; nodes keep their sessions meanwhile",
        ),
    }
}

fn expiry(releases: &Releases, to: &mut Findings) {
    const CHECK: &str = "releases";
    let Some(newest) = releases.releases.first() else {
        return to.note(
            CHECK,
            "none is registered",
            "`better-compute releases publish DIR` registers one",
        );
    };
    let (version, end) = (&newest.version, Moment::from(newest.expires_at));
    let now = Moment::now();
    let mend =
        "sign the same files anew with a later --expires and register that: it renews the release";
    if end <= now {
        let found = format!("{version} has expired at {}: nodes refuse it", second(end));
        to.wrong(CHECK, found, mend);
    } else if end <= now.plus(EXPIRY_NOTICE) {
        to.note(CHECK, format!("{version} expires at {}", second(end)), mend);
    } else {
        let found = format!("{version} is the newest, good until {}", second(end));
        to.good(CHECK, found);
    }
}
