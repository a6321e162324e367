//! One pass: its transaction, around what the planner decides.

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

/// One pass over one rollout: one transaction, committed only if it changes something. Of the nodes in flight it looks at
/// those of which something is new.
pub(crate) async fn pass_over(
    services: &Services,
    id: &RolloutId,
    news: &News,
    clock: impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    let (mut tx, now) = match turn(services, id, clock).await? {
        Turn::Ours(tx, now) => (tx, now),
        Turn::Elsewhere(passed) => return Ok(passed),
    };
    let mut passed = Passed::default();
    let looked = match news.extent {
        Extent::Unknown => Look::Everything,
        Extent::Named => Look::News {
            nodes: &news.nodes,
            now,
        },
    };
    let mut changes = 0_u32;
    let mut events = Vec::new();
    for _ in 0..limits::PLANS_PER_PASS_MAX {
        let Some(snapshot) =
            store::load::snapshot(&mut tx, id, (looked, services.surroundings())).await?
        else {
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
