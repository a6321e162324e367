//! The scheduler: one queue of events, one clock, everybody.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bc_gateway::simulation::SimulatedGateway;
use bc_protocol::id::{NodeId, PoolId};
use bcd::simulation::{Behaviour, Happening, Setting, SimulatedNode};
use better_compute::simulation::{Control, Process};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    parts::{Connection, Event, Gateway, Node, Server},
    planted::Mistake,
    scenario::{DAWN, HEARTBEAT, Scenario},
};

pub(super) struct World {
    pub(super) random: StdRng,
    pub(super) now: Duration,
    queue: BTreeMap<(Duration, u64), Event>,
    queued: u64,
    pub(super) steps: u64,
    pub(super) scenario: Scenario,
    pub(super) control: Control,
    pub(super) servers: Vec<Server>,
    pub(super) gateways: Vec<Gateway>,
    pub(super) nodes: Vec<Node>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) connected: u64,
    pub(super) minimum: (u32, Duration),
    pub(super) calls: u64,
    pub(super) working: BTreeSet<usize>,
    pub(super) removed: BTreeSet<usize>,
    pub(super) rests: bool,
    pub(super) broken: Vec<String>,
    pub(super) mistake: Option<Mistake>,
    trace: Option<fn(&str)>,
}

/// Beyond it a world goes round in circles.
const STEPS_MAX: u64 = 60_000;

