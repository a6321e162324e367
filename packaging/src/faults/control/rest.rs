//! How everything has to stand once nobody strikes any more.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::time::sleep;

use super::{history::DATABASE, house::House, patience::Patience, watch::Watcher};

/// How long everybody may take to be back and done. A node that found its gateway gone time and again may wait a minute.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a watcher may be behind: he waits for a heartbeat of a control that stood still.
const WATCHED: Duration = Duration::from_secs(45);

/// What is not at rest, by name; all of it has to be nothing. Nobody can compute what nodes of the rollout that never
/// ends should run.
const UNREST: &str = "
    SELECT
    (SELECT count(*) FROM disruptions d JOIN pools p ON p.id = d.pool_id WHERE p.name <> 'never') AS places,
    (SELECT coalesce(sum(disrupted), 0) FROM pools WHERE name <> 'never') AS disrupted,
    (SELECT count(*) FROM rollout_late WHERE state = 'upgrading') AS late,
    (SELECT count(*) FROM nodes n JOIN pools p ON p.id = n.pool_id LEFT JOIN node_facts f ON f.node_id = n.id
     WHERE n.removed_at IS NULL AND p.name <> 'never' AND coalesce(f.online, 0) = 0) AS offline,
    (SELECT count(*) FROM nodes n JOIN pools p ON p.id = n.pool_id JOIN node_facts f ON f.node_id = n.id
     WHERE n.removed_at IS NULL AND p.name <> 'never' AND n.spec_version IS NOT NULL
     AND n.spec_version <> f.version) AS elsewhere,
    (SELECT count(*) FROM nodes n JOIN pools p ON p.id = n.pool_id JOIN node_facts f ON f.node_id = n.id
     WHERE n.removed_at IS NULL AND p.name <> 'never' AND n.spec_version IS NOT NULL
     AND f.observed_generation > n.generation) AS beyond,
    (SELECT count(*) FROM commands c JOIN nodes n ON n.id = c.node_id
     WHERE n.removed_at IS NULL AND c.state IN ('pending', 'dispatched')) AS commands";

/// What there must be nothing of in the whole database, whenever it is at rest.
const BROKEN: [(&str, &str); 5] = [
    (
        "I19: nodes in several rollouts that run",
        "SELECT r.node AS found FROM rollout_rows r JOIN rollouts o ON o.number = r.rollout
         WHERE o.state IN ('running', 'paused') GROUP BY r.node HAVING count(*) > 1",
    ),
    (
        "I26: commands that ended without an event, or with several",
        "SELECT c.id || ' of ' || c.node_id || ', ' || c.state AS found FROM commands c
         WHERE c.state NOT IN ('pending', 'dispatched') AND 1 <>
         (SELECT count(*) FROM events e WHERE e.subject = 'node/' || c.node_id AND e.type = 'command.ended'
          AND e.data::jsonb ->> 'commandId' = c.id)",
    ),
    (
        "I28: rollouts of one key",
        "SELECT version AS found FROM rollouts GROUP BY version HAVING count(*) > 1",
    ),
    (
        "I30: attempts that ended twice",
        "SELECT min(data) AS found FROM events WHERE type IN ('node.upgraded', 'node.upgrade-failed')
         GROUP BY subject, data::jsonb ->> 'attempt' HAVING count(*) > 1",
    ),
    (
        "I18: releases whose sequences do not grow",
        "SELECT b.version AS found FROM daemon_releases a JOIN daemon_releases b ON a.registered_at < b.registered_at
         WHERE a.sequence >= b.sequence",
    ),
];

/// Waits until every node of the campaign has its session.
pub(super) async fn online(house: &House) -> Result<()> {
    let mut patience = Patience::of(PATIENCE);
    let offline = "SELECT count(*) FROM nodes n LEFT JOIN node_facts f ON f.node_id = n.id
        WHERE n.removed_at IS NULL AND coalesce(f.online, 0) = 0";
    loop {
        let offline = house.cluster.sql(DATABASE, offline).await?;
        if offline == "0" {
            return Ok(());
        }
        anyhow::ensure!(
            !patience.is_over(),
            "expected every node to be online within {PATIENCE:?}, {offline} are not\n{}",
            house.pair.logs()
        );
        sleep(Duration::from_millis(50)).await;
    }
}

/// I32: waits until every node is where it should be and every place is given back; gives what is not so in the end.
pub(super) async fn wait(house: &House) -> Result<Vec<String>> {
    let mut patience = Patience::of(PATIENCE);
    loop {
        let rows = house.cluster.rows(DATABASE, UNREST).await?;
        let row = rows.first().and_then(Value::as_object);
        let row = row.context("one row of counts")?;
        let unrest: Vec<String> = row
            .iter()
            .filter(|(_, count)| count.as_i64() != Some(0))
            .map(|(name, count)| format!("I32: {name}: {count} after {PATIENCE:?}"))
            .collect();
        if unrest.is_empty() || patience.is_over() {
            return Ok(unrest);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// What is broken in the rows, now that everything is at rest.
pub(super) async fn look(house: &House, rollout: &str) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (what, query) in BROKEN {
        for found in house.cluster.rows(DATABASE, query).await? {
            wrong.push(format!("{what}: {found}"));
        }
    }
    // A row that was rolled back, or failed by an abort, may have another end than its attempt.
    let unsaid = format!(
        "SELECT count(*) FROM rollout_nodes r JOIN rollouts o ON o.id = r.rollout_id
         WHERE o.id = '{rollout}' AND o.state = 'completed' AND r.state = 'succeeded' AND r.attempt IS NOT NULL AND 1 <>
         (SELECT count(*) FROM events e WHERE e.subject = 'node/' || r.node_id AND e.type = 'node.upgraded'
          AND e.data::jsonb ->> 'attempt' = r.attempt)"
    );
    let found = house.cluster.sql(DATABASE, &unsaid).await?;
    if found != "0" {
        wrong.push(format!(
            "I30: {found} nodes of {rollout} succeeded without an event, or with several"
        ));
    }
    Ok(wrong)
}

/// I30: a watcher who goes on where he was cut off has seen every event once, in order.
pub(super) async fn watched(house: &House, watcher: &Watcher) -> Result<Vec<String>> {
    let all = "SELECT position FROM events WHERE tenant = 'root' ORDER BY position";
    let mut patience = Patience::of(WATCHED);
    loop {
        let rows = house.cluster.rows(DATABASE, all).await?;
        let positions = rows
            .iter()
            .filter_map(|row| row.get("position")?.as_i64())
            .collect::<Vec<_>>();
        let seen = watcher.seen();
        if seen == positions {
            return Ok(Vec::new());
        }
        if patience.is_over() {
            let first = seen.iter().zip(&positions).position(|(a, b)| a != b);
            return Ok(vec![format!(
                "I30: of {} events a watcher saw {}, and another one at {first:?}",
                positions.len(),
                seen.len()
            )]);
        }
        sleep(Duration::from_millis(100)).await;
    }
}
