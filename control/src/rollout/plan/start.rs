//! The start: which nodes of the open wave are told to upgrade now.

use bc_protocol::{
    id::{AttemptId, NodeId, RolloutId},
    sequence::ReleaseFloor,
    version::Version,
};

use super::{Follow, PlaceMove, Step, Wakeup, pass::Pass};
use crate::{
    api::rollout::RolloutState,
    clock::Moment,
    rollout::{
        budget::Taken,
        hold::Hold,
        limits,
        snapshot::{Extent, Node, Offer, Presence, Said, Trouble, Waiting},
        target::Unfit,
    },
};

/// What considering a pending node led to.
enum Considered {
    /// It starts, or will once something lets it: the wave is not over.
    Moves,
    /// It cannot be reached since then.
    Away(Moment),
    /// It was passed over.
    Skipped,
}

impl<'a> Pass<'a> {
    pub(super) fn start(&mut self) {
        if self.plan.head.state != RolloutState::Running {
            return self.hold_all(Hold::NotRunning {
                state: self.plan.head.state,
                reason: self.plan.head.reason.clone(),
            });
        }
        if let Some(freeze) = &self.snapshot.freeze {
            return self.hold_all(Hold::Frozen(freeze.clone()));
        }
        // A wave that this plan opened has its nodes in the next snapshot, not in this one.
        if self.plan.follow == Follow::Again {
            return;
        }
        let mut away = Vec::new();
        let mut moves = self.flies_online() || self.snapshot.extent == Extent::PartAndOnline;
        for waiting in self.candidates() {
            match self.consider(waiting) {
                Considered::Moves => moves = true,
                Considered::Away(since) => away.push((waiting, since)),
                Considered::Skipped => {}
            }
        }
        if self.snapshot.extent != Extent::Whole && self.leaves_room() {
            // More of these places are free than nodes were read for: others are read for the next plan.
            self.plan.follow = Follow::Again;
        }
        if !moves && self.snapshot.extent == Extent::Part {
            // Whoever could be reached has just settled or was passed over: now the others are to be looked at.
            self.plan.follow = Follow::Again;
            return;
        }
        for (waiting, since) in away {
            if moves {
                self.hold(
                    &waiting.row.node,
                    Hold::Offline {
                        since,
                        skipped_at: None,
                    },
                );
            } else {
                self.pass_over(waiting, since);
            }
        }
        if self.open_wave().rows.are_settled() && self.plan.head.wave_settled_at.is_none() {
            self.plan.follow = Follow::Again;
        }
    }

