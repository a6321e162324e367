//! When a row leaves flight, and when its node's place is free.
//!
//! Takes one row with what its node said, gives a verdict. Facts settle a row only if they name its own attempt; the
//! passing of time settles it whatever was said.

use bc_protocol::{id::AttemptId, session::Outcome};

use super::{
    snapshot::{AttemptSaid, Flight, Node, Pool, Scope, Terms, Trouble},
    target::Unfit,
};
use crate::api::rollout::RowState;

/// What becomes of a row in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on as it is.
    GoesOn,
    /// It goes on, and shows another error, or none any more.
    Shows(Option<Trouble>),
    /// The node runs the release for good.
    Succeeded,
    /// The node is back on what it ran before.
    RolledBack,
    /// It did not work.
    Failed(Trouble),
    /// The node never heard of it, or is past it.
    Skipped(Trouble),
}

/// Whether a flight may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// It has time left, or nobody could have seen it end.
    Left,
    /// It has taken too long.
    Over,
}

/// Judges a row in flight, of a wave or late.
pub(crate) fn judge<R>(state: RowState, flight: &Flight<R>, terms: &Terms, time: Time) -> Verdict {
    if flight.node.removed {
        return Verdict::Failed(Trouble::new("removed", "the node was removed"));
    }
    match state {
        RowState::Upgrading => upgrading(flight, terms, time),
        RowState::RollingBack => rolling_back(flight, terms, time),
        RowState::Pending
        | RowState::Succeeded
        | RowState::Failed
        | RowState::Skipped
        | RowState::RolledBack => Verdict::GoesOn,
    }
}

fn upgrading<R>(flight: &Flight<R>, terms: &Terms, time: Time) -> Verdict {
    if let Some(verdict) = reported(flight, |version| version == &terms.version) {
        return match verdict {
            Reported::Arrived => Verdict::Succeeded,
            Reported::GaveUp(trouble) => Verdict::Failed(trouble),
        };
    }
    // Somebody else has brought it further, such as a control that this one's copy knows nothing of.
    if let Some(ahead) = ahead(flight, terms) {
        return Verdict::Skipped(ahead);
    }
    match time {
        Time::Left => return shows(flight),
        Time::Over => {}
    }
    if !has_seen(&flight.node, &flight.attempt) {
        let message = format!(
            "the node did not hear of it within {} s",
            terms.timeout.as_secs()
        );
        return Verdict::Skipped(Trouble::new("unreached", message));
    }
    Verdict::Failed(overdue(flight, terms))
}

fn rolling_back<R>(flight: &Flight<R>, terms: &Terms, time: Time) -> Verdict {
    if flight.has_confirmed(terms) {
        return Verdict::Succeeded;
    }
    let is_back = |version: &_| {
        flight
            .from
            .as_ref()
            .is_some_and(|from| &from.version == version)
    };
    if let Some(verdict) = reported(flight, is_back) {
        return match verdict {
            Reported::Arrived => Verdict::RolledBack,
            Reported::GaveUp(trouble) => Verdict::Failed(trouble),
        };
    }
    // There is nothing that it could be told: it must not keep its place until the time is over.
    if let Some(unfit) = flight.passed() {
        return Verdict::Failed(Trouble::new(unfit.code(), unfit.to_string()));
    }
    match time {
        Time::Left => return shows(flight),
        Time::Over => {}
    }
    Verdict::Failed(overdue(flight, terms))
}

fn ahead<R>(flight: &Flight<R>, terms: &Terms) -> Option<Trouble> {
    let (sequence, floor) = (terms.sequence, flight.node.said.as_ref()?.floor);
    let unfit = Unfit::BelowFloor { sequence, floor };
    let ahead = !floor.admits(sequence);
    ahead.then(|| Trouble::new(unfit.code(), unfit.to_string()))
}

/// What a node can say for good about the row's own attempt.
enum Reported {
    Arrived,
    GaveUp(Trouble),
}

fn reported<R>(
    flight: &Flight<R>,
    is_target: impl Fn(&bc_protocol::version::Version) -> bool,
) -> Option<Reported> {
    let said = flight.node.said.as_ref()?;
    let attempt = own_attempt(flight)?;
    if attempt.outcome == Outcome::Confirmed {
        let arrived = said.trial.is_none() && is_target(&said.version);
        return arrived.then_some(Reported::Arrived);
    }
    if !attempt.is_final {
        return None;
    }
    let trouble = attempt.trouble.clone();
    Some(Reported::GaveUp(trouble.unwrap_or_else(|| {
        Trouble::new("failed", "the node gave no reason")
    })))
}

fn own_attempt<R>(flight: &Flight<R>) -> Option<&AttemptSaid> {
    let attempt = flight.node.said.as_ref()?.attempt.as_ref()?;
    (attempt.id == flight.attempt).then_some(attempt)
}

/// A failure that the node will retry is shown and settles nothing.
fn shows<R>(flight: &Flight<R>) -> Verdict {
    let trouble = own_attempt(flight)
        .filter(|attempt| attempt.outcome != Outcome::Confirmed)
        .and_then(|attempt| attempt.trouble.clone());
    if trouble == flight.shown {
        return Verdict::GoesOn;
    }
    Verdict::Shows(trouble)
}

fn overdue<R>(flight: &Flight<R>, terms: &Terms) -> Trouble {
    let within = format!("not done within {} s", terms.timeout.as_secs());
    let message = match own_attempt(flight).and_then(|attempt| attempt.trouble.as_ref()) {
        Some(last) => format!("{within}, last with {last}"),
        None => within,
    };
    Trouble::new("timeout", message)
}

/// Whether a node has heard of an attempt, by any word of its own.
fn has_seen(node: &Node, attempt: &AttemptId) -> bool {
    node.said.as_ref().is_some_and(|said| {
        [&said.trial, &said.working_on]
            .into_iter()
            .flatten()
            .chain(said.read.attempt())
            .chain(said.attempt.as_ref().map(|said| &said.id))
            .any(|named| named == attempt)
    })
}

/// Whether a node's place is free once its row has settled: it is away, or it says that it is at rest.
pub(crate) fn is_at_rest(node: &Node, attempt: Option<&AttemptId>) -> bool {
    if node.removed || !node.is_online() {
        return true;
    }
    let Some(said) = &node.said else {
        return true;
    };
    let ended = said
        .attempt
        .as_ref()
        .filter(|said| said.is_final || said.outcome == Outcome::Confirmed)
        .map(|said| &said.id);
    // What a newer spec has taken back is not tried again, though nothing has ended it.
    let retries = match &said.attempt {
        Some(newest) => {
            ended.is_none() && Some(&newest.id) == attempt && !said.read.has_taken_back(&newest.id)
        }
        None => false,
    };
    // The last step of an attempt that has ended is not work any more.
    let works = said.working_on.is_some() && said.working_on.as_ref() != ended;
    said.trial.is_none() && !works && !retries
}

/// Why a pending row is passed over whatever the rollout's state: its node is out of scope by now.
pub(crate) fn out_of_scope(node: &Node, pool: Option<&Pool>, scope: Scope) -> Option<Trouble> {
    if node.removed {
        return Some(Trouble::new("removed", "the node was removed"));
    }
    if pool.is_none_or(|pool| pool.archived) {
        return Some(Trouble::new("archived", "the node's pool was archived"));
    }
    let passes_maintenance = match scope {
        Scope::MaintenanceToo => false,
        Scope::NotInMaintenance => node.maintenance,
    };
    passes_maintenance.then(|| Trouble::new("maintenance", "the node is in maintenance"))
}
