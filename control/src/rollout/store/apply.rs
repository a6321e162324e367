//! Writes a plan, in the transaction that its snapshot was read in.

use bc_protocol::id::{RolloutId, TenantId};

use super::{StoreError, late};
use crate::{
    api::rollout::{RolloutState, RowState},
    db::{Tx, column::signed, query, query_scalar},
    event::outbox::{Draft, publish},
    fleet::{self, disruption},
    rollout::{
        plan::{PlaceMove, Plan, RowChange, Step},
        snapshot::{Snapshot, Tally, Trouble},
    },
};

/// Writes everything that a plan says. The snapshot is the one that it was made from.
pub(crate) async fn apply(tx: &mut Tx, snapshot: &Snapshot, plan: &Plan) -> Result<(), StoreError> {
    let tenant = head(tx, plan).await?;
    for change in &plan.rows {
        row(tx, plan, change).await?;
    }
    if let Some(trouble) = &plan.sweep {
        sweep(tx, plan, trouble).await?;
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
    let reason = plan.rollout.as_str();
    for place in &plan.places {
        match place {
            PlaceMove::Occupy(node, pool) => {
                disruption::occupy(tx, node, pool, reason, plan.at).await?;
            }
            PlaceMove::Vacate(node) => disruption::vacate(tx, node, reason).await?,
        }
    }
    // Last: positions of events are taken from a row that others wait for.
    for event in &plan.events {
        let draft = Draft {
            kind: event.kind,
            subject: format!("rollout/{}", plan.rollout),
            tenant: &tenant,
            actor: &event.actor,
            data: event.data.clone(),
        };
        publish(tx, draft, plan.at);
    }
    Ok(())
}

/// First: under another revision nothing is written. Gives the rollout's tenant.
async fn head(tx: &mut Tx, plan: &Plan) -> Result<TenantId, StoreError> {
    let head = &plan.head;
    let tenant: Option<String> = query_scalar(
        "UPDATE rollouts SET revision = revision + 1, state = $3, reason = $4, wave = $5, wave_settled_at = $6,
             accepted_failures = $7, accepted_untried = $8, finished_at = $9, updated_at = $10
         WHERE id = $1 AND revision = $2 RETURNING tenant",
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
    .fetch_optional(&mut **tx)
    .await?;
    let tenant = tenant.ok_or_else(|| StoreError::Stale {
        rollout: plan.rollout.clone(),
        expected: plan.revision,
    })?;
    tenant
        .parse()
        .map_err(|source| crate::db::column::undecodable("tenant", source).into())
}

/// The columns that a step writes.
#[derive(Default)]
struct Cells<'a> {
    from_version: Option<&'a str>,
    attempt: Option<&'a str>,
    started_at: Option<i64>,
    deadline_at: Option<i64>,
    finished_at: Option<i64>,
    trouble: Option<&'a Trouble>,
}

impl<'a> Cells<'a> {
    fn settled(at: i64, trouble: Option<&'a Trouble>) -> Self {
        Self {
            finished_at: Some(at),
            trouble,
            ..Self::default()
        }
    }
}

async fn row(tx: &mut Tx, plan: &Plan, change: &RowChange) -> Result<(), StoreError> {
    let at = plan.at.millis();
    let cells = match &change.step {
        Step::Start {
            from,
            attempt,
            deadline,
        } => Cells {
            from_version: Some(from.as_str()),
            attempt: Some(attempt.as_str()),
            started_at: Some(at),
            deadline_at: Some(deadline.millis()),
            ..Cells::default()
        },
        Step::RollBack { attempt, deadline } => Cells {
            attempt: Some(attempt.as_str()),
            deadline_at: Some(deadline.millis()),
            ..Cells::default()
        },
        Step::Show(trouble) => return show(tx, plan, change, trouble.as_ref()).await,
        Step::Succeed | Step::FinishRollBack => Cells::settled(at, None),
        Step::Fail(trouble) | Step::Skip(trouble) => Cells::settled(at, Some(trouble)),
    };
    let before = change.row.state;
    let written = query(
        "UPDATE rollout_nodes SET state = $4, from_version = coalesce($5, from_version),
             attempt = coalesce($6, attempt), started_at = coalesce($7, started_at), deadline_at = $8,
             finished_at = $9, error_code = $10, error = $11
         WHERE rollout_id = $1 AND place = $2 AND state = $3",
    )
    .bind(plan.rollout.as_str())
    .bind(change.row.place)
    .bind(before.word())
    .bind(change.step.leads_to(before).word())
    .bind(cells.from_version)
    .bind(cells.attempt)
    .bind(cells.started_at)
    .bind(cells.deadline_at)
    .bind(cells.finished_at)
    .bind(cells.trouble.map(|trouble| &trouble.code))
    .bind(cells.trouble.map(|trouble| &trouble.message))
    .execute(&mut **tx)
    .await?;
    one_row(plan, change, written.rows_affected())?;
    if let (RowState::Upgrading, Step::Skip(_)) = (before, &change.step) {
        // It never heard of it, so what has its say is an older rollout again: it may be late for that.
        fleet::late::await_change(tx, &change.row.node, &change.row.pool).await?;
    }
    Ok(())
}

async fn show(
    tx: &mut Tx,
    plan: &Plan,
    change: &RowChange,
    trouble: Option<&Trouble>,
) -> Result<(), StoreError> {
    let written = query(
        "UPDATE rollout_nodes SET error_code = $4, error = $5
         WHERE rollout_id = $1 AND place = $2 AND state = $3",
    )
    .bind(plan.rollout.as_str())
    .bind(change.row.place)
    .bind(change.row.state.word())
    .bind(trouble.map(|trouble| &trouble.code))
    .bind(trouble.map(|trouble| &trouble.message))
    .execute(&mut **tx)
    .await?;
    one_row(plan, change, written.rows_affected())
}

fn one_row(plan: &Plan, change: &RowChange, written: u64) -> Result<(), StoreError> {
    if written == 1 {
        return Ok(());
    }
    Err(StoreError::Row {
        rollout: plan.rollout.clone(),
        place: change.row.place,
        expected: change.row.state.word(),
    })
}

/// Its counters are in the plan's waves.
async fn sweep(tx: &mut Tx, plan: &Plan, trouble: &Trouble) -> Result<(), sqlx::Error> {
    query(
        "UPDATE rollout_nodes SET state = 'skipped', finished_at = $2, error_code = $3, error = $4
         WHERE rollout_id = $1 AND state = 'pending'",
    )
    .bind(plan.rollout.as_str())
    .bind(plan.at.millis())
    .bind(&trouble.code)
    .bind(&trouble.message)
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