    /// Pending nodes of the open wave, in order.
    fn candidates(&self) -> Vec<&'a Waiting> {
        let open = self.plan.head.wave;
        self.snapshot
            .pending
            .iter()
            .filter(|waiting| waiting.row.wave == open && !self.has_moved(&waiting.row))
            .collect()
    }

    /// Whether a place that this plan gives back is still free.
    fn leaves_room(&self) -> bool {
        let relieved = self.relieved.iter().filter_map(|pool| self.pools.get(pool));
        relieved
            .map(|pool| pool.budget)
            .any(|budget| budget.disrupted() < budget.max())
    }

    /// Whether a node that can be reached is still in flight.
    fn flies_online(&self) -> bool {
        let flights = &self.snapshot.flights;
        self.snapshot.unseen.reachable
            || flights
                .iter()
                .any(|flight| flight.node.is_online() && !self.has_moved(&flight.row))
    }

    fn consider(&mut self, waiting: &Waiting) -> Considered {
        if let Some(said) = &waiting.node.said
            && let Some(trouble) = unstartable(&waiting.node, said, self.snapshot.bringing())
        {
            self.change(&waiting.row, Step::Skip(trouble));
            return Considered::Skipped;
        }
        let said = match (waiting.node.presence, &waiting.node.said) {
            (Presence::Online, Some(said)) => said,
            (Presence::Offline(since), _) => return Considered::Away(since),
            // Nobody is online who has said nothing: the next report will tell.
            (Presence::Online, None) => return Considered::Moves,
        };
        if let Some(by) = &waiting.disrupted_by {
            self.hold(&waiting.row.node, Hold::Disrupted { by: by.clone() });
            return Considered::Moves;
        }
        if let Offer::Distrusted(refusal) = &self.snapshot.offer {
            let refusal = refusal.clone();
            self.hold(&waiting.row.node, Hold::Distrusted { refusal });
            return Considered::Moves;
        }
        let Some(pool) = self.pools.get_mut(&waiting.row.pool) else {
            return Considered::Moves;
        };
        match pool.budget.take() {
            Taken::Place => self.tell(waiting, said.version.clone()),
            Taken::Full => {
                let hold = Hold::Budget {
                    disrupted: pool.budget.disrupted(),
                    max: pool.budget.max(),
                };
                self.hold(&waiting.row.node, hold);
            }
        }
        Considered::Moves
    }

    fn tell(&mut self, waiting: &Waiting, from: Version) {
        let node = &waiting.row.node;
        let deadline = self.now.plus(self.snapshot.terms.timeout);
        let step = Step::Start {
            from,
            attempt: first_attempt(&self.snapshot.terms.id, node),
            deadline,
        };
        self.change(&waiting.row, step);
        self.plan
            .places
            .push(PlaceMove::Occupy(node.clone(), waiting.row.pool.clone()));
        self.plan.stale.push(node.clone());
        self.wake(deadline, Wakeup::Overdue);
    }

    /// Passes over a node that has been away for long, when nothing else of its wave moves.
    fn pass_over(&mut self, waiting: &Waiting, since: Moment) {
        let context = self.snapshot.context;
        let skipped_at = context.away_from(since).map(|away| {
            away.plus(context.offline_grace)
                .max(context.started_at.plus(limits::START_UP))
        });
        match skipped_at {
            Some(at) if at <= self.now => {
                let trouble = Trouble::new(
                    "offline",
                    format!("the node has been offline since {since}"),
                );
                self.change(&waiting.row, Step::Skip(trouble));
            }
            Some(at) => {
                self.hold(&waiting.row.node, Hold::Offline { since, skipped_at });
                self.wake(at, Wakeup::OfflineTooLong);
            }
            None => self.hold(&waiting.row.node, Hold::Offline { since, skipped_at }),
        }
    }
}

/// Why a node cannot be told to upgrade, whatever else happens.
pub(in crate::rollout) fn unstartable(
    node: &Node,
    said: &Said,
    bringing: (&Version, &Offer),
) -> Option<Trouble> {
    let stands = (node.arch.as_deref(), said.held.as_deref());
    barred(stands, said.floor, bringing)
}

/// The same, of a node with this `cpu.arch` label, whose owner holds it for this reason.
pub(in crate::rollout) fn barred(
    (arch, held): (Option<&str>, Option<&str>),
    floor: ReleaseFloor,
    (version, offer): (&Version, &Offer),
) -> Option<Trouble> {
    if let Some(reason) = held {
        return Some(Trouble::new(
            "held",
            format!("its owner holds the node: {reason}"),
        ));
    }
    let unfit = match offer {
        Offer::Good(target) => target.binary_for(arch, floor).err()?,
        Offer::NotRegistered => Unfit::NotRegistered {
            version: version.clone(),
        },
        // Pins are mended more easily than a rollout that has skipped its nodes.
        Offer::Distrusted(_) => return None,
    };
    Some(Trouble::new(unfit.code(), unfit.to_string()))
}

/// What reports about a node's first try name.
pub(crate) fn first_attempt(rollout: &RolloutId, node: &NodeId) -> AttemptId {
    AttemptId::derived(&[rollout.as_str().as_bytes(), node.as_str().as_bytes(), b"1"])
}

/// What reports about a node's way back name.
pub(crate) fn rollback_attempt(rollout: &RolloutId, node: &NodeId) -> AttemptId {
    AttemptId::derived(&[
        rollout.as_str().as_bytes(),
        node.as_str().as_bytes(),
        b"rollback",
    ])
}

/// What reports about a late node's try of that number name.
pub(crate) fn late_attempt(rollout: &RolloutId, node: &NodeId, tries: u32) -> AttemptId {
    AttemptId::derived(&[
        rollout.as_str().as_bytes(),
        node.as_str().as_bytes(),
        b"late",
        &tries.to_be_bytes(),
    ])
}
