//! Writes what a plan makes of rows, all of them at once: what a pass costs is not to grow with its statements.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::id::NodeId;

use crate::{
    api::rollout::RowState,
    clock::Moment,
    db::{Bind as _, Tx, Value, bulk::with_rows, query},
    fleet,
    rollout::{
        plan::{PlaceMove, Plan, RowChange, Step},
        snapshot::Trouble,
        store::{StoreError, load::list},
    },
};

/// Moves rows and notes what became of their nodes. A row that is not as the plan saw it stops everything.
pub(super) async fn apply(tx: &mut Tx, plan: &Plan, number: i64) -> Result<(), StoreError> {
    let given = given_back(plan);
    let (landed, others): (Vec<_>, Vec<_>) = plan
        .rows
        .iter()
        .partition(|change| has_landed(change, &given));
    land(tx, plan, (number, &landed)).await?;
    let (shows, moves): (Vec<_>, Vec<_>) = others
        .into_iter()
        .partition(|change| matches!(change.step, Step::Show(_)));
    let rows: Vec<_> = moves
        .iter()
        .map(|change| moved(change, number, &given))
        .collect();
    let written = with_rows(tx, MOVE, rows.into_iter()).await?;
    whole(plan, moves.len(), written)?;
    let notes: Vec<_> = moves
        .iter()
        .map(|change| noted(change, number, plan.at))
        .collect();
    with_rows(tx, NOTE, notes.into_iter()).await?;
    let rows: Vec<_> = shows.iter().map(|change| shown(change, number)).collect();
    let written = with_rows(tx, SHOW, rows.into_iter()).await?;
    whole(plan, shows.len(), written)?;
    troubles(tx, plan, number).await?;
    for change in &plan.rows {
        if let (RowState::Upgrading, Step::Skip(_)) = (change.row.state, &change.step) {
            // It never heard of it, so what has its say is an older rollout again: it may be late for that.
            fleet::late::await_change(tx, &change.row.node, &change.row.pool).await?;
        }
    }
    Ok(())
}

/// Whether a row ends as most do: its node runs the release, and its place is free.
fn has_landed(change: &RowChange, given: &BTreeSet<&NodeId>) -> bool {
    let succeeds = match change.step {
        Step::Succeed => true,
        Step::Start { .. }
        | Step::RollBack { .. }
        | Step::Show(_)
        | Step::FinishRollBack
        | Step::Fail(_)
        | Step::Skip(_) => false,
    };
    succeeds && change.row.state == RowState::Upgrading && given.contains(&change.row.node)
}

/// Writes those, of which all the same is said.
async fn land(
    tx: &mut Tx,
    plan: &Plan,
    (number, landed): (i64, &[&RowChange]),
) -> Result<(), StoreError> {
    if landed.is_empty() {
        return Ok(());
    }
    let nodes = landed.iter().map(|change| &change.row.node).collect();
    let nodes = list(&nodes)?;
    for (statement, at) in [(LAND, None), (LAND_NOTE, Some(plan.at.millis()))] {
        let mut query = query(statement).bind(number).bind(&nodes);
        if let Some(at) = at {
            query = query.bind(at);
        }
        let written = query.execute(&mut *tx).await?;
        whole(plan, landed.len(), written.rows_affected())?;
    }
    Ok(())
}

/// Counts failures, so that no pass does.
async fn troubles(tx: &mut Tx, plan: &Plan, number: i64) -> Result<(), sqlx::Error> {
    let mut troubles: BTreeMap<(u32, &str), i64> = BTreeMap::new();
    for change in &plan.rows {
        if let Step::Fail(trouble) = &change.step {
            let nodes = troubles
                .entry((change.row.wave, trouble.code.as_str()))
                .or_default();
            *nodes = nodes.saturating_add(1);
        }
    }
    let rows = troubles
        .into_iter()
        .map(|((wave, code), nodes)| [number.value(), wave.value(), code.value(), nodes.value()]);
    let rows: Vec<_> = rows.collect();
    with_rows(tx, TROUBLES, rows.into_iter()).await?;
    Ok(())
}

fn whole(plan: &Plan, expected: usize, written: u64) -> Result<(), StoreError> {
    if usize::try_from(written) == Ok(expected) {
        return Ok(());
    }
    Err(StoreError::Rows {
        rollout: plan.rollout.clone(),
        expected,
        found: written,
    })
}

/// Rows that lingered and whose node has given its place back linger no more.
pub(super) async fn let_go(
    tx: &mut Tx,
    number: i64,
    (lingering, given): (impl Iterator<Item = &NodeId>, &[&NodeId]),
) -> Result<(), sqlx::Error> {
    let given: BTreeSet<&NodeId> = given.iter().copied().collect();
    let rows: Vec<_> = lingering
        .filter(|node| given.contains(node))
        .map(|node| [number.value(), node.as_str().value()])
        .collect();
    with_rows(tx, LET_GO, rows.into_iter()).await?;
    Ok(())
}

/// Found by the nodes, as in [`queries`](super::super::queries).
const LAND: &str = "
    UPDATE rollout_rows SET state = 'succeeded', deadline_at = NULL, lingers = NULL
    WHERE rollout = $1 AND state || '' = 'upgrading'
      AND node IN (SELECT m.number FROM nodes m WHERE m.id IN (SELECT value FROM json_each($2)))";

const LAND_NOTE: &str = "
    UPDATE rollout_notes SET finished_at = $3, error_code = NULL, error = NULL
    WHERE rollout = $1 AND node IN (SELECT m.number FROM nodes m WHERE m.id IN (SELECT value FROM json_each($2)))";

