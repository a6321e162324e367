//! One pass: its transaction, around what the planner decides.

use std::collections::BTreeSet;

use bc_protocol::id::{NodeId, RolloutId};

use crate::{
    clock::Moment,
    db::Tx,
    rollout::{
        late, limits,
        plan::{Follow, Held, Wakeup, plan},
        service::{self, Services},
        store::{self, StoreError, load::Look},
        waker::{Extent, News},
    },
};

/// What a pass left.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    /// Nodes whose desired state may be another now.
    pub stale: Vec<NodeId>,
    /// When time alone will change something.
    pub next: Option<(Moment, Wakeup)>,
    /// What was held back, and why.
    pub held: Vec<Held>,
}

impl Passed {
    /// Whether another process had the rollout, so that nothing was looked at.
    pub(super) fn is_elsewhere(&self) -> bool {
        match self.next {
            Some((_, Wakeup::Elsewhere)) => true,
            Some((
                _,
                Wakeup::Overdue | Wakeup::SoakOver | Wakeup::OfflineTooLong | Wakeup::Lost,
            ))
            | None => false,
        }
    }
}

/// Whose turn it is to pass over a rollout.
enum Turn {
    /// This transaction has it, from that moment on.
    Ours(Tx, Moment),
    /// Another process has it.
    Elsewhere(Passed),
}

/// Begins the transaction of a pass.
async fn turn(
    services: &Services,
    id: &RolloutId,
    clock: impl Fn() -> Moment,
) -> Result<Turn, StoreError> {
    let mut tx = services.db.begin().await?;
    let locked = store::lock_if_free(&mut tx, id).await?;
    // Read under the lock: a process that was stopped before it does not plan for a time that has passed.
    let now = clock();
    if locked {
        return Ok(Turn::Ours(tx, now));
    }
    Ok(Turn::Elsewhere(Passed {
        next: Some((now.plus(limits::ELSEWHERE), Wakeup::Elsewhere)),
        ..Passed::default()
    }))
}

/// Makes what a pass has changed last; what it has only read is let go of at once, for whoever comes next.
async fn end(tx: Tx, changes: u32) -> Result<(), sqlx::Error> {
    if changes > 0 {
        tx.commit().await
    } else {
        tx.give_up().await
    }
}

/// One pass over one rollout that looks at everything.
#[cfg(test)]
pub(crate) async fn pass(
    services: &Services,
    id: &RolloutId,
    clock: impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    pass_over(services, id, &News::everything(), clock).await
}

/// One pass over one rollout. Of the nodes in flight it looks at those of which something is new, or at all.
pub(crate) async fn pass_over(
    services: &Services,
    id: &RolloutId,
    news: &News,
    clock: impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    match news.extent {
        Extent::Named => {
            let look = |now| Look::News {
                nodes: &news.nodes,
                now,
            };
            pass_by(services, id, look, &clock).await
        }
        Extent::Unknown => pass_over_everything(services, id, &clock).await,
    }
}

/// A pass over everything. To look at all of a large fleet's nodes in flight takes long, and is done while nobody waits; what
/// is found to change is looked at again under the lock, some of it at a time, and decided there.
async fn pass_over_everything(
    services: &Services,
    id: &RolloutId,
    clock: &impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    let mut rest = match look_around(services, id, clock).await? {
        Found::Nothing(passed) => return Ok(passed),
        Found::Changes(nodes) => nodes.into_iter().peekable(),
    };
    let mut passed = Passed::default();
    loop {
        let nodes: BTreeSet<NodeId> = rest.by_ref().take(limits::SETTLED_AT_ONCE).collect();
        let look = |now| Look::Found { nodes: &nodes, now };
        let part = match pass_by(services, id, look, clock).await {
            Ok(part) => part,
            Err(error) => {
                // What was committed before is told all the same.
                services.tell_stale(passed.stale);
                return Err(error);
            }
        };
        passed.stale.extend(part.stale);
        (passed.next, passed.held) = (part.next, part.held);
        if passed.is_elsewhere() || rest.peek().is_none() {
            return Ok(passed);
        }
    }
}

