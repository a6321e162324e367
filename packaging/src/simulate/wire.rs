//! What lies between: connections of nodes, links of gateways, passes of processes.
//!
//! Connections and links keep their order, as TCP does, and lose what is on them only by breaking. What was sent before
//! a link broke may still arrive, as it does at a process that stood still.

use std::{collections::BTreeSet, time::Duration};

use bc_gateway::simulation::Doing as GatewayDoing;
use bc_protocol::{
    command::Kind,
    id::{NodeId, SessionId},
    link::{Batch, CloseSession, Event as Fact, SpecPush},
    session::{FromGateway, FromNode, Goodbye, GoodbyeReason},
};
use bcd::simulation::{Doing, Happening};
use better_compute::simulation::{Followed, Round};
use rand::RngExt as _;

use super::world::{Connection, Down, Event, World};

/// Between looks for what nobody has told.
const LOOK: Duration = Duration::from_secs(30);

impl World {
    pub(super) fn node_did(&mut self, node: usize, doing: Doing) {
        match doing {
            Doing::Open { gateway } => self.dials(node, gateway),
            Doing::Send(message) => {
                let Some(connection) = self.node(node).and_then(|node| node.connection) else {
                    return;
                };
                if let Some(at) = self.up(connection) {
                    self.at(
                        at,
                        Event::ToGateway {
                            connection,
                            message,
                        },
                    );
                }
            }
            Doing::Ping => {
                let connection = self.node(node).and_then(|node| node.connection);
                if let Some((connection, at)) =
                    connection.and_then(|connection| Some((connection, self.up(connection)?)))
                {
                    self.at(at, Event::PingsGateway(connection));
                }
            }
            Doing::HangUp => {
                let connection = self
                    .nodes
                    .get_mut(node)
                    .and_then(|node| node.connection.take());
                // Who dies without a word is missed by nobody before the silence is noticed.
                if let Some(connection) = connection
                    && !self.mishap(0.2)
                    && let Some(at) = self.up(connection)
                {
                    self.at(at, Event::EndsAtGateway(connection));
                }
            }
        }
    }

    fn dials(&mut self, node: usize, gateway: u32) {
        let gateway = usize::try_from(gateway).unwrap_or(usize::MAX);
        self.connected += 1;
        let connection = self.connected;
        let now = self.now;
        self.connections.insert(
            connection,
            Connection {
                node,
                gateway,
                at_gateway: false,
                up_at: now,
                down_at: now,
            },
        );
        if let Some(known) = self.nodes.get_mut(node) {
            known.connection = Some(connection);
        }
        let wait = self.span(20, 300);
        self.after(wait, Event::Opens { node, connection });
    }

    pub(super) fn opens(&mut self, node: usize, connection: u64) {
        let Some(known) = self
            .node(node)
            .filter(|node| node.connection == Some(connection))
        else {
            self.connections.remove(&connection);
            return;
        };
        let id = known.id.clone();
        let gateway = self
            .connections
            .get(&connection)
            .map_or(usize::MAX, |connection| connection.gateway);
        let busy = self.mishap(0.03);
        let session = SessionId::derived(&[&connection.to_be_bytes()]);
        let now = self.now;
        let machine = self
            .gateways
            .get_mut(gateway)
            .filter(|gateway| gateway.reachable);
        let Some(machine) = machine
            .and_then(|gateway| gateway.machine.as_mut())
            .filter(|_| !busy)
        else {
            if let Some(known) = self.nodes.get_mut(node) {
                known.connection = None;
            }
            self.connections.remove(&connection);
            return self.node_does(node, Happening::NotOpened(busy.then_some(503)));
        };
        machine.accept(connection, (id, session), now);
        if let Some(known) = self.connections.get_mut(&connection) {
            known.at_gateway = true;
        }
        self.node_does(node, Happening::Opened);
        self.gateway_looks(gateway);
    }

    /// When the next thing on its way up arrives; none where nobody is at the other end.
    fn up(&mut self, connection: u64) -> Option<Duration> {
        let wait = self.span(5, 80);
        let (now, connection) = (self.now, self.connections.get_mut(&connection)?);
        connection.up_at = connection.up_at.max(now + wait) + Duration::from_micros(1);
        Some(connection.up_at)
    }

    fn down(&mut self, connection: u64) -> Option<Duration> {
        let wait = self.span(5, 80);
        let (now, connection) = (self.now, self.connections.get_mut(&connection)?);
        connection.down_at = connection.down_at.max(now + wait) + Duration::from_micros(1);
        Some(connection.down_at)
    }