/// Whoever moves stands in no pack any more, or is passed over wherever it stands.
const MOVE: &str = "
    UPDATE rollout_rows SET state = v.column4, deadline_at = v.column5, lingers = v.column6, packed = 0
    FROM {rows} JOIN nodes n ON n.id = v.column2
    WHERE rollout_rows.rollout = v.column1 AND rollout_rows.node = n.number AND rollout_rows.state = v.column3";

const NOTE: &str = "
    INSERT INTO rollout_notes (rollout, node, from_version, attempt, started_at, finished_at, error_code, error)
    SELECT v.column1, n.number, v.column3, v.column4, v.column5, v.column6, v.column7, v.column8
    FROM {rows} JOIN nodes n ON n.id = v.column2 WHERE 1 = 1
    ON CONFLICT (rollout, node) DO UPDATE SET
        from_version = coalesce(excluded.from_version, rollout_notes.from_version),
        attempt = coalesce(excluded.attempt, rollout_notes.attempt),
        started_at = coalesce(excluded.started_at, rollout_notes.started_at),
        finished_at = excluded.finished_at, error_code = excluded.error_code, error = excluded.error";

const SHOW: &str = "
    UPDATE rollout_notes SET error_code = v.column4, error = v.column5
    FROM {rows} JOIN nodes n ON n.id = v.column2
    WHERE rollout_notes.rollout = v.column1 AND rollout_notes.node = n.number AND EXISTS (
        SELECT 1 FROM rollout_rows r
        WHERE r.rollout = rollout_notes.rollout AND r.node = rollout_notes.node AND r.state = v.column3)";

const TROUBLES: &str = "
    INSERT INTO rollout_troubles (rollout, wave, code, nodes)
    SELECT v.column1, v.column2, v.column3, v.column4 FROM {rows} WHERE 1 = 1
    ON CONFLICT (rollout, wave, code) DO UPDATE SET nodes = rollout_troubles.nodes + excluded.nodes";

const LET_GO: &str = "
    UPDATE rollout_rows SET lingers = NULL
    FROM {rows} JOIN nodes n ON n.id = v.column2
    WHERE rollout_rows.rollout = v.column1 AND rollout_rows.node = n.number AND rollout_rows.lingers = 1";

fn given_back(plan: &Plan) -> BTreeSet<&NodeId> {
    let given = plan.places.iter().filter_map(|place| match place {
        PlaceMove::Vacate(node) => Some(node),
        PlaceMove::Occupy(..) => None,
    });
    given.collect()
}

/// A row as it becomes. One that ends a flight without giving the place back lingers.
fn moved(change: &RowChange, number: i64, given: &BTreeSet<&NodeId>) -> [Value; 6] {
    let RowChange { row, step } = change;
    let flew = match row.state {
        RowState::Upgrading | RowState::RollingBack => true,
        RowState::Pending
        | RowState::Succeeded
        | RowState::Failed
        | RowState::Skipped
        | RowState::RolledBack => false,
    };
    let (deadline, ends) = match step {
        Step::Start { deadline, .. } | Step::RollBack { deadline, .. } => (Some(*deadline), false),
        Step::Show(_) => (None, false),
        Step::Succeed | Step::FinishRollBack | Step::Fail(_) | Step::Skip(_) => (None, true),
    };
    let lingers = flew && ends && !given.contains(&row.node);
    [
        number.value(),
        row.node.as_str().value(),
        row.state.word().value(),
        step.leads_to(row.state).word().value(),
        deadline.map(Moment::millis).value(),
        lingers.then_some(1_i64).value(),
    ]
}

/// What becomes of a row's node. What a step does not say stays; when it ended and what went wrong are said by each.
fn noted(change: &RowChange, number: i64, at: Moment) -> [Value; 8] {
    let at = at.millis();
    let (mut from, mut attempt, mut started, mut finished) = (None, None, None, None);
    let mut trouble: Option<&Trouble> = None;
    match &change.step {
        Step::Start {
            from: version,
            attempt: id,
            ..
        } => {
            from = Some(version.as_str());
            attempt = Some(id.as_str());
            started = Some(at);
        }
        Step::RollBack { attempt: id, .. } => attempt = Some(id.as_str()),
        Step::Show(shown) => trouble = shown.as_ref(),
        Step::Succeed | Step::FinishRollBack => finished = Some(at),
        Step::Fail(why) | Step::Skip(why) => {
            finished = Some(at);
            trouble = Some(why);
        }
    }
    [
        number.value(),
        change.row.node.as_str().value(),
        from.value(),
        attempt.value(),
        started.value(),
        finished.value(),
        trouble.map(|trouble| trouble.code.as_str()).value(),
        trouble.map(|trouble| trouble.message.as_str()).value(),
    ]
}

/// The error that a row shows while it goes on.
fn shown(change: &RowChange, number: i64) -> [Value; 5] {
    let trouble = match &change.step {
        Step::Show(trouble) => trouble.as_ref(),
        Step::Start { .. }
        | Step::RollBack { .. }
        | Step::Succeed
        | Step::FinishRollBack
        | Step::Fail(_)
        | Step::Skip(_) => None,
    };
    [
        number.value(),
        change.row.node.as_str().value(),
        change.row.state.word().value(),
        trouble.map(|trouble| trouble.code.as_str()).value(),
        trouble.map(|trouble| trouble.message.as_str()).value(),
    ]
}
