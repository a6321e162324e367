//! What an operator's call changes.
//!
//! Takes a [`Snapshot`], the call and the time; gives a plan like a pass does, written under the same lock. So once a
//! call has answered, nothing acts on what was read before.

use serde_json::json;

use super::{
    plan::{Pass, Plan, Step, rollback_attempt},
    snapshot::{Flight, Snapshot, Terms, Trouble},
};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
};

/// What operators can ask of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Start nothing more.
    Pause {
        /// Why, if somebody says so.
        reason: Option<String>,
    },
    /// Go on, in spite of what failed so far.
    Resume,
    /// End it.
    Abort {
        /// Why.
        reason: String,
        /// What becomes of nodes in flight.
        flights: Flights,
    },
}

/// What becomes of nodes in flight when a rollout is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flights {
    /// They count as failed.
    Fail,
    /// They go back to what they ran, where that is registered.
    RollBack,
}

/// The rollout has ended, so there is nothing to call for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// How.
    pub state: RolloutState,
}

/// Plans a call.
pub(crate) fn plan(
    snapshot: &Snapshot,
    call: &Call,
    actor: &str,
    now: Moment,
) -> Result<Plan, Ended> {
    match snapshot.head.state {
        RolloutState::Running | RolloutState::Paused => {}
        RolloutState::Completed | RolloutState::Aborted => {
            return Err(Ended {
                state: snapshot.head.state,
            });
        }
    }
    let mut pass = Pass::new(snapshot, now, actor);
    match call {
        Call::Pause { reason } => pause(&mut pass, reason.as_deref()),
        Call::Resume => resume(&mut pass),
        Call::Abort { reason, flights } => abort(&mut pass, reason, *flights),
    }
    Ok(pass.finish())
}

/// A rollout that is paused keeps its reason, the gate's above all, until somebody gives another one.
fn pause(pass: &mut Pass<'_>, given: Option<&str>) {
    let head = &mut pass.plan.head;
    let kept = match head.state {
        RolloutState::Paused => head.reason.take(),
        RolloutState::Running | RolloutState::Completed | RolloutState::Aborted => None,
    };
    let given = given.map(str::to_owned);
    let reason = given
        .or(kept)
        .unwrap_or_else(|| "paused by an operator".to_owned());
    head.state = RolloutState::Paused;
    head.reason = Some(reason.clone());
    pass.publish("rollout.paused", json!({ "reason": reason }));
}

/// Accepts what the gate is shut for: failures so far, or else a wave in which nobody has succeeded. Who accepts failures has
/// not been told of that yet.
fn resume(pass: &mut Pass<'_>) {
    let failed = pass.failed_or_regressed();
    let untried = pass.wave_is_untried() && pass.too_many(failed).is_none();
    let head = &mut pass.plan.head;
    head.state = RolloutState::Running;
    head.reason = None;
    head.accepted_failures = head.accepted_failures.max(failed);
    head.accepted_untried |= untried;
    let accepted = head.accepted_failures;
    pass.publish("rollout.resumed", json!({ "acceptedFailures": accepted }));
}

fn abort(pass: &mut Pass<'_>, reason: &str, flights: Flights) {
    let trouble = Trouble::new("aborted", reason);
    for flight in &pass.snapshot.flights {
        match flights {
            Flights::RollBack if can_go_back(flight, &pass.snapshot.terms) => {
                roll_back(pass, flight)
            }
            Flights::RollBack | Flights::Fail => {
                pass.land(flight, Step::Fail(trouble.clone()));
                pass.vacate_if_at_rest(flight);
            }
        }
    }
    for wave in &mut pass.plan.waves {
        let pending = wave.rows.pending;
        wave.rows
            .shift(RowState::Pending, RowState::Skipped, pending);
    }
    pass.plan.sweep = Some(trouble);
    let head = &mut pass.plan.head;
    head.state = RolloutState::Aborted;
    // Of a rollout that runs there is none.
    head.paused_reason = head.reason.replace(reason.to_owned());
    let paused = head.paused_reason.clone();
    pass.end_abort();
    let rollback = flights == Flights::RollBack;
    let mut data = json!({ "reason": reason, "rollback": rollback });
    if let (Some(data), Some(paused)) = (data.as_object_mut(), paused) {
        data.insert("pausedReason".to_owned(), paused.into());
    }
    pass.publish("rollout.aborted", data);
}

/// Or has confirmed the release already: the next pass sees that.
fn can_go_back(flight: &Flight, terms: &Terms) -> bool {
    let origin = flight.from.as_ref().and_then(|from| from.sequence);
    origin.is_some() && (flight.passed().is_none() || flight.has_confirmed(terms))
}

/// The node keeps its place: it is in flight until it is back.
fn roll_back(pass: &mut Pass<'_>, flight: &Flight) {
    let step = Step::RollBack {
        attempt: rollback_attempt(&pass.snapshot.terms.id, &flight.row.node),
        deadline: pass.now.plus(pass.snapshot.terms.timeout),
    };
    pass.land(flight, step);
}
