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
        store::StoreError,
    },
};

/// Moves rows and notes what became of their nodes. A row that is not as the plan saw it stops everything.
pub(super) async fn apply(tx: &mut Tx, plan: &Plan, number: i64) -> Result<(), StoreError> {
    let given = given_back(plan);
    let rows = Sorted::of(plan, &given);
    land(tx, plan, (number, &rows.landed)).await?;
    set_off(tx, plan, (number, &rows.starts)).await?;
    let moves = rows.moves.iter();
    let values: Vec<_> = moves.map(|change| moved(change, number, &given)).collect();
    let written = with_rows(tx, MOVE, values.into_iter()).await?;
    whole(plan, rows.moves.len(), written)?;
    let moves = rows.moves.iter();
    let values: Vec<_> = moves.map(|change| noted(change, number, plan.at)).collect();
    with_rows(tx, NOTE, values.into_iter()).await?;
    let shows = rows.shows.iter();
    let values: Vec<_> = shows.map(|change| shown(change, number)).collect();
    let written = with_rows(tx, SHOW, values.into_iter()).await?;
    whole(plan, rows.shows.len(), written)?;
    troubles(tx, plan, number).await?;
    for change in &plan.rows {
        if let (RowState::Upgrading, Step::Skip(_)) = (change.row.state, &change.step) {
            // It never heard of it, so what has its say is an older rollout again: it may be late for that.
            fleet::late::await_change(tx, &change.row.node, &change.row.pool).await?;
        }
    }
    Ok(())
}

/// A plan's changes, by how they are written.
#[derive(Debug, Default)]
struct Sorted<'a> {
    landed: Vec<&'a RowChange>,
    starts: Vec<&'a RowChange>,
    shows: Vec<&'a RowChange>,
    /// All others.
    moves: Vec<&'a RowChange>,
}

impl<'a> Sorted<'a> {
    fn of(plan: &'a Plan, given: &BTreeSet<&NodeId>) -> Self {
        let mut sorted = Self::default();
        for change in &plan.rows {
            let alike = match &change.step {
                Step::Start { .. } => &mut sorted.starts,
                Step::Show(_) => &mut sorted.shows,
                Step::Succeed if has_landed(change, given) => &mut sorted.landed,
                Step::Succeed
                | Step::RollBack { .. }
                | Step::FinishRollBack
                | Step::Fail(_)
                | Step::Skip(_) => &mut sorted.moves,
            };
            alike.push(change);
        }
        sorted
    }
}

/// Whether a row that succeeds does so as most do: its place is free.
fn has_landed(change: &RowChange, given: &BTreeSet<&NodeId>) -> bool {
    change.row.state == RowState::Upgrading && given.contains(&change.row.node)
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
    let nodes = numbers(landed.iter().copied())?;
    let landing = query(LAND).bind(number).bind(nodes.as_str());
    let written = landing.execute(&mut *tx).await?;
    whole(plan, landed.len(), written.rows_affected())?;
    let noting = query(LAND_NOTE)
        .bind(number)
        .bind(nodes)
        .bind(plan.at.millis());
    let written = noting.execute(&mut *tx).await?;
    whole(plan, landed.len(), written.rows_affected())
}

/// Writes nodes that are told to upgrade, of whose rows nearly all the same is said.
async fn set_off(
    tx: &mut Tx,
    plan: &Plan,
    (number, starts): (i64, &[&RowChange]),
) -> Result<(), StoreError> {
    let mut overdue: BTreeMap<Moment, Vec<&RowChange>> = BTreeMap::new();
    let mut notes = Vec::with_capacity(starts.len());
    // In the order of the table.
    let mut starts = starts.to_vec();
    starts.sort_unstable_by_key(|change| change.row.number);
    for change in starts {
        if let Step::Start {
            from,
            attempt,
            deadline,
        } = &change.step
        {
            overdue.entry(*deadline).or_default().push(change);
            notes.push([
                number.value(),
                change.row.number.value(),
                from.as_str().value(),
                attempt.as_str().value(),
                plan.at.millis().value(),
            ]);
        }
    }
    for (deadline, starts) in overdue {
        let starting = query(SET_OFF)
            .bind(number)
            .bind(numbers(starts.iter().copied())?)
            .bind(deadline.millis());
        let written = starting.execute(&mut *tx).await?;
        whole(plan, starts.len(), written.rows_affected())?;
    }
    with_rows(tx, SET_OFF_NOTE, notes.into_iter()).await?;
    Ok(())
}

