//! The model against the store: one sequence of facts and calls into both, and the same plans, rows and specs out.

mod calls;
mod house;
mod nodes;
mod passes;

use std::time::Duration;

use bc_protocol::{id::NodeId, session::Outcome, spec::NodeSpec};
use rand::RngExt as _;

use crate::{
    api::rollout::OneRollout,
    rollout::{
        operator::{Call, Flights},
        service::{self, Services},
    },
    spec::store::current,
};
use house::{Both, Reads};

/// I18 to I25, as the store has them: what the simulator runs on does what the store does.
#[tokio::test]
async fn the_model_and_the_store_are_alike() {
    for seed in 0..24 {
        let mut both = Both::new(seed, Reads::Whole).await;
        for _ in 0..60 {
            both.step().await;
            both.passes().await;
        }
        both.are_alike().await;
    }
}

/// I19 to I25 where the store reads a part: whatever it plans from that may be done, and where it rests, nothing is left
/// that a look at the whole would start or settle.
#[tokio::test]
async fn what_is_planned_from_a_part_is_as_good_as_from_the_whole() {
    let mut parts = 0;
    for seed in 0..2 {
        let mut both = Both::new(seed, Reads::Part).await;
        for _ in 0..100 {
            both.step().await;
            both.work().await;
            both.passes().await;
        }
        both.are_alike().await;
        parts += both.parts;
    }
    // That is what this is about.
    assert!(parts > 50, "{parts} plans from a part");
}

impl Both {
    /// One thing that happens, to both.
    async fn step(&mut self) {
        let node = self.random.random_range(0..self.nodes.len());
        let (node, pool) = self.nodes[node].clone();
        let lives = !self.removed.contains(&node);
        match self.random.random_range(0..32) {
            0..4 => self.creates().await,
            4 => {
                self.calls(&Call::Pause {
                    reason: Some("p".into()),
                })
                .await
            }
            5..8 => self.calls(&Call::Resume).await,
            // A large wave takes its time, and few would ever be seen in their middle.
            8 if self.reads == Reads::Part && self.random.random_bool(0.8) => {}
            8 => {
                let flights = if self.random.random_bool(0.5) {
                    Flights::Fail
                } else {
                    Flights::RollBack
                };
                self.calls(&Call::Abort {
                    reason: "a".into(),
                    flights,
                })
                .await;
            }
            9 => self.links().await,
            10 => self.freezes(true).await,
            11..13 => self.freezes(false).await,
            13..16 => {
                let waits = [1, 61, 301];
                let wait = waits[self.random.random_range(0..3)];
                self.now = self.now.plus(Duration::from_secs(wait));
                if wait > 30 {
                    // So long nobody goes without a look at everything.
                    self.news = None;
                }
            }
            _ if !lives => {}
            16..22 => self.obeys(&node, Outcome::Confirmed).await,
            22 => self.obeys(&node, Outcome::Crashed).await,
            23 => self.obeys(&node, Outcome::Running).await,
            24 => self.comes(&node).await,
            25 => {
                let start = u8::try_from(self.sessions[&node].0 % 200).unwrap();
                self.facts.get_mut(&node).unwrap().started = Some([start; 16].into());
                self.comes(&node).await;
            }
            26..28 => self.goes(&node).await,
            28 => self.disrupts(&(node, pool), true).await,
            29 => self.disrupts(&(node, pool), false).await,
            30 => {
                let maintenance = self.random.random_bool(0.4);
                self.maintains(&node, maintenance).await;
            }
            _ if self.removed.len() < 2 && self.random.random_bool(0.3) => {
                self.removes(&node).await
            }
            _ => {}
        }
    }

    /// What both say that a node should run.
    pub(super) async fn spec(&mut self, node: &NodeId) -> Option<NodeSpec> {
        let Services {
            db,
            trust,
            downloads_url,
            ..
        } = &self.services;
        let stored = current(db, node, trust, downloads_url).await.unwrap();
        let model = self.control.spec(node);
        let named = |spec: &NodeSpec| {
            let section = spec.daemon.clone();
            let named = section.map(|section| (section.version, section.sha256, section.attempt));
            (spec.generation, named)
        };
        assert_eq!(
            stored.as_ref().map(named),
            model.as_ref().map(named),
            "{node}"
        );
        model
    }

    async fn are_alike(&mut self) {
        for (node, _) in self.nodes.clone() {
            self.spec(&node).await;
        }
        for id in &self.rollouts {
            let request = OneRollout {
                tenant_id: "root".parse().unwrap(),
                rollout_id: id.clone(),
            };
            let stored = service::get(&self.services, request).await.unwrap();
            let model = &self.control.rows.rollouts[id];
            assert_eq!(stored.state, model.head.state);
            let rows = stored.node_list.unwrap();
            assert_eq!(rows.len(), model.rows.len());
            for (stored, model) in rows.iter().zip(&model.rows) {
                assert_eq!(
                    (&stored.node_id, stored.wave, stored.state),
                    (&model.node, model.wave, model.state)
                );
                assert_eq!(
                    (&stored.from_version, stored.finished_at),
                    (&model.from, model.finished)
                );
            }
        }
        assert_eq!(self.control.check(), []);
    }
}
