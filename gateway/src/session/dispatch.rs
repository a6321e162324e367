//! Which commands a session carries to its node, and which answers it takes back.
//!
//! Takes commands as control orders them, and the ids that the node answers; gives a verdict. Control orders one command
//! a lane at a time, so that another one of the same lane says that it has given up on the one before. A session whose
//! node is too old carries upgrades and nothing else. It keeps ids alone: what a command says is gone once it is sent.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    command::{Command, Lane},
    id::CommandId,
};

/// What a session is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    /// Specs, and commands of every kind.
    Full,
    /// The node is too old for today's specs: it gets upgrades as commands.
    UpgradeOnly,
}

/// The commands of one session.
#[derive(Debug)]
pub(crate) struct Dispatch {
    tier: Tier,
    /// What the node works on, by lane.
    under_way: BTreeMap<Lane, CommandId>,
    /// What it worked on already when the session began.
    brought: BTreeSet<CommandId>,
}

/// What becomes of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is sent.
    Send(Command),
    /// The node works on it already.
    UnderWay,
    /// It has to wait for a session that carries it.
    NotHere(CommandId),
}

/// What becomes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Control waits for it.
    Wanted,
    /// Nobody asked.
    Unasked,
}

impl Dispatch {
    /// Of a session whose node says that it works on these.
    pub(crate) fn new(tier: Tier, brought: impl IntoIterator<Item = CommandId>) -> Self {
        Self {
            tier,
            under_way: BTreeMap::new(),
            brought: brought.into_iter().collect(),
        }
    }

    /// What the session is good for now.
    pub(crate) fn tier(&self) -> Tier {
        self.tier
    }

    /// The session is good for something else from now on. What the node was given already it may still answer.
    pub(crate) fn turn(&mut self, tier: Tier) {
        self.tier = tier;
    }

    /// Control orders a command.
    pub(crate) fn order(&mut self, command: Command) -> Verdict {
        let command = match self.tier {
            Tier::Full => command,
            Tier::UpgradeOnly => match command.into_upgrade() {
                Ok(upgrade) => upgrade.into(),
                Err(other) => return Verdict::NotHere(other.id),
            },
        };
        let lane = command.order.kind().lane();
        let before = self.under_way.insert(lane, command.id.clone());
        if before.as_ref() == Some(&command.id) || self.brought.contains(&command.id) {
            return Verdict::UnderWay;
        }
        Verdict::Send(command)
    }

    /// The node answers a command.
    pub(crate) fn answer(&mut self, id: &CommandId) -> Answer {
        let brought = self.brought.remove(id);
        let asked = self.under_way.len();
        self.under_way.retain(|_, under_way| under_way != id);
        if brought || self.under_way.len() < asked {
            Answer::Wanted
        } else {
            Answer::Unasked
        }
    }
}

#[cfg(test)]
mod tests {
    use bc_protocol::command::Order;
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::{command, restart, upgrade};

    fn diagnostics(name: u8) -> Command {
        command(name, Order::Diagnostics { collect: vec![] })
    }

    #[test]
    fn a_lane_has_one_command_and_lanes_do_not_wait_for_each_other() {
        let mut session = Dispatch::new(Tier::Full, []);
        assert_eq!(session.order(restart(1)), Verdict::Send(restart(1)));
        assert_eq!(session.order(diagnostics(2)), Verdict::Send(diagnostics(2)));
        assert_eq!(session.order(restart(1)), Verdict::UnderWay);
        // Control has given up on the one before: nobody waits for its answer any more.
        assert_eq!(session.order(upgrade(3)), Verdict::Send(upgrade(3)));
        assert_eq!(session.answer(&restart(1).id), Answer::Unasked);
        assert_eq!(session.answer(&diagnostics(2).id), Answer::Wanted);
        assert_eq!(session.answer(&diagnostics(2).id), Answer::Unasked);
        assert_eq!(session.answer(&upgrade(3).id), Answer::Wanted);
    }

    #[test]
    fn what_the_node_works_on_already_is_not_sent_and_may_be_answered() {
        let brought = [upgrade(1).id, diagnostics(2).id];
        let mut session = Dispatch::new(Tier::Full, brought);
        assert_eq!(session.order(upgrade(1)), Verdict::UnderWay);
        assert_eq!(session.answer(&upgrade(1).id), Answer::Wanted);
        // Answered before control had named it: named later it is sent, and answered once more.
        assert_eq!(session.answer(&diagnostics(2).id), Answer::Wanted);
        assert_eq!(session.order(diagnostics(2)), Verdict::Send(diagnostics(2)));
    }

    #[test]
    fn a_session_that_turns_upgrade_only_still_takes_the_answers_that_it_asked_for() {
        let mut session = Dispatch::new(Tier::Full, []);
        session.order(diagnostics(1));
        session.turn(Tier::UpgradeOnly);
        assert_eq!(session.order(restart(2)), Verdict::NotHere(restart(2).id));
        assert_eq!(session.answer(&diagnostics(1).id), Answer::Wanted);
        session.turn(Tier::Full);
        assert_eq!(session.order(restart(2)), Verdict::Send(restart(2)));
    }

    proptest! {
        /// I27
        #[test]
        fn an_upgrade_only_session_sends_upgrades_and_nothing_else(
            orders in prop::collection::vec((0_u8..3, 0_u8..9), 0..40),
        ) {
            let mut session = Dispatch::new(Tier::UpgradeOnly, []);
            for (kind, name) in orders {
                let ordered = match kind {
                    0 => upgrade(name),
                    1 => restart(name),
                    _ => diagnostics(name),
                };
                match session.order(ordered.clone()) {
                    Verdict::Send(sent) => prop_assert!(sent == ordered && kind == 0),
                    Verdict::UnderWay => prop_assert_eq!(kind, 0),
                    Verdict::NotHere(id) => prop_assert!(id == ordered.id && kind != 0),
                }
            }
        }

        /// I26: whatever is ordered and answered in whatever order, no command is sent twice before it was answered, and
        /// no answer counts twice for one sending.
        #[test]
        fn sendings_and_answers_take_turns(
            steps in prop::collection::vec((any::<bool>(), 0_u8..3, 0_u8..3), 0..80),
        ) {
            let mut session = Dispatch::new(Tier::Full, []);
            let mut open: BTreeMap<Lane, CommandId> = BTreeMap::new();
            for (orders, kind, name) in steps {
                let named = match kind {
                    0 => upgrade(name),
                    1 => restart(name + 10),
                    _ => diagnostics(name + 20),
                };
                let lane = named.order.kind().lane();
                let is_open = open.get(&lane) == Some(&named.id);
                if orders {
                    let expected = if is_open { Verdict::UnderWay } else { Verdict::Send(named.clone()) };
                    prop_assert_eq!(session.order(named.clone()), expected);
                    open.insert(lane, named.id);
                } else {
                    let expected = if is_open { Answer::Wanted } else { Answer::Unasked };
                    prop_assert_eq!(session.answer(&named.id), expected);
                    if is_open {
                        open.remove(&lane);
                    }
                }
            }
        }
    }
}
