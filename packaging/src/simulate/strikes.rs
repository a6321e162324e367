//! Fate: what is killed, cut, slowed and set wrong; and the end of it.

use std::time::Duration;

use bcd::simulation::Happening;
use rand::RngExt as _;

use super::{
    parts::{Down, Event},
    world::World,
};

const SECOND: Duration = Duration::from_secs(1);

impl World {
    pub(super) fn strikes_node(&mut self) {
        let Some((node, _)) = self.some_node() else {
            return;
        };
        let happening = match self.random.random_range(0..12) {
            0..4 => Happening::Killed,
            4..7 => Happening::PowerCut,
            7 => Happening::Held(Some("mine".to_owned())),
            8..10 => Happening::Held(None),
            _ => Happening::Network {
                gateways: true,
                downloads: self.chance(0.5),
            },
        };
        self.node_does(node, happening);
    }

    pub(super) fn strikes_line(&mut self) {
        let gateway = self.random.random_range(0..self.gateways.len().max(1));
        match self.random.random_range(0..8) {
            0..3 => {
                let connections: Vec<u64> = self.connections.keys().copied().collect();
                if connections.is_empty() {
                    return;
                }
                let connection = connections
                    .get(self.random.random_range(0..connections.len()))
                    .copied()
                    .unwrap_or(0);
                // Sometimes only one end hears of it.
                if self.chance(0.7) {
                    self.ends_at_node(connection);
                }
                if self.chance(0.7) {
                    self.ends_at_gateway(connection);
                }
            }
            3..5 => self.link_breaks(gateway),
            5 => {
                let slow = self.span(0, 6_000);
                if let Some(known) = self.gateways.get_mut(gateway) {
                    known.slow = slow;
                }
            }
            6 => self.reachable(gateway, false),
            _ => self.reachable(gateway, true),
        }
    }

    fn reachable(&mut self, gateway: usize, reachable: bool) {
        if let Some(known) = self.gateways.get_mut(gateway) {
            known.reachable = reachable;
        }
        self.say(|| format!("gateway {gateway} can be reached: {reachable}"));
        let any = self
            .gateways
            .iter()
            .any(|gateway| gateway.reachable && gateway.machine.is_some());
        for node in 0..self.nodes.len() {
            self.node_does(
                node,
                Happening::Network {
                    gateways: any,
                    downloads: true,
                },
            );
        }
    }

    pub(super) fn strikes_servers(&mut self) {
        let server = self.some_server();
        let gateway = self.random.random_range(0..self.gateways.len().max(1));
        match self.random.random_range(0..9) {
            0..2 => self.kills_gateway(gateway),
            2..4 => self.kills_process(server),
            4..6 => {
                let ahead = self.random.random_range(-300_000..300_000);
                self.say(|| format!("the clock of process {server} jumps to {ahead} ms ahead"));
                if let Some(known) = self.servers.get_mut(server) {
                    known.ahead_ms = ahead;
                }
                self.pass_within(server, SECOND);
            }
            6 => {
                let minimum = if self.minimum.0 == 1 { 2 } else { 1 };
                self.minimum = (minimum, self.now);
                self.say(|| format!("the oldest protocol for full sessions is {minimum}"));
                for gateway in 0..self.gateways.len() {
                    self.sends_down(gateway, Down::Minimum(minimum));
                }
            }
            _ => {
                for gateway in 0..self.gateways.len() {
                    self.link_breaks(gateway);
                }
            }
        }
    }

    fn kills_gateway(&mut self, gateway: usize) {
        self.link_breaks(gateway);
        let Some(known) = self.gateways.get_mut(gateway) else {
            return;
        };
        if known.machine.take().is_none() {
            return;
        }
        known.wakes_at = None;
        self.say(|| format!("gateway {gateway} is killed"));
        let connections = self
            .connections
            .iter_mut()
            .filter(|(_, connection)| connection.gateway == gateway);
        let mut lost = Vec::new();
        for (number, connection) in connections {
            connection.at_gateway = false;
            lost.push(*number);
        }
        for connection in lost {
            let wait = self.span(1, 500);
            self.after(wait, Event::EndsAtNode(connection));
        }
        let wait = self.span(500, 60_000);
        self.after(wait, Event::GatewayStarts(gateway));
    }

    fn kills_process(&mut self, server: usize) {
        let Some(known) = self.servers.get_mut(server).filter(|known| known.up) else {
            return;
        };
        (known.up, known.frozen, known.stopped, known.passes_at) = (false, false, None, None);
        self.say(|| format!("process {server} is killed"));
        for gateway in 0..self.gateways.len() {
            let held = self.gateways.get(gateway).and_then(|gateway| gateway.link);
            if held.is_some_and(|(_, holder)| holder == server) {
                self.link_breaks(gateway);
            }
        }
        let wait = self.span(500, 120_000);
        self.after(wait, Event::ProcessStarts(server));
    }

    pub(super) fn process_starts(&mut self, server: usize) {
        let now = self.now;
        if let Some(known) = self.servers.get_mut(server).filter(|known| !known.up) {
            (known.up, known.started) = (true, now);
        }
        self.pass_within(server, Duration::from_millis(100));
    }

    /// The faults stop, and nobody interferes any more.
    pub(super) fn rest(&mut self) {
        self.rests = true;
        self.say(|| "nothing interferes from here on".to_owned());
        let at_ms = self.unix_ms(0);
        self.control.freeze(false, at_ms);
        for server in 0..self.servers.len() {
            if let Some(known) = self.servers.get_mut(server) {
                known.ahead_ms = 0;
            }
            self.process_starts(server);
            self.goes_on(server);
        }
        for gateway in 0..self.gateways.len() {
            if let Some(known) = self.gateways.get_mut(gateway) {
                (known.reachable, known.slow) = (true, Duration::ZERO);
            }
            self.start_gateway(gateway);
        }
        for node in 0..self.nodes.len() {
            let Some(id) = self.node(node).map(|node| node.id.clone()) else {
                continue;
            };
            self.control.workflow(&id, false);
            self.control.maintain(&id, false);
            self.node_does(node, Happening::Held(None));
            self.node_does(
                node,
                Happening::Network {
                    gateways: true,
                    downloads: true,
                },
            );
        }
        self.check();
        self.wakes(0);
    }
}
