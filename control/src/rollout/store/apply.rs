//! Writes a plan, in the transaction that its snapshot was read in.

mod packs;
mod rows;

use bc_protocol::id::{RolloutId, TenantId};

use super::{StoreError, late};
use crate::{
    api::rollout::RolloutState,
    db::{
        Tx,
        column::{parsed, signed},
        query,
    },
    event::outbox::{Draft, publish},
    fleet::disruption,
    rollout::{
        plan::{PlaceMove, Plan},
        snapshot::{Snapshot, Tally, Trouble},
    },
};

/// Writes everything that a plan says. The snapshot is the one that it was made from.
pub(crate) async fn apply(tx: &mut Tx, snapshot: &Snapshot, plan: &Plan) -> Result<(), StoreError> {
    let head = head(tx, plan).await?;
    rows::apply(tx, plan, head.number).await?;
    packs::open(tx, (snapshot, plan), head.number).await?;
    packs::leave(tx, (snapshot, plan), head.number).await?;
    if let Some(trouble) = &plan.sweep {
        sweep(tx, plan, (head.number, trouble)).await?;
    }
    for (wave, (before, after)) in (0_u32..).zip(snapshot.waves.iter().zip(&plan.waves)) {
        if before != after {
            tally(tx, &plan.rollout, wave, after).await?;
        }
    }
    if plan.head.state == RolloutState::Completed && snapshot.head.state != RolloutState::Completed
    {
        late::completed(tx, &plan.rollout).await?;
    }
    places(tx, (snapshot, plan), head.number).await?;
    // Last: positions of events are taken from a row that others wait for.
    for event in &plan.events {
        let draft = Draft {
            kind: event.kind,
            subject: format!("rollout/{}", plan.rollout),
            tenant: &head.tenant,
            actor: &event.actor,
            data: event.data.clone(),
        };
        publish(tx, draft, plan.at);
    }
    Ok(())
}

/// Gives places back, then takes others: a plan settles before it starts.
async fn places(
    tx: &mut Tx,
    (snapshot, plan): (&Snapshot, &Plan),
    number: i64,
) -> Result<(), StoreError> {
    let mut moves = disruption::Moves::default();
    for place in &plan.places {
        match place {
            PlaceMove::Occupy(node, pool) => moves.taken.push((node, pool)),
            PlaceMove::Vacate(node) => moves.given.push(node),
        }
    }
    let reason = plan.rollout.as_str();
    let lingering = snapshot
        .lingering
        .iter()
        .map(|lingering| &lingering.node.id);
    rows::let_go(tx, number, (lingering, &moves.given)).await?;
    disruption::exchange(tx, &moves, reason, plan.at).await?;
    Ok(())
}

/// Whose rollout it is, and its number in its rows.
struct Written {
    tenant: TenantId,
    number: i64,
}

/// First: under another revision nothing is written.
async fn head(tx: &mut Tx, plan: &Plan) -> Result<Written, StoreError> {
    let head = &plan.head;
    let row = query(
        "UPDATE rollouts SET revision = revision + 1, state = $3, reason = $4, wave = $5, wave_settled_at = $6,
             accepted_failures = $7, accepted_untried = $8, finished_at = $9, updated_at = $10, paused_reason = $11
         WHERE id = $1 AND revision = $2 RETURNING tenant, number",
    )
    .bind(plan.rollout.as_str())
    .bind(signed(plan.revision))
    .bind(head.state.word())
    .bind(&head.reason)
    .bind(head.wave)
    .bind(head.wave_settled_at.map(|at| at.millis()))
    .bind(head.accepted_failures)
    .bind(head.accepted_untried)
    .bind(head.finished_at.map(|at| at.millis()))
    .bind(plan.at.millis())
    .bind(&head.paused_reason)
    .fetch_optional(&mut **tx)
    .await?;
    let row = row.ok_or_else(|| StoreError::Stale {
        rollout: plan.rollout.clone(),
        expected: plan.revision,
    })?;
    Ok(Written {
        tenant: parsed(&row, "tenant")?,
        number: row.try_get("number")?,
    })
}

/// Its counters are in the plan's waves.
async fn sweep(
    tx: &mut Tx,
    plan: &Plan,
    (number, trouble): (i64, &Trouble),
) -> Result<(), sqlx::Error> {
    query(
        "INSERT INTO rollout_notes (rollout, node, finished_at, error_code, error)
         SELECT rollout, node, $2, $3, $4 FROM rollout_rows WHERE rollout = $1 AND state = 'pending'",
    )
    .bind(number)
    .bind(plan.at.millis())
    .bind(&trouble.code)
    .bind(&trouble.message)
    .execute(&mut **tx)
    .await?;
    query("UPDATE rollout_rows SET state = 'skipped' WHERE rollout = $1 AND state = 'pending'")
        .bind(number)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn tally(
    tx: &mut Tx,
    rollout: &RolloutId,
    wave: u32,
    tally: &Tally,
) -> Result<(), sqlx::Error> {
    query(
        "UPDATE rollout_waves SET started = $3, pending = $4, upgrading = $5, succeeded = $6, failed = $7,
             skipped = $8, rolling_back = $9, rolled_back = $10
         WHERE rollout_id = $1 AND wave = $2",
    )
    .bind(rollout.as_str())
    .bind(wave)
    .bind(tally.started)
    .bind(tally.rows.pending)
    .bind(tally.rows.upgrading)
    .bind(tally.rows.succeeded)
    .bind(tally.rows.failed)
    .bind(tally.rows.skipped)
    .bind(tally.rows.rolling_back)
    .bind(tally.rows.rolled_back)
    .execute(&mut **tx)
    .await?;
    Ok(())
}