impl World {
    pub(super) fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let scenario = Scenario::draw(&mut random);
        let mut control = Control::new(mistake.and_then(Mistake::in_control));
        for release in &scenario.releases {
            control.register(release.version.clone(), release.sequence, release.digest);
        }
        for (pool, share) in &scenario.pools {
            control.add_pool(pool.clone(), *share);
        }
        let server = || Server {
            up: true,
            started: DAWN,
            ahead_ms: 0,
            stopped: None,
            frozen: false,
            passes_at: None,
        };
        let mut world = Self {
            now: DAWN,
            queue: BTreeMap::new(),
            queued: 0,
            steps: 0,
            control,
            servers: vec![server(), server()],
            gateways: Vec::new(),
            nodes: Vec::new(),
            connections: BTreeMap::new(),
            connected: 0,
            minimum: (scenario.protocol_min, DAWN),
            calls: 0,
            working: BTreeSet::new(),
            removed: BTreeSet::new(),
            rests: false,
            broken: Vec::new(),
            mistake,
            trace: None,
            scenario,
            random,
        };
        world.populate();
        world
    }

    fn populate(&mut self) {
        for id in self.scenario.gateways.clone() {
            self.gateways.push(Gateway {
                id,
                machine: None,
                reachable: true,
                link: None,
                wakes_at: None,
                up_at: DAWN,
                down_at: DAWN,
                slow: Duration::ZERO,
            });
        }
        for gateway in 0..self.gateways.len() {
            self.start_gateway(gateway);
        }
        for (id, pool) in self.scenario.nodes.clone() {
            self.join(id, pool);
        }
        for server in 0..self.servers.len() {
            self.after(Duration::from_millis(10), Event::Passes(server));
            self.after(Duration::from_secs(30), Event::Looks(server));
        }
        self.after(Duration::from_secs(2), Event::Hand);
        self.at(self.scenario.rests_at, Event::Rest);
    }

    /// A machine with the package joins a pool, and is switched on.
    pub(super) fn join(&mut self, id: NodeId, pool: PoolId) {
        let setting = Setting {
            releases: self.scenario.releases.clone(),
            stable_for: Duration::from_secs(10),
            watchdog: Duration::from_secs(60),
            gateways: 2,
            seed: self.random.random(),
            planted: self.mistake.and_then(Mistake::in_node),
        };
        self.control.join(id.clone(), pool, self.unix_ms(0));
        let old = self
            .scenario
            .releases
            .first()
            .is_some_and(|first| first.behaviour == Behaviour::OldProtocol);
        self.nodes.push(Node {
            id,
            machine: SimulatedNode::new(setting, self.now),
            connection: None,
            wakes_at: None,
            old,
        });
        let node = self.nodes.len().saturating_sub(1);
        self.look_after_node(node);
    }

    /// Tells everything that happens.
    pub(super) fn trace(&mut self, tell: fn(&str)) {
        self.trace = Some(tell);
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Runs to the end, and gives what was broken.
    pub(super) fn run(&mut self) -> Vec<String> {
        while self.broken.is_empty() {
            if self.steps >= STEPS_MAX {
                let unfinished = self.unfinished().join("; ");
                self.broken
                    .push(format!("I32: it goes on for ever: {unfinished}"));
                break;
            }
            let Some(((at, _), event)) = self.queue.pop_first() else {
                break;
            };
            self.now = self.now.max(at);
            self.steps += 1;
            self.happen(event);
            if self.rests && self.is_over() {
                break;
            }
        }
        if self.broken.is_empty() {
            self.check_the_end();
        }
        for violation in std::mem::take(&mut self.broken) {
            self.say(|| format!("VIOLATION {violation}"));
            self.broken.push(violation);
        }
        std::mem::take(&mut self.broken)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::NodeWakes(node) => {
                if self
                    .node(node)
                    .is_some_and(|node| node.wakes_at == Some(self.now))
                {
                    self.node_does(node, Happening::Tick);
                }
            }
            Event::GatewayWakes(gateway) => {
                if self
                    .gateways
                    .get(gateway)
                    .is_some_and(|gateway| gateway.wakes_at == Some(self.now))
                {
                    self.gateway_looks(gateway);
                }
            }
            Event::Opens { node, connection } => self.opens(node, connection),
            Event::ToGateway {
                connection,
                message,
            } => self.reaches_gateway(connection, *message),
            Event::ToNode {
                connection,
                message,
            } => self.reaches_node(connection, message),
            Event::PingsGateway(connection) => self.gateway_hears_ping(connection),
            Event::PingsNode(connection) => self.node_hears_ping(connection),
            Event::EndsAtGateway(connection) => self.ends_at_gateway(connection),
            Event::EndsAtNode(connection) => self.ends_at_node(connection),
            Event::LinkOpens(gateway) => self.link_opens(gateway),
            Event::BatchArrives {
                gateway,
                link,
                batch,
            } => self.batch_arrives((gateway, link), &batch),
            Event::AckArrives {
                gateway,
                link,
                number,
            } => self.ack_arrives((gateway, link), number),
            Event::Arrives {
                gateway,
                link,
                down,
            } => self.arrives((gateway, link), *down),
            Event::Passes(server) => self.passes(server),
            Event::GoesOn(server) => self.goes_on(server),
            Event::Looks(server) => self.looks(server),
            Event::ProcessStarts(server) => self.process_starts(server),
            Event::GatewayStarts(gateway) => self.start_gateway(gateway),
            Event::Hand => self.hand(),
            Event::Rest => self.rest(),
        }
    }

    /// A node's machine decides, and is looked at.
    pub(super) fn node_does(&mut self, node: usize, happening: Happening) {
        let now = self.now;
        if self.trace.is_some() && !matches!(happening, Happening::Tick) {
            let line = format!("node {node}: {happening:?}");
            self.say(|| line);
        }
        let Some(known) = self.nodes.get_mut(node) else {
            return;
        };
        let doings = known.machine.step(happening, now);
        for violation in known.machine.violations() {
            let line = format!("{}: node {node}: {}", violation.promise, violation.what);
            self.broken.push(line);
        }
        for doing in doings {
            self.node_did(node, doing);
        }
        self.look_after_node(node);
    }

    fn look_after_node(&mut self, node: usize) {
        let now = self.now;
        let Some(known) = self.nodes.get_mut(node) else {
            return;
        };
        let wakes_at = known
            .machine
            .next_wakeup()
            .map(|at| at.max(now + Duration::from_millis(1)));
        if wakes_at != known.wakes_at {
            known.wakes_at = wakes_at;
            if let Some(at) = wakes_at {
                self.at(at, Event::NodeWakes(node));
            }
        }
    }

    /// Time for whoever waits at a gateway, and for what it has to send.
    pub(super) fn gateway_looks(&mut self, gateway: usize) {
        let now = self.now;
        let Some(machine) = self
            .gateways
            .get_mut(gateway)
            .and_then(|gateway| gateway.machine.as_mut())
        else {
            return;
        };
        let doings = machine.look(now);
        self.gateway_did(gateway, doings);
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        let doubles = known
            .machine
            .as_ref()
            .map(SimulatedGateway::doubles)
            .unwrap_or_default();
        let wakes_at = known
            .machine
            .as_ref()
            .and_then(SimulatedGateway::next_wakeup);
        let wakes_at = wakes_at.map(|at| at.max(now + Duration::from_millis(1)));
        if wakes_at != known.wakes_at {
            known.wakes_at = wakes_at;
            if let Some(at) = wakes_at {
                self.at(at, Event::GatewayWakes(gateway));
            }
        }
        for node in doubles {
            self.broken.push(format!(
                "I35: {node} holds two sessions at gateway {gateway}"
            ));
        }
        self.sends_batches(gateway);
    }

    pub(super) fn start_gateway(&mut self, gateway: usize) {
        let minimum = self.minimum.0;
        let planted = self.mistake.and_then(Mistake::in_gateway);
        if let Some(known) = self.gateways.get_mut(gateway)
            && known.machine.is_none()
        {
            known.machine = Some(SimulatedGateway::new(minimum, HEARTBEAT, planted));
            known.link = None;
            self.after(Duration::from_millis(50), Event::LinkOpens(gateway));
        }
    }

    pub(super) fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node)
    }

    pub(super) fn process(&self, server: usize) -> Process {
        let known = self.servers.get(server);
        let ahead = known.map_or(0, |server| server.ahead_ms);
        let started = known.map_or(DAWN, |server| server.started);
        Process {
            started_ms: millis(started).saturating_add(ahead.min(0)),
            now_ms: self.unix_ms(ahead),
        }
    }

    pub(super) fn unix_ms(&self, ahead_ms: i64) -> i64 {
        millis(self.now).saturating_add(ahead_ms)
    }

    /// After every step that may have changed a row.
    pub(super) fn check(&mut self) {
        for violation in self.control.check() {
            self.broken
                .push(format!("{}: {}", violation.promise, violation.what));
        }
    }

    pub(super) fn after(&mut self, wait: Duration, event: Event) {
        self.at(self.now + wait, event);
    }

    pub(super) fn at(&mut self, at: Duration, event: Event) {
        self.queued += 1;
        self.queue.insert((at, self.queued), event);
    }

    pub(super) fn say(&self, line: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace(&format!(
                "{:>9.3} {}",
                (self.now.saturating_sub(DAWN)).as_secs_f64(),
                line()
            ));
        }
    }

    pub(super) fn chance(&mut self, of: f64) -> bool {
        self.random.random_bool(of)
    }

    pub(super) fn span(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(self.random.random_range(least_ms..=most_ms))
    }

    /// A chance that there is only while faults happen.
    pub(super) fn mishap(&mut self, of: f64) -> bool {
        self.random.random_bool(of) && !self.rests
    }
}

fn millis(at: Duration) -> i64 {
    i64::try_from(at.as_millis()).unwrap_or(i64::MAX)
}
