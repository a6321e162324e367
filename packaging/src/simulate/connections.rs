//! Connections of nodes with gateways.
//!
//! They keep their order, as TCP does, and lose what is on them only by breaking; sometimes one end alone hears of it.

use std::time::Duration;

use bc_gateway::simulation::{Doing as GatewayDoing, SimulatedGateway};
use bc_protocol::{
    command::Kind,
    id::SessionId,
    session::{FromGateway, FromNode, Goodbye},
};
use bcd::simulation::{Doing, Happening};

use super::{
    brief::{brief_down, brief_up},
    parts::{Connection, Event},
    world::World,
};

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
        let hears = |machine: &mut SimulatedGateway, now| machine.heard(connection, message, now);
        if self.at_gateway(connection, hears).is_some() {
            self.gateway_looks(gateway);
        }
    }

    /// Has the gateway's end hear something, and does what follows from it. None without one.
    fn at_gateway(
        &mut self,
        connection: u64,
        hears: impl FnOnce(&mut SimulatedGateway, Duration) -> Vec<GatewayDoing>,
    ) -> Option<()> {
        let (gateway, now) = (self.gateway_of(connection)?, self.now);
        let machine = self.gateways.get_mut(gateway)?.machine.as_mut()?;
        let doings = hears(machine, now);
        self.gateway_did(gateway, doings);
        Some(())
    }

    pub(super) fn gateway_hears_ping(&mut self, connection: u64) {
        let heard = self.at_gateway(connection, |machine, now| machine.alive(connection, now));
        // The answer.
        if heard.is_some()
            && let Some(node) = self.at_node(connection)
        {
            self.node_does(node, Happening::Traffic);
        }
    }

    pub(super) fn node_hears_ping(&mut self, connection: u64) {
        let Some(node) = self.at_node(connection) else {
            return;
        };
        self.node_does(node, Happening::Traffic);
        self.at_gateway(connection, |machine, now| machine.alive(connection, now));
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
}
