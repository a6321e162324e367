//! What operators call.

use std::{collections::BTreeSet, time::Duration};

use bc_protocol::{
    id::{NodeId, PoolId, RolloutId},
    share::{Percent, Share},
    version::Version,
};

use super::{Control, Planted, Round};
use crate::{
    clock::Moment,
    rollout::simulation::{Call, Flights, Freeze, Scope, create::Wanted},
};

/// A rollout to be made.
#[derive(Clone, Debug)]
pub struct Order {
    /// The caller's idempotency key.
    pub key: String,
    /// What it brings.
    pub version: Version,
    /// Through which pools; through all where nobody says.
    pub pools: Option<BTreeSet<PoolId>>,
    /// To which nodes; to all where nobody says.
    pub nodes: Option<BTreeSet<NodeId>>,
    /// Cumulative percentages.
    pub waves: Vec<Percent>,
    /// What may fail.
    pub ratio: Share,
    /// Rest between waves.
    pub soak: Duration,
    /// How long one node may take.
    pub timeout: Duration,
    /// Whether nodes in maintenance take part.
    pub maintenance_too: bool,
}

/// What an operator says about a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// `rollouts.pause`
    Pause,
    /// `rollouts.resume`
    Resume,
    /// `rollouts.abort`
    Abort,
    /// `rollouts.abort` with rollback
    AbortAndRollBack,
    /// `rollouts.retry`
    Retry,
}

impl Control {
    /// `rollouts.create`, as often as a client says it. Gives the rollout, or why there is none. I20, I28
    pub fn create(
        &mut self,
        order: &Order,
        times: u32,
        at_ms: i64,
    ) -> Result<(RolloutId, Round), String> {
        let now = Moment::from_millis(at_ms);
        let before = (self.rows.rollouts.len(), self.rows.events.len());
        let mut made: Result<(RolloutId, Round), String> = Err("nobody called".to_owned());
        for time in 0..times {
            let time = if self.planted == Some(Planted::KeyIgnored) {
                time
            } else {
                0
            };
            let id =
                RolloutId::derived(&[b"root", b"alice", order.key.as_bytes(), &time.to_be_bytes()]);
            let wanted = wanted(order, id);
            let answer = self.rows.create(&wanted, now);
            let answer = answer.map_err(|no| format!("{no:?}"));
            let broken = self.rows.check_order(&wanted.id);
            self.note(broken);
            let answer = answer.map(|stale| {
                (
                    wanted.id,
                    Round {
                        stale,
                        next_ms: None,
                    },
                )
            });
            made = match made {
                Ok(first) if answer.as_ref().ok().map(|(id, _)| id) != Some(&first.0) => {
                    self.note(Some((
                        "I28",
                        format!("equal calls are answered by {first:?} and {answer:?}"),
                    )));
                    Ok(first)
                }
                Ok(first) => Ok(first),
                Err(_) => answer,
            };
        }
        let after = (self.rows.rollouts.len(), self.rows.events.len());
        let grown = (
            after.0.saturating_sub(before.0),
            after.1.saturating_sub(before.1),
        );
        let fits = match &made {
            Ok(_) => grown.0 <= 1 && grown.0 == grown.1,
            Err(_) => grown == (0, 0),
        };
        if !fits {
            self.note(Some((
                "I28",
                format!("{times} equal calls left {grown:?} rows and events, and {made:?}"),
            )));
        }
        made
    }

    /// A word about a rollout; none where it has none to hear any more.
    pub fn say(&mut self, rollout: &RolloutId, word: Word, at_ms: i64) -> Option<Round> {
        let flights = match word {
            Word::Pause => {
                return self.carry_out(
                    rollout,
                    &Call::Pause {
                        reason: Some("by hand".to_owned()),
                    },
                    at_ms,
                );
            }
            Word::Resume => return self.carry_out(rollout, &Call::Resume, at_ms),
            Word::Retry => return self.rows.retry(rollout).then(Round::default),
            Word::Abort => Flights::Fail,
            Word::AbortAndRollBack => Flights::RollBack,
        };
        let reason = "by hand".to_owned();
        self.carry_out(rollout, &Call::Abort { reason, flights }, at_ms)
    }

    fn carry_out(&mut self, rollout: &RolloutId, call: &Call, at_ms: i64) -> Option<Round> {
        let planted = self.planner_planted();
        let passed = self.rows.call(
            rollout,
            call,
            (Moment::from_millis(0), Moment::from_millis(at_ms)),
            planted,
        )?;
        let mut round = Round::default();
        self.take(passed, &mut round);
        Some(round)
    }

    /// `fleet.freeze`, `fleet.unfreeze`
    pub fn freeze(&mut self, frozen: bool, at_ms: i64) {
        let word = frozen.then(|| Freeze {
            reason: "incident".to_owned(),
            by: "alice".to_owned(),
            since: Moment::from_millis(at_ms),
        });
        self.changes += 1;
        self.rows.freeze(word);
    }

    /// `nodes.update`
    pub fn maintain(&mut self, node: &NodeId, maintenance: bool) {
        self.changes += 1;
        self.rows.maintain(node, maintenance);
    }

    /// `nodes.remove`
    pub fn remove(&mut self, node: &NodeId, at_ms: i64) {
        self.changes += 1;
        self.rows.remove(node, Moment::from_millis(at_ms));
    }

    /// Every node that is out.
    pub fn removed(&self) -> Vec<NodeId> {
        let removed = self.rows.nodes.iter().filter(|(_, row)| row.removed);
        removed.map(|(id, _)| id.clone()).collect()
    }

    /// `pools.update`
    pub fn set_budget(&mut self, pool: &PoolId, share: Share) {
        if let Some(row) = self.rows.pools.get_mut(pool).filter(|row| !row.archived) {
            row.share = share;
        }
    }

    /// `pools.archive`
    pub fn archive(&mut self, pool: &PoolId) {
        self.changes += 1;
        if let Some(row) = self.rows.pools.get_mut(pool) {
            row.archived = true;
        }
    }

    /// A workflow on a node begins or ends.
    pub fn workflow(&mut self, node: &NodeId, runs: bool) {
        self.changes += 1;
        self.rows.workflow(node, "wf_1", runs);
    }
}

fn wanted(order: &Order, id: RolloutId) -> Wanted {
    Wanted {
        id,
        version: order.version.clone(),
        pools: order.pools.clone(),
        nodes: order.nodes.clone(),
        waves: order.waves.clone(),
        ratio: order.ratio,
        soak: order.soak,
        timeout: order.timeout,
        scope: if order.maintenance_too {
            Scope::MaintenanceToo
        } else {
            Scope::NotInMaintenance
        },
    }
}