    fn gateway_of(&self, connection: u64) -> Option<usize> {
        let known = self
            .connections
            .get(&connection)
            .filter(|known| known.at_gateway)?;
        Some(known.gateway)
    }

    pub(super) fn reaches_gateway(&mut self, connection: u64, message: FromNode) {
        let Some(gateway) = self.gateway_of(connection) else {
            return;
        };
        self.say(|| {
            format!(
                "connection {connection} to gateway {gateway}: {}",
                brief_up(&message)
            )
        });
        let now = self.now;
        let machine = self
            .gateways
            .get_mut(gateway)
            .and_then(|gateway| gateway.machine.as_mut());
        let Some(doings) = machine.map(|machine| machine.heard(connection, message, now)) else {
            return;
        };
        self.gateway_did(gateway, doings);
        self.gateway_looks(gateway);
    }

    pub(super) fn gateway_hears_ping(&mut self, connection: u64) {
        let Some(gateway) = self.gateway_of(connection) else {
            return;
        };
        let now = self.now;
        let machine = self
            .gateways
            .get_mut(gateway)
            .and_then(|gateway| gateway.machine.as_mut());
        let Some(doings) = machine.map(|machine| machine.alive(connection, now)) else {
            return;
        };
        self.gateway_did(gateway, doings);
        // The answer.
        if let Some(node) = self.at_node(connection) {
            self.node_does(node, Happening::Traffic);
        }
    }

    pub(super) fn node_hears_ping(&mut self, connection: u64) {
        let Some(node) = self.at_node(connection) else {
            return;
        };
        self.node_does(node, Happening::Traffic);
        let Some(gateway) = self.gateway_of(connection) else {
            return;
        };
        let now = self.now;
        let machine = self
            .gateways
            .get_mut(gateway)
            .and_then(|gateway| gateway.machine.as_mut());
        if let Some(doings) = machine.map(|machine| machine.alive(connection, now)) {
            self.gateway_did(gateway, doings);
        }
    }

    /// The node at the other end, if it is still there.
    fn at_node(&self, connection: u64) -> Option<usize> {
        let node = self.connections.get(&connection)?.node;
        self.node(node)
            .is_some_and(|node| node.connection == Some(connection))
            .then_some(node)
    }

    pub(super) fn gateway_did(&mut self, _gateway: usize, doings: Vec<GatewayDoing>) {
        for doing in doings {
            match doing {
                GatewayDoing::Send {
                    connection,
                    message,
                } => {
                    if let Some(at) = self.down(connection) {
                        self.at(
                            at,
                            Event::ToNode {
                                connection,
                                message,
                            },
                        );
                    }
                }
                GatewayDoing::Ping { connection } => {
                    if let Some(at) = self.down(connection) {
                        self.at(at, Event::PingsNode(connection));
                    }
                }
                GatewayDoing::Close {
                    connection,
                    goodbye,
                } => self.gateway_closes(connection, goodbye),
            }
        }
    }

    fn gateway_closes(&mut self, connection: u64, goodbye: Option<Goodbye>) {
        if let Some(known) = self.connections.get_mut(&connection) {
            known.at_gateway = false;
        }
        if let (Some(goodbye), Some(at)) = (goodbye, self.down(connection)) {
            let message = Box::new(FromGateway::Goodbye(goodbye));
            self.at(
                at,
                Event::ToNode {
                    connection,
                    message,
                },
            );
        }
        if let Some(at) = self.down(connection) {
            self.at(at, Event::EndsAtNode(connection));
        }
    }

    pub(super) fn reaches_node(&mut self, connection: u64, message: Box<FromGateway>) {
        let Some(node) = self.at_node(connection) else {
            return;
        };
        self.say(|| {
            format!(
                "connection {connection} to node {node}: {}",
                brief_down(&message)
            )
        });
        self.check_upgrade_only(node, &message);
        self.node_does(node, Happening::Frame(message));
    }

    /// I27, a while after the minimum was raised.
    fn check_upgrade_only(&mut self, node: usize, message: &FromGateway) {
        let (minimum, since) = self.minimum;
        let first = self
            .scenario
            .releases
            .first()
            .map(|release| &release.version);
        let old = self
            .node(node)
            .is_some_and(|node| node.old && node.machine.runs() == first);
        if !old || minimum < 2 || self.now < since + Duration::from_secs(90) {
            return;
        }
        let foreign = match message {
            FromGateway::Spec(_) => true,
            FromGateway::Command(Ok(command)) => command.order.kind() != Kind::Upgrade,
            FromGateway::Command(Err(_)) => true,
            FromGateway::Welcome(_) | FromGateway::Certificate(_) | FromGateway::Goodbye(_) => {
                false
            }
        };
        if foreign {
            self.broken.push(format!(
                "I27: node {node} takes upgrades only, and gets {}",
                brief_down(message)
            ));
        }
    }

