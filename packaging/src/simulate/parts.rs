//! Who and what a world is made of.

use std::time::Duration;

use bc_gateway::simulation::SimulatedGateway;
use bc_protocol::{
    id::{GatewayId, NodeId},
    link::{Batch, CloseSession, CommandPush, SpecPush},
    session::{FromGateway, FromNode},
};
use bcd::simulation::SimulatedNode;
use better_compute::simulation::Stopped;

/// Something that is to happen.
#[derive(Debug)]
pub(super) enum Event {
    NodeWakes(usize),
    GatewayWakes(usize),
    /// The answer to a node's wish for a connection.
    Opens {
        node: usize,
        connection: u64,
    },
    ToGateway {
        connection: u64,
        message: Box<FromNode>,
    },
    ToNode {
        connection: u64,
        message: Box<FromGateway>,
    },
    PingsGateway(u64),
    PingsNode(u64),
    EndsAtGateway(u64),
    EndsAtNode(u64),
    LinkOpens(usize),
    BatchArrives {
        gateway: usize,
        link: u64,
        batch: Box<Batch>,
    },
    AckArrives {
        gateway: usize,
        link: u64,
        number: u64,
    },
    Arrives {
        gateway: usize,
        link: u64,
        down: Box<Down>,
    },
    Passes(usize),
    GoesOn(usize),
    Looks(usize),
    ProcessStarts(usize),
    GatewayStarts(usize),
    Hand,
    Rest,
}

/// Something on its way down a link.
#[derive(Debug)]
pub(super) enum Down {
    Spec(SpecPush),
    Command(CommandPush),
    Close(CloseSession),
    Removed(Vec<NodeId>),
    Minimum(u32),
}

/// A node, its machine and its connection.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) machine: SimulatedNode,
    pub(super) connection: Option<u64>,
    pub(super) wakes_at: Option<Duration>,
    /// Whether its protocol is too old once the minimum is raised.
    pub(super) old: bool,
}

/// A gateway, whether it runs or not.
pub(super) struct Gateway {
    pub(super) id: GatewayId,
    /// None while no process runs.
    pub(super) machine: Option<SimulatedGateway>,
    pub(super) reachable: bool,
    /// The number of its link in control, and the process that holds it.
    pub(super) link: Option<(u64, usize)>,
    pub(super) wakes_at: Option<Duration>,
    /// Nothing arrives on the link before that: it keeps its order.
    pub(super) up_at: Duration,
    pub(super) down_at: Duration,
    pub(super) slow: Duration,
}

/// A connection of a node with a gateway; either end may be gone.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) node: usize,
    pub(super) gateway: usize,
    pub(super) at_gateway: bool,
    pub(super) up_at: Duration,
    pub(super) down_at: Duration,
}

/// A control process.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) up: bool,
    pub(super) started: Duration,
    /// Its clock, less the true one.
    pub(super) ahead_ms: i64,
    /// Stands still within a pass.
    pub(super) stopped: Option<Stopped>,
    pub(super) frozen: bool,
    pub(super) passes_at: Option<Duration>,
}
