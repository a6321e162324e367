//! Links of gateways with control, and what goes over them.
//!
//! They keep their order. What was sent before one broke may still arrive, as it does at a process that stood still.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::{
    id::NodeId,
    link::{Batch, CloseSession, Event as Fact, SpecPush},
    session::{Goodbye, GoodbyeReason},
};
use better_compute::simulation::Followed;
use rand::RngExt as _;

use super::{
    parts::{Down, Event},
    world::World,
};

impl World {
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