    pub(super) fn ends_at_gateway(&mut self, connection: u64) {
        let Some(gateway) = self.gateway_of(connection) else {
            return;
        };
        if let Some(known) = self.connections.get_mut(&connection) {
            known.at_gateway = false;
        }
        let now = self.now;
        let machine = self
            .gateways
            .get_mut(gateway)
            .and_then(|gateway| gateway.machine.as_mut());
        if let Some(doings) = machine.map(|machine| machine.closed(connection, now)) {
            self.gateway_did(gateway, doings);
            self.gateway_looks(gateway);
        }
    }

    pub(super) fn ends_at_node(&mut self, connection: u64) {
        let Some(node) = self.at_node(connection) else {
            return;
        };
        if let Some(known) = self.nodes.get_mut(node) {
            known.connection = None;
        }
        self.connections.remove(&connection);
        self.node_does(node, Happening::Closed);
    }

    /// A gateway dials control, through a balancer: whoever runs takes it.
    pub(super) fn link_opens(&mut self, gateway: usize) {
        let running: Vec<usize> = self
            .servers
            .iter()
            .enumerate()
            .filter(|(_, server)| server.up && !server.frozen)
            .map(|(number, _)| number)
            .collect();
        let busy = self
            .gateways
            .get(gateway)
            .is_none_or(|known| known.machine.is_none() || known.link.is_some());
        if busy {
            return;
        }
        if running.is_empty() || self.mishap(0.1) {
            let wait = self.span(200, 5_000);
            return self.after(wait, Event::LinkOpens(gateway));
        }
        let server = running
            .get(self.random.random_range(0..running.len()))
            .copied()
            .unwrap_or(0);
        let at_ms = self.process(server).now_ms;
        let removed = self.control.removed();
        let (minimum, _) = self.minimum;
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        let number = self.control.link_opened(&known.id, at_ms);
        known.link = Some((number, server));
        if let Some(machine) = &mut known.machine {
            machine.linked();
            machine.offer(minimum);
            machine.removed(removed);
        }
        self.say(|| format!("gateway {gateway} is linked with process {server}: {number}"));
        self.gateway_looks(gateway);
    }

    pub(super) fn link_breaks(&mut self, gateway: usize) {
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        let Some((number, server)) = known.link.take() else {
            return;
        };
        let id = known.id.clone();
        self.say(|| format!("the link of gateway {gateway} breaks"));
        // A process that is gone ends its links later; the store's own sweep does it.
        let at_ms = self.process(server).now_ms;
        self.control.link_closed(&id, number, at_ms);
        let wait = self.span(200, 3_000);
        self.after(wait, Event::LinkOpens(gateway));
    }

    pub(super) fn sends_batches(&mut self, gateway: usize) {
        loop {
            let wait = self.span(2, 40);
            let now = self.now;
            let Some(known) = self.gateways.get_mut(gateway) else {
                return;
            };
            let (Some((link, _)), Some(machine)) = (known.link, known.machine.as_mut()) else {
                return;
            };
            let Some(batch) = machine.next_batch() else {
                return;
            };
            known.up_at = known.up_at.max(now + wait + known.slow) + Duration::from_micros(1);
            let at = known.up_at;
            let batch = Box::new(batch);
            self.at(
                at,
                Event::BatchArrives {
                    gateway,
                    link,
                    batch,
                },
            );
        }
    }

    pub(super) fn batch_arrives(&mut self, (gateway, link): (usize, u64), batch: &Batch) {
        let Some(known) = self.gateways.get(gateway) else {
            return;
        };
        let current = known.link.filter(|(number, _)| *number == link);
        let id = known.id.clone();
        if current.is_none() && self.chance(0.5) {
            return;
        }
        let server = current.map_or(0, |(_, server)| server);
        let at_ms = self.process(server).now_ms;
        self.say(|| {
            format!(
                "batch {} of gateway {gateway} with {} events",
                batch.number,
                batch.events.len()
            )
        });
        let Some(followed) = self.control.facts((&id, link), &batch.events, at_ms) else {
            return;
        };
        self.check();
        if current.is_some() {
            let number = batch.number;
            // Lost with the link, if it is lost: then the batch comes again.
            if self.mishap(0.02) {
                return self.link_breaks(gateway);
            }
            let wait = self.span(2, 40);
            self.after(
                wait,
                Event::AckArrives {
                    gateway,
                    link,
                    number,
                },
            );
        }
        self.follow((gateway, server), batch, followed);
    }

