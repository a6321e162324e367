//! The loop that makes passes happen.
//!
//! Waits for a wake, or for the earliest moment at which a pass said that time alone would change something. One pass
//! is one transaction; what leaves the process comes from rows that it committed. Decides nothing.

use std::time::Duration;

use bc_protocol::id::{NodeId, RolloutId};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    late, limits,
    plan::{Follow, Held, Wakeup, plan},
    service::{self, Services},
    store::{self, StoreError},
};
use crate::clock::{Moment, Stopwatch};
use crate::db::contention::retried;

/// The running controller.
#[derive(Debug)]
pub(crate) struct Controller {
    /// Ends after the stop token is cancelled, between two passes.
    pub task: JoinHandle<()>,
}

/// Starts the controller, with a pass at once: what happened while no process ran has to be caught up with.
pub(crate) fn spawn(services: Services, stop: CancellationToken) -> Controller {
    let task = tokio::spawn(async move {
        // A pass is never cut: the stop is looked at between passes.
        while !stop.is_cancelled() {
            let began = Stopwatch::start();
            let next = pass_all(&services).await;
            services
                .metrics
                .round_is_over(began.elapsed(), Moment::now());
            let rest = next.map_or(limits::SAFETY_NET, |at| at.since(Moment::now()));
            // A deadline is in whole milliseconds: one that is due now is reached by then.
            let rest = rest.clamp(Duration::from_millis(1), limits::SAFETY_NET);
            tokio::select! {
                () = services.waker.woken() => {}
                () = tokio::time::sleep(rest) => {}
                () = stop.cancelled() => {}
            }
        }
    });
    Controller { task }
}

/// Passes over every rollout that can change. One that errs does not delay the others. Gives the earliest deadline.
pub(crate) async fn pass_all(services: &Services) -> Option<Moment> {
    let ids = match store::active(&services.db).await {
        Ok(ids) => ids,
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "rollouts cannot be read"
            );
            return None;
        }
    };
    let mut next: Option<Moment> = None;
    for id in ids {
        let passed = retried(|| pass(services, &id, Moment::now)).await;
        next = earlier(next, conclude(services, &id, passed));
    }
    // After the others: what completes in their passes has late nodes at once.
    earlier(next, pass_all_late(services).await)
}

async fn pass_all_late(services: &Services) -> Option<Moment> {
    let ids = match store::late::due(&services.db).await {
        Ok(ids) => ids,
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(error, "late nodes cannot be looked for");
            return None;
        }
    };
    let mut next = None;
    for id in ids {
        let passed = retried(|| pass_late(services, &id, Moment::now)).await;
        next = earlier(next, conclude(services, &id, passed));
    }
    next
}

fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    [one, other].into_iter().flatten().min()
}

/// Tells what a pass has committed. Gives its deadline.
fn conclude(
    services: &Services,
    id: &RolloutId,
    passed: Result<Passed, StoreError>,
) -> Option<Moment> {
    match passed {
        Ok(passed) => {
            services.tell_stale(passed.stale);
            passed.next.map(|(at, _)| at)
        }
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(rollout = %id, error, "a pass failed and changed nothing");
            None
        }
    }
}

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

/// One pass over one rollout: one transaction, committed only if it changes something.
pub(crate) async fn pass(
    services: &Services,
    id: &RolloutId,
    clock: impl Fn() -> Moment,
) -> Result<Passed, StoreError> {
    let mut tx = services.db.begin().await?;
    let mut passed = Passed::default();
    let locked = store::lock_if_free(&mut tx, id).await?;
    // Read under the lock: a process that was stopped before it does not plan for a time that has passed.
    let now = clock();
    if !locked {
        passed.next = Some((now.plus(limits::ELSEWHERE), Wakeup::Elsewhere));
        return Ok(passed);
    }
    let mut changes = 0_u32;
    let mut events = Vec::new();
    for _ in 0..limits::PLANS_PER_PASS_MAX {
        let Some(snapshot) = store::load::snapshot(&mut tx, id, services.surroundings()).await?
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
    if changes > 0 {
        tx.commit().await?;
        service::tell(id, &events);
        tracing::debug!(rollout = %id, stale = passed.stale.len(), "a pass changed the rollout");
    } else {
        tx.give_up().await?;
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
    let mut tx = services.db.begin().await?;
    let mut passed = Passed::default();
    let locked = store::lock_if_free(&mut tx, id).await?;
    let now = clock();
    if !locked {
        passed.next = Some((now.plus(limits::ELSEWHERE), Wakeup::Elsewhere));
        return Ok(passed);
    }
    let mut changed = false;
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
        changed = true;
        // Whoever is next in the queue comes with the next plan, or with the next pass.
        passed.next = Some((now, Wakeup::Overdue));
        passed.stale.extend(plan.stale);
    }
    if changed {
        tx.commit().await?;
        let stale = passed.stale.len();
        tracing::debug!(rollout = %id, stale, "a pass changed late nodes");
    } else {
        tx.give_up().await?;
    }
    Ok(passed)
}
