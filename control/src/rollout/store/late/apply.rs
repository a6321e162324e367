//! Writes a plan for late nodes, in the transaction that its snapshot was read in.

use bc_protocol::id::RolloutId;

use crate::{
    api::rollout::RowState,
    clock::Moment,
    db::{Tx, column::signed, query},
    fleet::{disruption, late},
    rollout::{
        late::{LateChange, LatePlan, Leave},
        plan::{PlaceMove, Step},
        snapshot::Trouble,
        store::StoreError,
    },
};

/// Writes everything that a plan says. Under another revision nothing is written.
pub(crate) async fn apply(tx: &mut Tx, plan: &LatePlan) -> Result<(), StoreError> {
    head(tx, plan).await?;
    for change in &plan.rows {
        match change.row.state {
            RowState::Pending => begin(tx, plan, change).await?,
            RowState::Upgrading
            | RowState::Succeeded
            | RowState::Failed
            | RowState::Skipped
            | RowState::RollingBack
            | RowState::RolledBack => go_on(tx, plan, change).await?,
        }
    }
    for (node, leave) in &plan.leave {
        match leave {
            Leave::Park => late::park(tx, node).await?,
            Leave::Forget => late::forget(tx, node).await?,
        }
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
    Ok(())
}

async fn head(tx: &mut Tx, plan: &LatePlan) -> Result<(), StoreError> {
    let written =
        query("UPDATE rollouts SET revision = revision + 1 WHERE id = $1 AND revision = $2")
            .bind(plan.rollout.as_str())
            .bind(signed(plan.revision))
            .execute(tx)
            .await?;
    if written.rows_affected() == 1 {
        return Ok(());
    }
    Err(StoreError::Stale {
        rollout: plan.rollout.clone(),
        expected: plan.revision,
    })
}

/// A row that comes: the first of its node, or its next try.
async fn begin(tx: &mut Tx, plan: &LatePlan, change: &LateChange) -> Result<(), StoreError> {
    let (from, deadline) = match &change.step {
        Step::Start { from, deadline, .. } => (Some(from.as_str()), Some(*deadline)),
        Step::RollBack { .. }
        | Step::Show(_)
        | Step::Succeed
        | Step::FinishRollBack
        | Step::Fail(_)
        | Step::Skip(_) => (None, None),
    };
    let at = plan.at.millis();
    let written = query(
        "INSERT INTO rollout_late (node_id, rollout_id, pool_id, state, tries, from_version, attempt, started_at,
             deadline_at, finished_at)
         VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9)
         ON CONFLICT (node_id, rollout_id) DO UPDATE SET
             state = excluded.state, tries = rollout_late.tries + 1, from_version = excluded.from_version,
             attempt = excluded.attempt, started_at = excluded.started_at, deadline_at = excluded.deadline_at,
             finished_at = excluded.finished_at, error_code = NULL, error = NULL
         WHERE rollout_late.state IN ('pending', 'skipped')",
    )
    .bind(change.row.node.as_str())
    .bind(plan.rollout.as_str())
    .bind(change.row.pool.as_str())
    .bind(change.step.leads_to(change.row.state).word())
    .bind(from)
    .bind(change.attempt.as_str())
    .bind(deadline.map(|_| at))
    .bind(deadline.map(Moment::millis))
    .bind(deadline.is_none().then_some(at))
    .execute(tx)
    .await?;
    one_row(&plan.rollout, change, written.rows_affected())
}

async fn go_on(tx: &mut Tx, plan: &LatePlan, change: &LateChange) -> Result<(), StoreError> {
    let trouble = match &change.step {
        Step::Show(trouble) => return show(tx, plan, change, trouble.as_ref()).await,
        Step::Fail(trouble) | Step::Skip(trouble) => Some(trouble),
        Step::Start { .. } | Step::RollBack { .. } | Step::Succeed | Step::FinishRollBack => None,
    };
    let before = change.row.state;
    let written = query(
        "UPDATE rollout_late SET state = $4, deadline_at = NULL, finished_at = $5, error_code = $6, error = $7
         WHERE node_id = $1 AND rollout_id = $2 AND state = $3",
    )
    .bind(change.row.node.as_str())
    .bind(plan.rollout.as_str())
    .bind(before.word())
    .bind(change.step.leads_to(before).word())
    .bind(plan.at.millis())
    .bind(trouble.map(|trouble| trouble.code.as_str()))
    .bind(trouble.map(|trouble| trouble.message.as_str()))
    .execute(&mut *tx)
    .await?;
    one_row(&plan.rollout, change, written.rows_affected())?;
    if let Step::Skip(_) = change.step {
        // It never heard of it, so it is late still.
        late::await_change(tx, &change.row.node, &change.row.pool).await?;
    }
    Ok(())
}

async fn show(
    tx: &mut Tx,
    plan: &LatePlan,
    change: &LateChange,
    trouble: Option<&Trouble>,
) -> Result<(), StoreError> {
    let written = query(
        "UPDATE rollout_late SET error_code = $4, error = $5 WHERE node_id = $1 AND rollout_id = $2 AND state = $3",
    )
    .bind(change.row.node.as_str())
    .bind(plan.rollout.as_str())
    .bind(change.row.state.word())
    .bind(trouble.map(|trouble| trouble.code.as_str()))
    .bind(trouble.map(|trouble| trouble.message.as_str()))
    .execute(tx)
    .await?;
    one_row(&plan.rollout, change, written.rows_affected())
}

fn one_row(rollout: &RolloutId, change: &LateChange, written: u64) -> Result<(), StoreError> {
    if written == 1 {
        return Ok(());
    }
    Err(StoreError::LateRow {
        rollout: rollout.clone(),
        node: change.row.node.clone(),
        expected: change.row.state.word(),
    })
}
