//! The outbox against a control that applies what it is sent, over links that break anywhere.

use std::collections::BTreeSet;

use bc_protocol::id::CommandId;
use proptest::prelude::*;

use super::*;
use crate::{
    fixture::{done, ended},
    limits::RESULTS_PER_SESSION_MAX,
    session::dispatch::Tier,
};

/// What control knows: for each node its newest pair, whether it is online, and the link that named it.
#[derive(Default)]
struct Control {
    nodes: BTreeMap<NodeId, Known>,
    ended: BTreeMap<NodeId, u64>,
    answered: BTreeSet<CommandId>,
    link: u64,
    newest_batch: u64,
}

#[derive(Debug)]
struct Known {
    pair: (u64, u64),
    online: bool,
    upgrade_only: bool,
    link: u64,
    facts: Facts,
}

impl Control {
    fn apply(&mut self, batch: &Batch) {
        self.newest_batch = self.newest_batch.max(batch.number);
        for event in &batch.events {
            match event {
                Event::Opened(e) => {
                    self.newer(&e.node, (e.connect_seq, e.report), &e.facts);
                    let ended = self.ended.get(&e.node).copied().unwrap_or(0);
                    let known = self.nodes.get_mut(&e.node).unwrap();
                    if known.pair.0 == e.connect_seq {
                        known.upgrade_only = e.upgrade_only;
                        known.online = ended < e.connect_seq;
                        known.link = self.link;
                    }
                }
                Event::Report(e) => self.newer(&e.node, (e.connect_seq, e.report), &e.facts),
                Event::Closed(e) => {
                    let ended = self.ended.entry(e.node.clone()).or_default();
                    *ended = (*ended).max(e.connect_seq);
                    if let Some(known) = self.nodes.get_mut(&e.node)
                        && known.pair.0 <= e.connect_seq
                    {
                        known.online = false;
                    }
                }
                Event::Ended(e) => {
                    // As control does: only what the newest session that it knows says.
                    if self.nodes[&e.node].pair.0 == e.connect_seq {
                        self.answered.insert(e.result.id.clone());
                    }
                }
                Event::Listed => {
                    for known in self.nodes.values_mut() {
                        known.online &= known.link == self.link;
                    }
                }
            }
        }
    }

    fn newer(&mut self, node: &NodeId, pair: (u64, u64), facts: &Facts) {
        let (online, link) = (true, self.link);
        let fresh = Known {
            pair,
            online,
            upgrade_only: false,
            link,
            facts: facts.clone(),
        };
        match self.nodes.get_mut(node) {
            None => {
                self.nodes.insert(node.clone(), fresh);
            }
            Some(known) if known.pair < pair => {
                known.online |= known.pair.0 < pair.0;
                (known.pair, known.facts, known.link) = (pair, facts.clone(), link);
            }
            Some(_) => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(u8),
    Report(u8),
    Answer(u8),
    Turn(u8, bool),
    Close(u8),
    Send,
    Ack,
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0_u8..4).prop_map(Step::Open),
        (0_u8..4).prop_map(Step::Report),
        (0_u8..4).prop_map(Step::Answer),
        (0_u8..4, any::<bool>()).prop_map(|(name, too_old)| Step::Turn(name, too_old)),
        (0_u8..4).prop_map(Step::Close),
        Just(Step::Send),
        Just(Step::Ack),
        Just(Step::Cut),
    ]
}

/// A gateway, its links and control.
#[derive(Default)]
struct World {
    outbox: Outbox,
    control: Control,
    /// Sent on this link, in order, and not arrived.
    wire: VecDeque<Batch>,
    /// What is true: the live sessions with their newest report.
    live: BTreeMap<u8, (u64, u64)>,
    /// What was said last of each node.
    said: BTreeMap<u8, (u64, u64)>,
    /// What was answered in each node's newest session.
    answers: BTreeMap<u8, Vec<CommandId>>,
    /// The nodes whose newest session has turned upgrade-only, dead or alive.
    too_old: BTreeSet<u8>,
    connect_seq: u64,
}

