//! A gateway without sockets, for simulators.
//!
//! Takes what arrives on connections that somebody else makes up, and the time; gives what a gateway would send. The
//! session machines, the registry, the mailboxes and the outbox are the shipped ones: what is made up here is the wire
//! alone. Compiled with the feature `simulation`, never into a gateway.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bc_protocol::{
    id::{NodeId, SessionId},
    link::{Batch, CloseSession, CommandPush, FromGateway as LinkFrame, SessionClosed, SpecPush},
    session::{FromGateway, FromNode, Goodbye},
};
use futures_util::FutureExt as _;

use crate::{
    clock,
    limits::Limits,
    link::outbox::{Outbox, Overtaken},
    mailbox::Mailbox,
    rate::Bucket,
    registry::Registry,
    session::{
        Ending,
        dispatch::Tier,
        hello::Terms,
        machine::{Birth, Claim, Input, Machine, Order, Output},
    },
};

/// Something to do on a connection.
#[derive(Debug)]
pub enum Doing {
    /// Send this to the node.
    Send {
        /// On which connection.
        connection: u64,
        /// What.
        message: Box<FromGateway>,
    },
    /// See whether the node is still there.
    Ping {
        /// On which connection.
        connection: u64,
    },
    /// End the connection, with these words if there are any.
    Close {
        /// Which.
        connection: u64,
        /// What the node hears.
        goodbye: Option<Goodbye>,
    },
}

/// What a gateway can do wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Every session is granted, whatever other the node has.
    EverySessionGranted,
    /// A node that is too old for specs is taken for any other.
    TooOldForSpecsTakenForAny,
}

/// See the module's card.
#[derive(Debug)]
pub struct SimulatedGateway {
    registry: Registry,
    outbox: Outbox,
    terms: Terms,
    held: BTreeMap<u64, Held>,
    began: Instant,
    planted: Option<Planted>,
}

struct Held {
    machine: Machine,
    mailbox: Arc<Mailbox>,
    node: NodeId,
    session: SessionId,
    claimed: Option<u64>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.session, self.node)
    }
}

impl SimulatedGateway {
    /// A process that starts now; it offers these terms until control says otherwise.
    pub fn new(protocol_min: u32, heartbeat: Duration, planted: Option<Planted>) -> Self {
        Self {
            registry: Registry::default(),
            outbox: Outbox::default(),
            terms: Terms::new(offered(protocol_min, planted), heartbeat),
            held: BTreeMap::new(),
            began: clock::now(),
            planted,
        }
    }

    /// A node's connection is there; its Hello has yet to come.
    pub fn accept(&mut self, connection: u64, (node, session): (NodeId, SessionId), at: Duration) {
        let limits = Limits::default();
        let now = self.began + at;
        let birth = Birth {
            node: node.clone(),
            company: None,
            session: session.clone(),
            at: now,
            unix_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            hello_timeout: limits.hello_timeout,
            messages: Bucket::full(limits.messages_per_second, limits.messages_burst, now),
        };
        let held = Held {
            machine: Machine::new(birth, self.terms),
            mailbox: Arc::default(),
            node,
            session,
            claimed: None,
        };
        self.held.insert(connection, held);
    }

    /// A node's message has come.
    pub fn heard(&mut self, connection: u64, message: FromNode, at: Duration) -> Vec<Doing> {
        self.perform(connection, Input::Message(Box::new(message)), at)
    }

    /// A node has shown that it lives.
    pub fn alive(&mut self, connection: u64, at: Duration) -> Vec<Doing> {
        self.perform(connection, Input::Alive, at)
    }

    /// A connection is gone.
    pub fn closed(&mut self, connection: u64, at: Duration) -> Vec<Doing> {
        self.perform(connection, Input::Broken(Ending::Closed), at)
    }

    /// Time has passed, or control has left orders: everybody looks.
    pub fn look(&mut self, at: Duration) -> Vec<Doing> {
        let mut doings = Vec::new();
        let connections: Vec<u64> = self.held.keys().copied().collect();
        for connection in connections {
            doings.extend(self.take_orders(connection, at));
            let due = self.held.get(&connection);
            let due = due.and_then(|held| held.machine.next_wakeup());
            if due.is_some_and(|(due, _)| due <= self.began + at) {
                doings.extend(self.perform(connection, Input::Tick, at));
            }
        }
        doings
    }

    /// When somebody has to look next.
    pub fn next_wakeup(&self) -> Option<Duration> {
        let wakeups = self
            .held
            .values()
            .filter_map(|held| held.machine.next_wakeup());
        let earliest = wakeups.map(|(at, _)| at).min()?;
        Some(earliest.saturating_duration_since(self.began))
    }

    /// A new link to control.
    pub fn linked(&mut self) {
        self.outbox.linked();
    }

    /// The next batch for control, if one may leave.
    pub fn next_batch(&mut self) -> Option<Batch> {
        match LinkFrame::decode(&self.outbox.next_batch()?).ok()? {
            LinkFrame::Batch(batch) => Some(batch),
            LinkFrame::Hello(_)
            | LinkFrame::CertificateWanted(_)
            | LinkFrame::OwnCertificateWanted(_) => None,
        }
    }

