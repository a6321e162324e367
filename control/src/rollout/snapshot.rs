//! Everything that one pass over one rollout may know.
//!
//! Read in the transaction that the plan is written in. Holds what can change something: the open wave, what is in
//! flight, places that are still held, counters. Whole fleets are in it as counters only.

mod node;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_protocol::{
    id::{AttemptId, NodeId, PoolId, RolloutId},
    sequence::Sequence,
    share::Share,
    version::Version,
};

pub(crate) use node::{AttemptSaid, Node, Presence, Read, Said, Trouble};

use super::{
    budget::Budget,
    target::{Target, Unfit},
};
use crate::{
    api::rollout::{RolloutState, RowCounts, RowState},
    clock::Moment,
};

/// One rollout and its surroundings at one revision.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// What never changes.
    pub terms: Terms,
    /// The revision that all this was read at.
    pub revision: u64,
    /// What changes.
    pub head: Head,
    /// The waves, in order.
    pub waves: Vec<Tally>,
    /// The pools that it moves through.
    pub pools: BTreeMap<PoolId, Pool>,
    /// Rows in flight, in order: all of them, or those of which something is new.
    pub flights: Vec<Flight>,
    /// What is known of those that are not among them.
    pub unseen: Unseen,
    /// Pending rows of the open wave whose turn it is, in order; and those of later waves whose node is out of scope by now.
    pub pending: Vec<Waiting>,
    /// Whether they are all of the open wave.
    pub extent: Extent,
    /// Settled rows whose node still holds a place.
    pub lingering: Vec<Lingering>,
    /// Failed rows of the open wave, by code.
    pub troubles: BTreeMap<String, u32>,
    /// Succeeded rows of the open wave whose node has gone offline since.
    pub lost: Vec<Lost>,
    /// Succeeded rows of the open wave whose node has restarted twice since, with nobody asking for it.
    pub unsteady: BTreeSet<NodeId>,
    /// What the release offers.
    pub offer: Offer,
    /// Why nothing starts in the whole tenant, if nothing does.
    pub freeze: Option<Freeze>,
    /// The surroundings.
    pub context: Context,
}

/// How much of the open wave's pending rows a snapshot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of them.
    Whole,
    /// Those whose turn it is. Of them or of those in flight, somebody can be reached.
    Part,
    /// Those whose turn it is. Only of the others somebody can be reached.
    PartAndOnline,
}

/// Rows in flight that a snapshot does not hold, because nothing is new of them. Of none, it is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Whether the node of one of them can be reached.
    pub reachable: bool,
    /// The earliest deadline among them.
    pub deadline: Option<Moment>,
}

/// An operator's word that nothing starts in a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Freeze {
    /// Why.
    pub reason: String,
    /// By whom.
    pub by: String,
    /// Since when.
    pub since: Moment,
}

/// What the rollout's release offers now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// It is registered and believed.
    Good(Target),
    /// It is registered no more.
    NotRegistered,
    /// Today's pins do not cover it, for this reason.
    Distrusted(String),
}

/// What was agreed when the rollout was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Its id.
    pub id: RolloutId,
    /// The version that it brings.
    pub version: Version,
    /// The version's sequence.
    pub sequence: Sequence,
    /// The share of a wave that may fail.
    pub max_failure_ratio: Share,
    /// Rest between waves.
    pub soak: Duration,
    /// How long one node may take.
    pub timeout: Duration,
    /// Who takes part.
    pub scope: Scope,
}

/// Whether nodes in maintenance take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// They are passed over.
    NotInMaintenance,
    /// They take part like all others.
    MaintenanceToo,
}

/// How far the rollout has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its state.
    pub state: RolloutState,
    /// Why it is paused or aborted.
    pub reason: Option<String>,
    /// Why it had paused when it was aborted.
    pub paused_reason: Option<String>,
    /// The open wave, from 0.
    pub wave: u32,
    /// When the open wave's last node settled.
    pub wave_settled_at: Option<Moment>,
    /// Failures of the open wave that an operator accepted.
    pub accepted_failures: u32,
    /// Whether an operator accepted that the open wave tried nothing.
    pub accepted_untried: bool,
    /// When it ended.
    pub finished_at: Option<Moment>,
}

