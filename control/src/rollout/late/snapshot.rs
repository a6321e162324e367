//! What a pass over late nodes may know.

use std::collections::BTreeMap;

use bc_protocol::id::{NodeId, PoolId};

use crate::{
    api::rollout::RowState,
    rollout::snapshot::{Context, Flight, Freeze, Lingering, Node, Offer, Pool, Terms},
};

/// Everything that a pass over one completed rollout's late nodes may know.
#[derive(Clone, Debug)]
pub(crate) struct LateSnapshot {
    /// What was agreed when the rollout was created.
    pub terms: Terms,
    /// The revision that all this was read at.
    pub revision: u64,
    /// The pools of the nodes below.
    pub pools: BTreeMap<PoolId, Pool>,
    /// Late rows in flight, in order.
    pub flights: Vec<Flight<LateRow>>,
    /// Late rows that have settled and whose node still holds a place.
    pub lingering: Vec<Lingering>,
    /// Nodes whose turn it is, in order: as many as may start, and a few more.
    pub candidates: Vec<Candidate>,
    /// What the release offers.
    pub offer: Offer,
    /// Why nothing starts in the whole tenant, if nothing does.
    pub freeze: Option<Freeze>,
    /// The surroundings.
    pub context: Context,
}

/// A late row's address and state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LateRow {
    /// The node.
    pub node: NodeId,
    /// Its pool.
    pub pool: PoolId,
    /// The row's state.
    pub state: RowState,
}

/// A node that may be late.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Its pool.
    pub pool: PoolId,
    /// Whether it is late for this rollout.
    pub lateness: Lateness,
    /// How often this rollout has started it late.
    pub tries: u32,
    /// Why the node is disrupted already, if it is.
    pub disrupted_by: Option<String>,
    /// Whether it runs the release, confirmed.
    pub runs: Runs,
    /// The node.
    pub node: Node,
}

/// Whether a node is late for a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lateness {
    /// The rollout is newer than every other that has touched the node.
    Late,
    /// One as new has touched it, and a newer one that has not ended may yet pass it over.
    Settled,
    /// One as new has touched it.
    Done,
}

/// What a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The release, confirmed.
    Release,
    /// Something else, or the release on trial.
    Other,
}
