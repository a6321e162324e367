//! Nodes and helpers of different ages.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{
    super::{
        node::{Node, Rights},
        yard::{Kind, Yard},
    },
    told,
};
use crate::fleet::now;

/// How long it may take until control knows that a helper is too old.
const REPORTED: Duration = Duration::from_secs(15);

/// A helper that does not know what is asked says so, and the node reports it; a newer one takes the next release.
pub(super) async fn older(yard: &mut Yard) -> Result<()> {
    // The helper is what is confirmed: a binary that does as it is told.
    release(yard, Kind::Told).await?;
    for node in unprivileged(yard) {
        node.machine.shell(
            "mkdir -p /run/systemd/system/bcd-helper.service.d\n\
             printf '[Service]\\nEnvironment=BCD_FAULT=old-helper\\n' >/run/systemd/system/bcd-helper.service.d/old.conf\n\
             systemctl daemon-reload; systemctl stop bcd-helper.service",
        )?;
    }
    let (_, rollout) = yard.roll_out(Kind::Good)?;
    let began = now();
    let reported = reported(yard, &rollout).await;
    let seconds = began.elapsed().as_secs_f64();
    // It would be tried again and again, each time after a longer wait.
    let abort = ["rollouts", "abort", &rollout, "--yes"];
    let aborted = yard.fleet.operator.run(&abort);
    for node in unprivileged(yard) {
        node.machine.shell(
            "rm -r /run/systemd/system/bcd-helper.service.d; systemctl daemon-reload; systemctl stop bcd-helper.service",
        )?;
    }
    reported?;
    aborted?;
    yard.figure(&format!("helper_unsupported_s={seconds:.1}"));
    release(yard, Kind::Good).await
}

/// Whether control has heard of every node without rights why it stays as it is.
async fn reported(yard: &Yard, rollout: &str) -> Result<()> {
    let expected = unprivileged(yard).count();
    let says_so = |row: &&Value| {
        let error = row.get("error").and_then(Value::as_str);
        error.is_some_and(|error| error.contains("helper-unsupported"))
    };
    let operator = &yard.fleet.operator;
    let what = "every node has reported its helper";
    operator
        .until(what, REPORTED, |operator| {
            let found = operator.json(&["rollouts", "get", rollout])?;
            let rows = found.get("nodeList").and_then(Value::as_array);
            let found = rows.into_iter().flatten().filter(says_so).count();
            Ok((found >= expected).then_some(()))
        })
        .await
}

/// A node that speaks an older protocol gets on with its helper and its gateway, and is brought to the newest.
pub(super) async fn older_node(yard: &mut Yard) -> Result<()> {
    told(yard, "old-protocol")?;
    let older = release(yard, Kind::Told).await;
    // It still is one while the next release comes, which heeds no word.
    let newer = match older {
        Ok(()) => release(yard, Kind::Good).await,
        Err(error) => Err(error),
    };
    told(yard, "")?;
    newer
}

pub(super) async fn release(yard: &mut Yard, kind: Kind) -> Result<()> {
    let (version, rollout) = yard.roll_out(kind)?;
    let state = yard.ended(&rollout).await?;
    ensure!(state == "completed", "the rollout of {version} is {state}");
    yard.confirmed = version;
    yard.at_rest().await
}

fn unprivileged(yard: &Yard) -> impl Iterator<Item = &Node> {
    let nodes = yard.nodes.iter();
    nodes.filter(|node| node.rights == Rights::Unprivileged)
}