/// How many waves have nodes: later ones have none where there are fewer nodes than waves.
pub(crate) fn taken(waves: &[Tally]) -> usize {
    let last = waves.iter().rposition(|wave| wave.rows.total() > 0);
    last.map_or(0, |last| last.saturating_add(1))
}

/// One wave's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many of its nodes were ever started.
    pub started: u32,
    /// Its nodes by state.
    pub rows: RowCounts,
}

/// A pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    /// Its budget.
    pub budget: Budget,
    /// Whether it is still used.
    pub archived: bool,
}

/// A row's address and state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its place in the rollout's order.
    pub place: u32,
    /// Its wave.
    pub wave: u32,
    /// Its node.
    pub node: NodeId,
    /// The node's number in rows.
    pub number: i64,
    /// The node's pool.
    pub pool: PoolId,
    /// Its state.
    pub state: RowState,
}

/// A row in flight: one of a wave, or a late one.
#[derive(Clone, Debug)]
pub(crate) struct Flight<R = Row> {
    /// The row.
    pub row: R,
    /// What reports about it name.
    pub attempt: AttemptId,
    /// What the node ran before.
    pub from: Option<Origin>,
    /// When it has taken too long.
    pub deadline: Moment,
    /// What the row shows as its error by now.
    pub shown: Option<Trouble>,
    /// Whose place it is.
    pub place: Place,
    /// The node.
    pub node: Node,
}

/// The version that a node ran when it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The version.
    pub version: Version,
    /// Its release's, where one is registered.
    pub sequence: Option<Sequence>,
}

/// Who else holds the node's place in its pool's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nobody: it is free once this rollout lets go.
    Alone,
    /// Something else disrupts the node too.
    Shared,
}

/// A row whose turn has not come.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    /// The row.
    pub row: Row,
    /// Whether it stands in a pack that was not opened.
    pub packed: bool,
    /// Why the node is disrupted already, if it is.
    pub disrupted_by: Option<String>,
    /// The node.
    pub node: Node,
}

/// A settled row whose node may still be at work, so that its place is not free.
#[derive(Clone, Debug)]
pub(crate) struct Lingering {
    /// The node's pool.
    pub pool: PoolId,
    /// What it was told last.
    pub attempt: Option<AttemptId>,
    /// Whose place it is.
    pub place: Place,
    /// The node.
    pub node: Node,
}

impl<R> Flight<R> {
    /// Whether the node accepts nothing older than the release: it has confirmed that, or a newer one. The floor is what
    /// counts, whoever the node was told by: from there on it goes forward only.
    pub(crate) fn has_confirmed(&self, terms: &Terms) -> bool {
        let said = self.node.said.as_ref();
        said.is_some_and(|said| said.floor.sequence() >= terms.sequence)
    }

    /// Why the node cannot go back to what it ran, where that is registered: its floor has passed it.
    pub(crate) fn passed(&self) -> Option<Unfit> {
        let sequence = self.from.as_ref()?.sequence?;
        let floor = self.node.said.as_ref()?.floor;
        let passed = !floor.admits(sequence);
        passed.then_some(Unfit::BelowFloor { sequence, floor })
    }
}

/// A node that succeeded and has gone offline since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The node.
    pub node: NodeId,
    /// Since when.
    pub since: Moment,
}

/// What a pass knows of its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// When the process started.
    pub started_at: Moment,
    /// Since when it has had at least one gateway; none if it has none.
    pub links_since: Option<Moment>,
    /// How long a node may be offline before its wave goes on without it.
    pub offline_grace: Duration,
}

impl Snapshot {
    /// The version, and what its release offers now.
    pub(crate) fn bringing(&self) -> (&Version, &Offer) {
        (&self.terms.version, &self.offer)
    }
}

impl Context {
    /// From when on a node that went away at `since` counts as away: a short gap is a reconnect, and while no gateway
    /// was linked nobody could be seen. None while none is.
    pub(crate) fn away_from(&self, since: Moment) -> Option<Moment> {
        let links_since = self.links_since?;
        Some(since.max(links_since).plus(super::limits::RECONNECT))
    }

    /// From when on a node whose flight ends at `deadline` has taken too long. What it did while no gateway was linked
    /// is not known before it has had the time to report it. None while none is.
    pub(crate) fn overdue_from(&self, deadline: Moment) -> Option<Moment> {
        let links_since = self.links_since?;
        Some(deadline.max(links_since.plus(super::limits::RECONNECT)))
    }
}