    /// Control has committed a batch. Tells whether that can be.
    pub fn acknowledged(&mut self, number: u64) -> bool {
        self.outbox.acknowledged(number).is_ok()
    }

    /// Whether control can learn the rest from a new link only.
    pub fn needs_link(&self) -> bool {
        self.outbox.needs_link()
    }

    /// A spec from control. Like all orders, it is carried out by the next [`look`](Self::look).
    pub fn push(&self, push: SpecPush) {
        self.registry.deliver(&push.node, push.spec);
    }

    /// A command from control.
    pub fn command(&self, push: CommandPush) {
        self.registry.command(push);
    }

    /// Control ends a session.
    pub fn close(&self, close: CloseSession) {
        self.registry
            .end(&close.node, close.connect_seq, close.goodbye);
    }

    /// Control's list of those who are out.
    pub fn removed(&self, nodes: Vec<NodeId>) {
        self.registry.replace_removed(nodes);
    }

    /// Control's minimum.
    pub fn offer(&mut self, protocol_min: u32) {
        self.terms = Terms::new(offered(protocol_min, self.planted), self.terms.heartbeat);
        self.registry.offer(self.terms);
    }

    /// I35: nodes that hold more than one session here.
    pub fn doubles(&self) -> Vec<NodeId> {
        let mut seen = BTreeMap::new();
        for held in self.held.values().filter(|held| held.claimed.is_some()) {
            *seen.entry(&held.node).or_insert(0_u32) += 1;
        }
        let doubles = seen.into_iter().filter(|(_, sessions)| *sessions > 1);
        doubles.map(|(node, _)| node.clone()).collect()
    }

    fn take_orders(&mut self, connection: u64, at: Duration) -> Vec<Doing> {
        let mut doings = Vec::new();
        while let Some(order) = self.next_order(connection) {
            doings.extend(self.perform(connection, Input::Order(order), at));
        }
        doings
    }

    fn next_order(&self, connection: u64) -> Option<Order> {
        self.held.get(&connection)?.mailbox.next().now_or_never()
    }

    fn perform(&mut self, connection: u64, input: Input, at: Duration) -> Vec<Doing> {
        let mut doings = Vec::new();
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let Some(held) = self.held.get_mut(&connection) else {
                break;
            };
            for output in held.machine.step(input, self.began + at) {
                match output {
                    Output::Claim { connect_seq } => {
                        inputs.push_back(Input::Claim(self.claim(connection, connect_seq)));
                        inputs.push_back(Input::Order(Order::Terms(self.terms)));
                    }
                    Output::Send(message) => doings.push(Doing::Send {
                        connection,
                        message,
                    }),
                    Output::Opened(opened) => {
                        if let Err(Overtaken { winning }) = self.outbox.opened(*opened) {
                            let ending = Ending::Superseded { winning };
                            inputs.push_back(Input::Order(Order::End(ending)));
                        }
                    }
                    Output::Report(report) => self.outbox.reported(*report),
                    Output::Ended(ended) => {
                        self.outbox.ended(*ended);
                    }
                    Output::Turned(tier) => self.turned(connection, tier),
                    Output::Ping => doings.push(Doing::Ping { connection }),
                    Output::NotSent { .. } | Output::CertificateWanted(_) => {}
                    Output::End(ending) => {
                        doings.push(self.end(connection, &ending));
                        return doings;
                    }
                }
            }
        }
        doings
    }

    fn claim(&mut self, connection: u64, connect_seq: u64) -> Claim {
        let Some(held) = self.held.get_mut(&connection) else {
            return Claim::Refused(Ending::Closed);
        };
        let (node, session) = (&held.node, &held.session);
        let claim = match self.planted {
            Some(Planted::EverySessionGranted) => Claim::Granted,
            Some(Planted::TooOldForSpecsTakenForAny) | None => {
                self.registry
                    .claim(node, session, connect_seq, &held.mailbox)
            }
        };
        if claim == Claim::Granted {
            held.claimed = Some(connect_seq);
        }
        claim
    }

    fn turned(&mut self, connection: u64, tier: Tier) {
        if let Some(held) = self.held.get(&connection) {
            self.outbox.turned(&held.node, &held.session, tier);
        }
    }

    fn end(&mut self, connection: u64, ending: &Ending) -> Doing {
        if let Some(held) = self.held.remove(&connection)
            && let Some(connect_seq) = held.claimed
        {
            self.registry.release(&held.node, &held.session);
            self.outbox.closed(SessionClosed {
                node: held.node,
                session: held.session,
                connect_seq,
                reason: ending.to_string(),
            });
        }
        Doing::Close {
            connection,
            goodbye: ending.goodbye(),
        }
    }
}

fn offered(protocol_min: u32, planted: Option<Planted>) -> u32 {
    match planted {
        Some(Planted::TooOldForSpecsTakenForAny) => 1,
        Some(Planted::EverySessionGranted) | None => protocol_min,
    }
}
