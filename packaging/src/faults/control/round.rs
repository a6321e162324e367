//! One rollout, from its creation to its end, under blows and operators.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::{RngExt as _, rngs::StdRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    blow::{self, Absent},
    calls::{Answer, Said},
    history::DATABASE,
    house::{House, text},
    patience::Patience,
};

/// How long a rollout may take once nobody strikes any more.
const UNSTRUCK: Duration = Duration::from_secs(90);

/// Of how many rounds one has a pool of its own, which is archived in the middle.
const ROUNDS_PER_ARCHIVE: u64 = 10;

/// What a round was.
#[derive(Debug, Default)]
pub(super) struct Struck {
    pub(super) rollout: String,
    pub(super) said: Vec<Said>,
    pub(super) blows: usize,
    pub(super) calls: usize,
    /// How the rollout ended.
    pub(super) ended: String,
    pub(super) wrong: Vec<String>,
}

/// A round's release; of round 0 that of the rollout that never ends.
pub(super) fn version(round: u64) -> String {
    format!("1.{}.0", round + 1)
}

/// Strikes at one rollout, and sees it to its end.
pub(super) async fn run(house: &mut House, round: u64, rng: &mut StdRng) -> Result<Struck> {
    house.fill().await?;
    let extra = match round % ROUNDS_PER_ARCHIVE {
        3 => Some(house.pool(&format!("extra-{round}"), 3, 0.4).await?),
        _ => None,
    };
    super::rest::online(house).await?;
    house.pair.register(&version(round), round + 1)?;
    let mut struck = Struck {
        rollout: house.caller.create(&request(house, round, rng), 6).await?,
        ..Struck::default()
    };
    let mut absent = Absent::default();
    let mut archived = false;
    if let Some(blow) = blow::long_freeze(round, rng) {
        struck.blows += usize::from(absent.strike(house, blow, rng)?);
    }
    for step in 0..rng.random_range(5..=10_usize) {
        sleep(Duration::from_millis(rng.random_range(0..250))).await;
        absent.bring_back(house)?;
        if rng.random_ratio(3, 5) {
            let blow = blow::draw(rng);
            struck.blows += usize::from(absent.strike(house, blow, rng)?);
        } else {
            operate(house, &mut struck, rng).await?;
        }
        if let Some(pool) = extra.as_ref().filter(|_| step >= 3 && !archived) {
            // Where nobody answers just now, in the next step.
            let archive = json!({ "poolId": pool });
            let answer = house.caller.call(step % 2, "pools/archive", archive).await;
            archived = matches!(answer, Answer::Done(_));
            struck.calls += 1;
        }
    }
    house.spare();
    while !absent.is_nobody() {
        sleep(Duration::from_millis(50)).await;
        absent.bring_back(house)?;
    }
    both_answer(house, &mut absent).await?;
    calm(house, extra).await?;
    finish(house, &mut struck).await?;
    Ok(struck)
}

