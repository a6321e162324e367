//! One pass over one rollout.
//!
//! Takes a [`Snapshot`] and the time, gives a [`Plan`] that leaves its executor no choices. Reads no clock and no
//! database: the caller does. In this order: settle, gate, advance, start.

use bc_protocol::{
    id::{AttemptId, NodeId, PoolId, RolloutId},
    version::Version,
};
use serde_json::Value;

use super::{
    hold::Hold,
    snapshot::{Head, Row, Snapshot, Tally, Trouble},
};
use crate::{api::rollout::RowState, clock::Moment, event::outbox::CONTROL};

mod pass;
mod start;

pub(super) use pass::Pass;
pub(super) use start::{barred, first_attempt, late_attempt, rollback_attempt, unstartable};

/// Everything that one pass, or one operator's call, changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    /// The rollout.
    pub rollout: RolloutId,
    /// The revision that the plan was made from. Under any other it is refused.
    pub revision: u64,
    /// When it was made.
    pub at: Moment,
    /// The rollout afterwards.
    pub head: Head,
    /// The waves' counters afterwards, sweep included.
    pub waves: Vec<Tally>,
    /// Rows that change.
    pub rows: Vec<RowChange>,
    /// Why every row that is still pending is passed over, if it is.
    pub sweep: Option<Trouble>,
    /// Places that are taken and given back.
    pub places: Vec<PlaceMove>,
    /// What is published, in order.
    pub events: Vec<Event>,
    /// Nodes whose desired state may be another now.
    pub stale: Vec<NodeId>,
    /// What does not happen now, and why.
    pub held: Vec<Held>,
    /// When the passing of time alone will change something.
    pub next: Option<(Moment, Wakeup)>,
    /// Whether another plan can be made at once, from what this one leaves.
    pub follow: Follow,
}

/// What comes after a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    /// Nothing, until something happens.
    Rest,
    /// Another plan in the same transaction: a wave has settled or opened.
    Again,
}

/// A change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowChange {
    /// The row as it was.
    pub row: Row,
    /// What becomes of it.
    pub step: Step,
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its node is told to upgrade.
    Start {
        /// What the node runs now.
        from: Version,
        /// What reports will name.
        attempt: AttemptId,
        /// When it has taken too long.
        deadline: Moment,
    },
    /// Its node is told to go back.
    RollBack {
        /// What reports will name.
        attempt: AttemptId,
        /// When it has taken too long.
        deadline: Moment,
    },
    /// It goes on and shows another error, or none.
    Show(Option<Trouble>),
    /// Its node runs the release.
    Succeed,
    /// Its node runs what it ran before.
    FinishRollBack,
    /// It did not work.
    Fail(Trouble),
    /// It is passed over.
    Skip(Trouble),
}

impl Step {
    /// The row's state afterwards.
    pub(crate) fn leads_to(&self, before: RowState) -> RowState {
        match self {
            Self::Start { .. } => RowState::Upgrading,
            Self::RollBack { .. } => RowState::RollingBack,
            Self::Show(_) => before,
            Self::Succeed => RowState::Succeeded,
            Self::FinishRollBack => RowState::RolledBack,
            Self::Fail(_) => RowState::Failed,
            Self::Skip(_) => RowState::Skipped,
        }
    }
}

/// A move of a pool's budget. The reason is always the rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlaceMove {
    /// The node is disrupted from now on.
    Occupy(NodeId, PoolId),
    /// This rollout disrupts it no more.
    Vacate(NodeId),
}

/// What is published.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// Its type.
    pub kind: &'static str,
    /// By whom.
    pub actor: String,
    /// Its data.
    pub data: Value,
}

/// Something that does not happen now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The node; none where the whole rollout waits.
    pub node: Option<NodeId>,
    /// Why.
    pub hold: Hold,
}

/// What the passing of time will bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wakeup {
    /// A node will have taken too long.
    Overdue,
    /// A soak ends.
    SoakOver,
    /// A node will have been offline long enough to be passed over.
    OfflineTooLong,
    /// A node that succeeded will have been away long enough to count as failed.
    Lost,
    /// Another process has the rollout, and may not have seen what this one was woken for.
    Elsewhere,
}

impl Plan {
    /// Whether it leaves everything as it is.
    pub(crate) fn is_idle(&self, snapshot: &Snapshot) -> bool {
        self.rows.is_empty()
            && self.sweep.is_none()
            && self.places.is_empty()
            && self.events.is_empty()
            && self.head == snapshot.head
    }

    /// Without the numbers of nodes, which only a database gives: a model has others.
    #[cfg(test)]
    pub(crate) fn unnumbered(mut self) -> Self {
        for change in &mut self.rows {
            change.row.number = 0;
        }
        self
    }
}

/// Plans one pass.
pub(crate) fn plan(snapshot: &Snapshot, now: Moment) -> Plan {
    let mut pass = Pass::new(snapshot, now, CONTROL);
    pass.settle();
    pass.mark_settled();
    pass.gate();
    pass.advance();
    pass.start();
    pass.finish()
}