/// What a look at everything finds.
enum Found {
    /// Nothing changes now.
    Nothing(Passed),
    /// Something does: of these nodes in flight, if it is any.
    Changes(BTreeSet<NodeId>),
}

/// Plans a pass over everything by what is committed, and changes nothing: whatever happens after this reading wakes the
/// controller again.
async fn look_around(
    services: &Services,
    id: &RolloutId,
    clock: &impl Fn() -> Moment,
) -> Result<Found, StoreError> {
    let mut reading = services.db.reader().begin().await?;
    let looked = (Look::Everything, services.surroundings());
    let Some(snapshot) = store::load::snapshot(&mut reading, id, looked).await? else {
        return Ok(Found::Nothing(Passed::default()));
    };
    drop(reading);
    let plan = plan(&snapshot, clock());
    if !plan.is_idle(&snapshot) {
        let flying = plan
            .rows
            .into_iter()
            .filter(|change| change.row.state.is_in_flight());
        return Ok(Found::Changes(
            flying.map(|change| change.row.node).collect(),
        ));
    }
    Ok(Found::Nothing(Passed {
        stale: Vec::new(),
        next: plan.next,
        held: plan.held,
    }))
}

/// One pass under the lock: one transaction, committed only if it changes something.
async fn pass_by<'a>(
    services: &Services,
    id: &RolloutId,
    look: impl Fn(Moment) -> Look<'a>,
    clock: &impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    let (mut tx, now) = match turn(services, id, clock).await? {
        Turn::Ours(tx, now) => (tx, now),
        Turn::Elsewhere(passed) => return Ok(passed),
    };
    let mut passed = Passed::default();
    let mut changes = 0_u32;
    let mut events = Vec::new();
    for _ in 0..limits::PLANS_PER_PASS_MAX {
        let looked = (look(now), services.surroundings());
        let Some(snapshot) = store::load::snapshot(&mut tx, id, looked).await? else {
            break;
        };
        let plan = plan(&snapshot, now);
        let idle = plan.is_idle(&snapshot);
        if !idle {
            store::apply::apply(&mut tx, &snapshot, &plan).await?;
            changes = changes.saturating_add(1);
        }
        events.extend(plan.events);
        passed.stale.extend(plan.stale);
        passed.next = plan.next;
        passed.held = plan.held;
        if idle || plan.follow == Follow::Rest {
            break;
        }
        // Whatever comes after the last plan of this pass is due at once in the next.
        passed.next = Some((now, Wakeup::SoakOver));
    }
    end(tx, changes).await?;
    if changes > 0 {
        service::tell(id, &events);
        tracing::debug!(rollout = %id, stale = passed.stale.len(), "a pass changed the rollout");
    }
    for held in &passed.held {
        tracing::trace!(rollout = %id, node = ?held.node, hold = ?held.hold, "held back");
    }
    Ok(passed)
}

/// One pass over the late nodes of one completed rollout: one transaction, committed only if it changes something.
pub(crate) async fn pass_late(
    services: &Services,
    id: &RolloutId,
    clock: impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    let (mut tx, now) = match turn(services, id, clock).await? {
        Turn::Ours(tx, now) => (tx, now),
        Turn::Elsewhere(passed) => return Ok(passed),
    };
    let mut passed = Passed::default();
    let mut changes = 0_u32;
    for _ in 0..limits::PLANS_PER_PASS_MAX {
        let Some(snapshot) = store::late::snapshot(&mut tx, id, services.surroundings()).await?
        else {
            break;
        };
        let plan = late::plan(&snapshot, now);
        passed.next = plan.next;
        passed.held = plan.held.clone();
        if plan.is_idle() {
            break;
        }
        store::late::apply(&mut tx, &plan).await?;
        changes = changes.saturating_add(1);
        // Whoever is next in the queue comes with the next plan, or with the next pass.
        passed.next = Some((now, Wakeup::Overdue));
        passed.stale.extend(plan.stale);
    }
    end(tx, changes).await?;
    if changes > 0 {
        let stale = passed.stale.len();
        tracing::debug!(rollout = %id, stale, "a pass changed late nodes");
    }
    Ok(passed)
}