/// The numbers of rows' nodes, as a statement takes them.
fn numbers<'a>(changes: impl Iterator<Item = &'a RowChange>) -> Result<String, sqlx::Error> {
    let numbers: BTreeSet<i64> = changes.map(|change| change.row.number).collect();
    serde_json::to_string(&numbers).map_err(|error| sqlx::Error::Encode(error.into()))
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
    WHERE rollout = $1 AND state || '' = 'upgrading' AND node IN (SELECT CAST(value AS BIGINT) FROM json_each($2))";

const LAND_NOTE: &str = "
    UPDATE rollout_notes SET finished_at = $3, error_code = NULL, error = NULL
    WHERE rollout = $1 AND node IN (SELECT CAST(value AS BIGINT) FROM json_each($2))";

/// Whoever moves stands in no pack any more, or is passed over wherever it stands.
const SET_OFF: &str = "
    UPDATE rollout_rows SET state = 'upgrading', deadline_at = $3, lingers = NULL, packed = 0
    WHERE rollout = $1 AND state || '' = 'pending' AND node IN (SELECT CAST(value AS BIGINT) FROM json_each($2))";

const SET_OFF_NOTE: &str = "
    INSERT INTO rollout_notes (rollout, node, from_version, attempt, started_at)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5 FROM {rows} WHERE 1 = 1
    ON CONFLICT (rollout, node) DO UPDATE SET
        from_version = excluded.from_version, attempt = excluded.attempt, started_at = excluded.started_at,
        finished_at = NULL, error_code = NULL, error = NULL";

const MOVE: &str = "
    UPDATE rollout_rows SET state = v.column4, deadline_at = v.column5, lingers = v.column6, packed = 0
    FROM {rows}
    WHERE rollout_rows.rollout = v.column1 AND rollout_rows.node = v.column2 AND rollout_rows.state = v.column3";

const NOTE: &str = "
    INSERT INTO rollout_notes (rollout, node, attempt, finished_at, error_code, error)
    SELECT v.column1, v.column2, v.column3, v.column4, v.column5, v.column6 FROM {rows} WHERE 1 = 1
    ON CONFLICT (rollout, node) DO UPDATE SET
        attempt = coalesce(excluded.attempt, rollout_notes.attempt),
        finished_at = excluded.finished_at, error_code = excluded.error_code, error = excluded.error";

const SHOW: &str = "
    UPDATE rollout_notes SET error_code = v.column4, error = v.column5
    FROM {rows}
    WHERE rollout_notes.rollout = v.column1 AND rollout_notes.node = v.column2 AND EXISTS (
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
        Step::RollBack { deadline, .. } => (Some(*deadline), false),
        Step::Start { .. } | Step::Show(_) => (None, false),
        Step::Succeed | Step::FinishRollBack | Step::Fail(_) | Step::Skip(_) => (None, true),
    };
    let lingers = flew && ends && !given.contains(&row.node);
    [
        number.value(),
        row.number.value(),
        row.state.word().value(),
        step.leads_to(row.state).word().value(),
        deadline.map(Moment::millis).value(),
        lingers.then_some(1_i64).value(),
    ]
}

/// What becomes of a row's node. What a step does not say stays; when it ended and what went wrong are said by each.
fn noted(change: &RowChange, number: i64, at: Moment) -> [Value; 6] {
    let at = at.millis();
    let (mut attempt, mut finished) = (None, None);
    let mut trouble: Option<&Trouble> = None;
    match &change.step {
        Step::Start { .. } | Step::Show(_) => {}
        Step::RollBack { attempt: id, .. } => attempt = Some(id.as_str()),
        Step::Succeed | Step::FinishRollBack => finished = Some(at),
        Step::Fail(why) | Step::Skip(why) => {
            finished = Some(at);
            trouble = Some(why);
        }
    }
    [
        number.value(),
        change.row.number.value(),
        attempt.value(),
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
        change.row.number.value(),
        change.row.state.word().value(),
        trouble.map(|trouble| trouble.code.as_str()).value(),
        trouble.map(|trouble| trouble.message.as_str()).value(),
    ]
}