impl World {
    fn step(&mut self, step: Step) {
        match step {
            Step::Open(name) => {
                self.connect_seq += 1;
                self.live.insert(name, (self.connect_seq, 0));
                self.said.insert(name, (self.connect_seq, 0));
                self.answers.remove(&name);
                self.too_old.remove(&name);
                self.outbox.opened(opened(name, self.connect_seq)).unwrap();
            }
            Step::Report(name) => {
                if let Some((connect_seq, number)) = self.live.get_mut(&name) {
                    *number += 1;
                    self.said.insert(name, (*connect_seq, *number));
                    self.outbox.reported(report(name, *connect_seq, *number));
                }
            }
            Step::Answer(name) => {
                let answers = self.answers.entry(name).or_default();
                if let Some((connect_seq, _)) = self.live.get(&name)
                    && answers.len() < RESULTS_PER_SESSION_MAX
                {
                    let parts = [name, u8::try_from(answers.len()).unwrap()];
                    let id = CommandId::derived(&[&connect_seq.to_be_bytes(), &parts]);
                    answers.push(id.clone());
                    self.outbox.ended(ended(name, *connect_seq, done(id)));
                }
            }
            Step::Turn(name, too_old) => {
                if let Some((connect_seq, _)) = self.live.get(&name) {
                    let tier = if too_old {
                        self.too_old.insert(name);
                        Tier::UpgradeOnly
                    } else {
                        self.too_old.remove(&name);
                        Tier::Full
                    };
                    self.outbox
                        .turned(&node(name), &session(*connect_seq), tier);
                }
            }
            Step::Close(name) => {
                if let Some((connect_seq, _)) = self.live.remove(&name) {
                    self.outbox.closed(closed(name, connect_seq));
                }
            }
            Step::Send => self.wire.extend(batch(&mut self.outbox)),
            Step::Ack => {
                if let Some(batch) = self.wire.pop_front() {
                    self.control.apply(&batch);
                    self.outbox.acknowledged(batch.number).unwrap();
                }
            }
            Step::Cut => {
                // Control may have committed some of what it could not acknowledge.
                let committed = self.wire.len() / 2;
                for batch in self.wire.drain(..).take(committed) {
                    self.control.apply(&batch);
                }
                self.control.link += 1;
                self.outbox.linked();
            }
        }
    }

    fn settle(&mut self) {
        self.step(Step::Cut);
        while !self.outbox.is_idle() {
            self.step(Step::Send);
            self.step(Step::Ack);
        }
    }
}

proptest! {
    /// However links break, control ends up knowing exactly who is here and what every node said last, also of those
    /// who have left, and every answer of a node's newest session.
    #[test]
    fn control_learns_the_truth(steps in prop::collection::vec(step(), 0..120)) {
        let mut world = World::default();
        for step in steps {
            world.step(step);
            prop_assert!(world.outbox.unacknowledged.len() <= LINK_WINDOW_BATCHES);
            prop_assert!(world.outbox.nodes.len() <= 4);
            prop_assert!(world.outbox.fresh.len() <= world.outbox.nodes.len());
        }
        world.settle();
        for name in 0..4 {
            let known = world.control.nodes.get(&node(name));
            prop_assert_eq!(
                known.is_some_and(|known| known.online),
                world.live.contains_key(&name),
                "node {}: {:?}", name, known
            );
            prop_assert_eq!(known.map(|known| known.pair), world.said.get(&name).copied());
            for answered in world.answers.get(&name).into_iter().flatten() {
                prop_assert!(world.control.answered.contains(answered));
            }
            if let Some(known) = known {
                prop_assert_eq!(known.upgrade_only, world.too_old.contains(&name));
                prop_assert_eq!(&known.facts, &facts(known.pair.1));
            }
        }
        // What is over is forgotten.
        prop_assert_eq!(world.outbox.nodes.len(), world.live.len());
        prop_assert_eq!(world.outbox.ended, 0);
        prop_assert!(world.outbox.room.is_empty());
    }
}