/// Waits until both controls are up again.
async fn both_answer(house: &mut House, absent: &mut Absent) -> Result<()> {
    let mut patience = Patience::of(UNSTRUCK);
    for control in 0..2 {
        while !matches!(
            house.caller.call(control, "pools/list", json!({})).await,
            Answer::Done(_)
        ) {
            ensure!(
                !patience.is_over(),
                "expected control {control} to answer within {UNSTRUCK:?}"
            );
            absent.bring_back(house)?;
            sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

fn request(house: &House, round: u64, rng: &mut StdRng) -> Value {
    let waves: &[u32] = match rng.random_range(0..3) {
        0 => &[100],
        1 => &[10, 50, 100],
        _ => &[5, 20, 50, 100],
    };
    let ratio = match rng.random_range(0..3) {
        0 => 0.0,
        1 => 0.1,
        _ => 1.0,
    };
    let pools: Vec<&String> = house.pools.keys().collect();
    json!({
        "version": version(round),
        "poolIds": pools,
        "waves": waves,
        "soakSeconds": f64::from(rng.random_range(0..600_u32)) / 1000.0,
        "maxFailureRatio": ratio,
        "idempotencyKey": format!("round-{round}"),
    })
}

/// Something that an operator might call just now, of either control.
async fn operate(house: &mut House, struck: &mut Struck, rng: &mut StdRng) -> Result<()> {
    let at = rng.random_range(0..2);
    let rollout = struck.rollout.clone();
    struck.calls += 1;
    let caller = house.caller.clone();
    match rng.random_range(0..16) {
        0..=3 => {
            let said = caller.operate(at, "pause", (&rollout, json!({}))).await;
            struck.said.push(said);
        }
        4..=7 => {
            let said = caller.operate(at, "resume", (&rollout, json!({}))).await;
            struck.said.push(said);
        }
        8 => {
            let more = json!({ "rollback": rng.random::<bool>() });
            let said = caller.operate(at, "abort", (&rollout, more)).await;
            struck.said.push(said);
        }
        9 => {
            // Both at once, at either control.
            let (pause, resume) = tokio::join!(
                caller.operate(at, "pause", (&rollout, json!({}))),
                caller.operate(1 - at, "pause", (&rollout, json!({}))),
            );
            struck.said.extend([pause, resume]);
            struck.calls += 1;
        }
        10 | 11 => {
            let workflow = json!({ "nodeId": house.any_node(rng)?, "kind": "reboot" });
            caller.call(at, "workflows/create", workflow).await;
        }
        12 => {
            let update =
                json!({ "nodeId": house.any_node(rng)?, "maintenance": rng.random::<bool>() });
            caller.call(at, "nodes/update", update).await;
        }
        13 => {
            let node = house.any_node(rng)?;
            // One that may have been removed is not counted on either.
            caller
                .call(at, "nodes/remove", json!({ "nodeId": node }))
                .await;
            house.forget(&node);
        }
        _ => {
            let command = json!({ "nodeId": house.any_node(rng)?, "kind": "diagnostics.collect" });
            caller.call(at, "commands/create", command).await;
        }
    }
    Ok(())
}

/// Ends what takes places beside the rollout, whoever has heard of it.
async fn calm(house: &mut House, extra: Option<String>) -> Result<()> {
    if let Some(pool) = &extra {
        let archive = json!({ "poolId": pool });
        house.caller.insist("pools/archive", archive).await?;
    }
    let open = "SELECT id FROM workflows WHERE finished_at IS NULL";
    for row in house.cluster.rows(DATABASE, open).await? {
        let cancel = json!({ "workflowId": text(&row, "id")?, "state": "cancelled" });
        house.caller.insist("workflows/update", cancel).await?;
    }
    let resting = "SELECT id FROM nodes WHERE maintenance = 1 AND removed_at IS NULL";
    for row in house.cluster.rows(DATABASE, resting).await? {
        let back = json!({ "nodeId": text(&row, "id")?, "maintenance": false });
        house.caller.insist("nodes/update", back).await?;
    }
    // Nodes of a call that nobody heard the end of, and those of the archived pool.
    let known: Vec<String> = house
        .pools
        .iter()
        .filter(|(pool, _)| Some(*pool) != extra.as_ref())
        .flat_map(|(_, crowd)| crowd.nodes.keys().map(|id| format!("'{id}'")))
        .collect();
    let lost = format!(
        "SELECT n.id FROM nodes n JOIN pools p ON p.id = n.pool_id
         WHERE n.removed_at IS NULL AND p.name <> 'never' AND n.id NOT IN ({})",
        known.join(", ")
    );
    for row in house.cluster.rows(DATABASE, &lost).await? {
        let node = text(&row, "id")?;
        let remove = json!({ "nodeId": node });
        house.caller.insist("nodes/remove", remove).await?;
    }
    if let Some(pool) = extra {
        house.pools.remove(&pool);
    }
    Ok(())
}

/// I32: nobody strikes any more, and failures are accepted: it ends.
async fn finish(house: &mut House, struck: &mut Struck) -> Result<()> {
    let mut patience = Patience::of(UNSTRUCK);
    let state = format!("SELECT state FROM rollouts WHERE id = '{}'", struck.rollout);
    loop {
        struck.ended = house.cluster.sql(DATABASE, &state).await?;
        match struck.ended.as_str() {
            "completed" | "aborted" => return Ok(()),
            "paused" => {
                let call = (struck.rollout.as_str(), json!({}));
                let said = house.caller.operate(0, "resume", call).await;
                struck.said.push(said);
                struck.calls += 1;
            }
            _ => {}
        }
        if patience.is_over() {
            let waits = why(house, &struck.rollout).await?;
            let wrong = format!(
                "I32: {} is {} after {UNSTRUCK:?}: {waits}",
                struck.rollout, struck.ended
            );
            struck.wrong.push(wrong);
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// What control says of a row that has not settled.
async fn why(house: &House, rollout: &str) -> Result<String> {
    let open = format!(
        "SELECT node_id FROM rollout_nodes WHERE rollout_id = '{rollout}'
         AND state IN ('pending', 'upgrading', 'rolling-back') ORDER BY place LIMIT 1"
    );
    let rows = house.cluster.rows(DATABASE, &open).await?;
    let Some(row) = rows.first() else {
        return Ok("every row has settled".to_owned());
    };
    let ask = json!({ "rolloutId": rollout, "nodeId": text(row, "node_id")? });
    let told = house.caller.insist("rollouts/explain", ask).await;
    text(&told.context("ask why")?, "sentence")
}