    fn follow(&mut self, (gateway, server): (usize, usize), batch: &Batch, followed: Followed) {
        for close in followed.closings {
            self.sends_down(gateway, Down::Close(close));
        }
        for (node, connect_seq) in followed.moved {
            for other in (0..self.gateways.len()).filter(|other| *other != gateway) {
                let goodbye = Goodbye {
                    reason: GoodbyeReason::Superseded { connect_seq },
                    reconnect_after_ms: 0,
                    message: String::new(),
                };
                let close = CloseSession {
                    node: node.clone(),
                    connect_seq: connect_seq.saturating_sub(1),
                    goodbye,
                };
                self.sends_down(other, Down::Close(close));
            }
        }
        let opened = batch.events.iter().filter_map(|event| match event {
            Fact::Opened(opened) => Some(&opened.node),
            Fact::Closed(_) | Fact::Report(_) | Fact::Ended(_) | Fact::Listed => None,
        });
        let opened: BTreeSet<NodeId> = opened
            .filter(|node| followed.changed.contains(*node))
            .cloned()
            .collect();
        for node in opened {
            self.pushes(&node);
        }
        for node in &followed.changed {
            self.commands(node);
        }
        if !followed.changed.is_empty() {
            self.wakes(server);
        }
    }

    /// News for the controllers: at once here, and as a hint that may be lost there.
    pub(super) fn wakes(&mut self, server: usize) {
        for other in 0..self.servers.len() {
            if other == server {
                self.pass_within(other, Duration::from_millis(2));
            } else if !self.mishap(0.1) {
                self.pass_within(other, Duration::from_millis(30));
            }
        }
    }

    pub(super) fn pass_within(&mut self, server: usize, wait: Duration) {
        let at = self.now + wait;
        if let Some(known) = self.servers.get_mut(server)
            && known.passes_at.is_none_or(|passes_at| at < passes_at)
        {
            known.passes_at = Some(at);
            self.at(at, Event::Passes(server));
        }
    }

    pub(super) fn passes(&mut self, server: usize) {
        let Some(known) = self.servers.get_mut(server) else {
            return;
        };
        if known.passes_at.is_some_and(|at| at > self.now) {
            return;
        }
        known.passes_at = None;
        if !known.up || known.frozen {
            return;
        }
        let process = self.process(server);
        if self.mishap(0.04)
            && let Some(rollout) = self.control.active().into_iter().next()
        {
            let stopped = self.control.plan(&rollout, process);
            let wait = self.span(1_000, 90_000);
            self.say(|| format!("process {server} stands still within a pass over {rollout}"));
            if let Some(known) = self.servers.get_mut(server) {
                known.stopped = stopped;
                known.frozen = true;
            }
            return self.after(wait, Event::GoesOn(server));
        }
        let round = self.control.pass_all(process);
        self.take(server, round);
    }

    pub(super) fn goes_on(&mut self, server: usize) {
        let Some(known) = self.servers.get_mut(server).filter(|known| known.frozen) else {
            return;
        };
        known.frozen = false;
        let stopped = known.stopped.take();
        self.say(|| format!("process {server} goes on"));
        if let Some(stopped) = stopped {
            let round = self.control.go_on(stopped, self.process(server));
            self.take(server, round);
        }
        self.pass_within(server, Duration::from_millis(5));
    }

    /// What leaves after a commit.
    pub(super) fn take(&mut self, server: usize, round: Round) {
        self.check();
        for node in round.stale {
            self.pushes(&node);
            self.commands(&node);
        }
        if let Some(next) = round.next_ms {
            let left = next.saturating_sub(self.process(server).now_ms);
            let wait = Duration::from_millis(u64::try_from(left).unwrap_or(0).clamp(1, 30_000));
            self.pass_within(server, wait);
        }
    }

    /// Every half minute: whatever a lost hint would have told.
    pub(super) fn looks(&mut self, server: usize) {
        self.after(LOOK, Event::Looks(server));
        if self
            .servers
            .get(server)
            .is_none_or(|known| !known.up || known.frozen)
        {
            return;
        }
        let at_ms = self.process(server).now_ms;
        let mut nodes: BTreeSet<NodeId> = self.control.commands_due(at_ms).into_iter().collect();
        nodes.extend(self.control.commands_waiting());
        for node in nodes {
            self.commands(&node);
        }
        for node in self.control.unread() {
            self.pushes(&node);
            self.commands(&node);
        }
        self.pass_within(server, Duration::from_millis(1));
    }

    pub(super) fn pushes(&mut self, node: &NodeId) {
        let Some(spec) = self.control.spec(node) else {
            return;
        };
        for gateway in 0..self.gateways.len() {
            let push = SpecPush {
                node: node.clone(),
                spec: spec.clone(),
            };
            self.sends_down(gateway, Down::Spec(push));
        }
    }

    pub(super) fn commands(&mut self, node: &NodeId) {
        let at_ms = self.unix_ms(0);
        for push in self.control.dispatch(node, at_ms) {
            for gateway in 0..self.gateways.len() {
                self.sends_down(gateway, Down::Command(push.clone()));
            }
        }
    }

    pub(super) fn sends_down(&mut self, gateway: usize, down: Down) {
        let wait = self.span(2, 40);
        let now = self.now;
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        let Some((link, _)) = known.link else { return };
        known.down_at = known.down_at.max(now + wait) + Duration::from_micros(1);
        let at = known.down_at;
        let down = Box::new(down);
        self.at(
            at,
            Event::Arrives {
                gateway,
                link,
                down,
            },
        );
    }

    pub(super) fn arrives(&mut self, (gateway, link): (usize, u64), down: Down) {
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        if known.link.is_none_or(|(number, _)| number != link) {
            return;
        }
        let Some(machine) = known.machine.as_mut() else {
            return;
        };
        match down {
            Down::Spec(push) => machine.push(push),
            Down::Command(push) => machine.command(push),
            Down::Close(close) => machine.close(close),
            Down::Removed(nodes) => machine.removed(nodes),
            Down::Minimum(minimum) => machine.offer(minimum),
        }
        self.gateway_looks(gateway);
    }

    pub(super) fn ack_arrives(&mut self, (gateway, link): (usize, u64), number: u64) {
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        if known.link.is_none_or(|(current, _)| current != link) {
            return;
        }
        let believed = known
            .machine
            .as_mut()
            .is_none_or(|machine| machine.acknowledged(number));
        if !believed {
            self.broken.push(format!(
                "link: gateway {gateway} does not believe the acknowledgement of {number}"
            ));
        }
        self.sends_batches(gateway);
    }
}

fn brief_up(message: &FromNode) -> String {
    match message {
        FromNode::Hello(hello) => format!("hello {} of {}", hello.connect_seq, brief(&hello.facts)),
        FromNode::Report(report) => format!("report {} of {}", report.number, brief(&report.facts)),
        FromNode::CommandResult(result) => format!(
            "result of {}: {} {}",
            result.id, result.succeeded, result.code
        ),
        FromNode::CertificateRequest(_) => "certificate request".to_owned(),
        FromNode::Goodbye(goodbye) => format!("goodbye {:?}", goodbye.reason),
    }
}

fn brief(facts: &bc_protocol::session::Facts) -> String {
    let last = facts
        .last_attempt
        .as_ref()
        .map(|last| (last.id.as_str(), last.outcome.name(), last.is_final));
    let phase = facts.progress.as_ref().map(|progress| progress.phase);
    format!(
        "{} floor {} trial {} last {last:?} {phase:?} spec {}",
        facts.version,
        facts.floor,
        facts.trial.is_some(),
        facts.observed_generation
    )
}

fn brief_down(message: &FromGateway) -> String {
    match message {
        FromGateway::Welcome(welcome) => {
            format!("welcome, upgrade required: {}", welcome.upgrade_required)
        }
        FromGateway::Spec(Ok(spec)) => format!(
            "spec {} for {:?}",
            spec.generation,
            spec.daemon
                .as_ref()
                .map(|section| (section.version.as_str(), section.attempt.as_str()))
        ),
        FromGateway::Spec(Err(error)) => error.to_string(),
        FromGateway::Command(Ok(command)) => {
            format!("command {} {}", command.id, command.order.kind())
        }
        FromGateway::Command(Err(error)) => error.to_string(),
        FromGateway::Certificate(_) => "certificate".to_owned(),
        FromGateway::Goodbye(goodbye) => format!("goodbye {:?}", goodbye.reason),
    }
}
