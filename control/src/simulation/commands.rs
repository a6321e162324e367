//! Commands' rows, and the shipped plan for them.

use std::collections::{BTreeMap, BTreeSet};

use bc_protocol::{
    command::{Command, Kind, Lane, Order},
    id::{AttemptId, CommandId, NodeId},
    link::{CommandEnded, CommandPush, Event},
    session::{Facts, Outcome, StartId},
    spec::DaemonSection,
};

use super::{Control, Planted};
use crate::{
    api::command::CommandState,
    clock::Moment,
    command::lifecycle::{Carries, Happened, Open, plan},
    rollout::simulation::check::Broken,
    spec::compute::{Origin, Way},
};

/// A week, as for the real ones.
const LIFE: std::time::Duration = std::time::Duration::from_secs(7 * 86_400);

/// Commands in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct Commands(Vec<Row>);

#[derive(Clone, Debug)]
struct Row {
    id: CommandId,
    node: NodeId,
    key: String,
    kind: Kind,
    state: CommandState,
    expires_at: Moment,
    due_at: Moment,
    attempt: Option<AttemptId>,
    started: Option<StartId>,
    /// Whether it is still one of the pending that must not be lost.
    results: BTreeSet<bool>,
}

impl Row {
    fn happen(&mut self, happened: &Happened<'_>, now: Moment) -> bool {
        let Some(after) = self.state.after(happened) else {
            return false;
        };
        self.state = after;
        self.due_at = match after {
            CommandState::Dispatched => now.plus(self.kind.timeout()),
            CommandState::Pending
            | CommandState::Succeeded
            | CommandState::Failed
            | CommandState::Expired
            | CommandState::TimedOut => self.expires_at,
        };
        true
    }

    fn is_open(&self, node: &NodeId) -> bool {
        self.node == *node && self.state.is_open()
    }
}

impl Commands {
    /// Whether a restart is under way.
    pub(super) fn restarts(&self, node: &NodeId) -> bool {
        self.0.iter().any(|row| {
            row.node == *node && row.kind == Kind::Restart && row.state == CommandState::Dispatched
        })
    }

    /// One of a lane is under way; of two equal names one is made.
    pub(super) fn check(&self) -> Broken {
        let mut lanes: BTreeMap<(&NodeId, Lane), &CommandId> = BTreeMap::new();
        let mut keys: BTreeSet<(&NodeId, &str)> = BTreeSet::new();
        for row in &self.0 {
            if row.state == CommandState::Dispatched
                && let Some(other) = lanes.insert((&row.node, row.kind.lane()), &row.id)
            {
                return Some((
                    "6",
                    format!("{} and {other} are under way in one lane", row.id),
                ));
            }
            if !keys.insert((&row.node, &row.key)) {
                return Some(("I28", format!("two commands are named {}", row.key)));
            }
            if row.results.len() > 1 {
                return Some(("I26", format!("{} ended both ways", row.id)));
            }
        }
        None
    }
}

impl Control {
    /// `commands.create`
    pub fn command(&mut self, node: &NodeId, kind: Kind, at_ms: i64) -> CommandId {
        let now = Moment::from_millis(at_ms);
        let key = format!("by hand {}", self.commands.0.len());
        self.add(
            node,
            (kind, key, None),
            now.plus(std::time::Duration::from_secs(3600)),
        )
    }

    /// Every command that callers made, with its node and its state's word.
    pub fn asked(&self) -> impl Iterator<Item = (&CommandId, &NodeId, Kind, &'static str)> {
        self.commands
            .0
            .iter()
            .map(|row| (&row.id, &row.node, row.kind, row.state.word()))
    }

    /// Commands whose time is over end. Gives the nodes whose lanes may be free.
    pub fn commands_due(&mut self, at_ms: i64) -> Vec<NodeId> {
        let now = Moment::from_millis(at_ms);
        let mut free = Vec::new();
        for row in self
            .commands
            .0
            .iter_mut()
            .filter(|row| row.state.is_open() && row.due_at <= now)
        {
            if row.happen(&Happened::TimeIsUp, now) {
                free.push(row.node.clone());
            }
        }
        free
    }

    /// Nodes with commands that wait.
    pub fn commands_waiting(&self) -> BTreeSet<NodeId> {
        let waiting = self
            .commands
            .0
            .iter()
            .filter(|row| row.state == CommandState::Pending);
        waiting.map(|row| row.node.clone()).collect()
    }

    /// Leaves a node's commands as its session allows, and gives what it is to be sent.
    pub fn dispatch(&mut self, node: &NodeId, at_ms: i64) -> Vec<CommandPush> {
        let now = Moment::from_millis(at_ms);
        let online = self.rows.facts.get(node).filter(|row| row.online);
        let removed = self.rows.nodes.get(node).is_none_or(|row| row.removed);
        let Some((facts, connect_seq, upgrade_only)) = online
            .filter(|_| !removed)
            .map(|row| (row.facts.clone(), row.connect_seq, row.upgrade_only))
        else {
            return Vec::new();
        };
        let everything = self.planted == Some(Planted::UpgradeOnlyGetsEverything);
        let section = self.section(node).filter(|_| upgrade_only);
        let carries = match (upgrade_only && !everything, &facts.trial) {
            (true, _) => Carries::Upgrades,
            (false, Some(_)) => Carries::ButRestarts,
            (false, None) => Carries::Everything,
        };
        if carries == Carries::Upgrades {
            self.ensure_upgrade(node, &facts, section.as_ref(), now);
        }
        let open = self.commands.0.iter().filter(|row| row.is_open(node));
        let mut open: Vec<Open> = open
            .map(|row| Open {
                id: row.id.clone(),
                kind: row.kind,
                state: row.state,
                expires_at: row.expires_at,
            })
            .collect();
        if self.planted == Some(Planted::LanesIgnored) {
            return self.dispatch_all(node, connect_seq, &facts, now);
        }
        let made = plan(&open, carries, now);
        open.clear();
        for (ids, happened) in [
            (&made.call_back, Happened::CalledBack),
            (&made.withdraw, Happened::Withdrawn),
            (&made.begin, Happened::Sent),
        ] {
            for row in self
                .commands
                .0
                .iter_mut()
                .filter(|row| ids.contains(&row.id))
            {
                row.happen(&happened, now);
                if happened == Happened::Sent {
                    row.started = row.started.or(facts.started);
                }
            }
        }
        let section = section.map(|(section, _)| section);
        let foreign =
            self.commands.0.iter().find(|row| {
                upgrade_only && row.kind != Kind::Upgrade && made.send.contains(&row.id)
            });
        let foreign = foreign.map(|row| {
            (
                "I27",
                format!("{} goes to {node}, which takes upgrades only", row.kind),
            )
        });
        self.note(foreign);
        let sent = made
            .send
            .iter()
            .filter_map(|id| self.commands.0.iter().find(|row| row.id == *id));
        sent.filter_map(|row| push(row, connect_seq, section.as_ref()))
            .collect()
    }

    /// A mistake: whatever waits is under way at once.
    fn dispatch_all(
        &mut self,
        node: &NodeId,
        connect_seq: u64,
        facts: &Facts,
        now: Moment,
    ) -> Vec<CommandPush> {
        let mut sent = Vec::new();
        for row in self.commands.0.iter_mut().filter(|row| row.is_open(node)) {
            row.happen(&Happened::Sent, now);
            row.started = row.started.or(facts.started);
            sent.extend(push(row, connect_seq, None));
        }
        sent
    }

    /// Leaves one open upgrade for the section that a node is to have, if that is work.
    fn ensure_upgrade(
        &mut self,
        node: &NodeId,
        facts: &Facts,
        wanted: Option<&(DaemonSection, Origin)>,
        now: Moment,
    ) {
        let wanted = wanted.filter(|(section, _)| is_work(facts, section));
        let attempt = wanted.map(|(section, _)| &section.attempt);
        let newest = self
            .commands
            .0
            .iter_mut()
            .rev()
            .find(|row| row.node == *node && row.kind == Kind::Upgrade);
        if let Some(row) = newest {
            let same = row.attempt.as_ref() == attempt;
            match (row.state, same) {
                (
                    CommandState::Pending
                    | CommandState::Dispatched
                    | CommandState::Succeeded
                    | CommandState::Failed,
                    true,
                ) => return,
                (CommandState::Pending | CommandState::Dispatched, false) => {
                    row.happen(&Happened::Withdrawn, now);
                }
                (CommandState::Expired | CommandState::TimedOut, true | false)
                | (CommandState::Succeeded | CommandState::Failed, false) => {}
            }
        }
        let Some((section, origin)) = wanted else {
            return;
        };
        let way = match origin.way {
            Way::There => "",
            Way::Late => ":late",
            Way::Back => ":rollback",
        };
        let base = format!("rollout:{}:{node}{way}", origin.rollout);
        let taken = self
            .commands
            .0
            .iter()
            .filter(|row| row.node == *node && row.key.starts_with(&base))
            .count();
        let key = if taken == 0 {
            base
        } else {
            format!("{base}:{taken}")
        };
        self.add(
            node,
            (Kind::Upgrade, key, Some(section.attempt.clone())),
            now.plus(LIFE),
        );
    }

    fn add(
        &mut self,
        node: &NodeId,
        (kind, key, attempt): (Kind, String, Option<AttemptId>),
        expires_at: Moment,
    ) -> CommandId {
        let id = CommandId::derived(&[node.as_str().as_bytes(), key.as_bytes()]);
        self.commands.0.push(Row {
            id: id.clone(),
            node: node.clone(),
            key,
            kind,
            state: CommandState::Pending,
            expires_at,
            due_at: expires_at,
            attempt,
            started: None,
            results: BTreeSet::new(),
        });
        id
    }

    /// Ends the commands that a batch's answers and facts end.
    pub(super) fn settle_commands(
        &mut self,
        events: &[Event],
        changed: &BTreeSet<NodeId>,
        now: Moment,
    ) {
        for row in self.commands.0.iter_mut().filter(|row| {
            row.kind == Kind::Upgrade && row.state.is_open() && changed.contains(&row.node)
        }) {
            if let Some(facts) = self.rows.facts.get(&row.node) {
                match shown(row, &facts.facts) {
                    Some(true) => drop(row.happen(&Happened::Did, now)),
                    Some(false) => drop(row.happen(&Happened::DidNot { code: "" }, now)),
                    None => {}
                }
            }
        }
        for event in events {
            match event {
                Event::Ended(ended) => self.answered(ended, now),
                Event::Opened(_) | Event::Closed(_) | Event::Report(_) | Event::Listed => {}
            }
        }
    }

    fn answered(&mut self, ended: &CommandEnded, now: Moment) {
        let facts = self.rows.facts.get(&ended.node);
        let counts = |row: &&crate::rollout::simulation::rows::FactsRow| {
            row.connect_seq == ended.connect_seq && row.session == ended.session
        };
        let Some(facts) = facts.filter(counts) else {
            return;
        };
        let result = &ended.result;
        let Some(row) = self
            .commands
            .0
            .iter_mut()
            .find(|row| row.id == result.id && row.node == ended.node)
        else {
            return;
        };
        row.results.insert(result.succeeded);
        let is_shown = match row.kind {
            Kind::Upgrade => false,
            Kind::Restart => row
                .started
                .zip(facts.facts.started)
                .is_none_or(|(before, now)| before != now),
            Kind::Diagnostics => true,
        };
        if !result.succeeded {
            row.happen(&Happened::DidNot { code: &result.code }, now);
        } else if is_shown {
            row.happen(&Happened::Did, now);
        }
    }
}

/// Whether facts end an upgrade, and how.
fn shown(row: &Row, facts: &Facts) -> Option<bool> {
    let last = facts
        .last_attempt
        .as_ref()
        .filter(|last| Some(&last.id) == row.attempt.as_ref())?;
    if last.outcome == Outcome::Confirmed {
        return facts.trial.is_none().then_some(true);
    }
    last.is_final.then_some(false)
}

fn is_work(facts: &Facts, section: &DaemonSection) -> bool {
    let runs =
        facts.version == section.version && facts.digest == section.sha256 && facts.trial.is_none();
    let last = facts
        .last_attempt
        .as_ref()
        .filter(|last| last.id == section.attempt);
    let given_up = last.is_some_and(|last| last.is_final && last.outcome != Outcome::Confirmed);
    !given_up && (!runs || last.is_none())
}

fn push(row: &Row, connect_seq: u64, section: Option<&DaemonSection>) -> Option<CommandPush> {
    let order = match row.kind {
        Kind::Restart => Order::Restart,
        Kind::Diagnostics => Order::Diagnostics {
            collect: Vec::new(),
        },
        Kind::Upgrade => Order::Upgrade(
            section
                .filter(|section| Some(&section.attempt) == row.attempt.as_ref())?
                .clone(),
        ),
    };
    Some(CommandPush {
        node: row.node.clone(),
        connect_seq,
        command: Ok(Command {
            id: row.id.clone(),
            expires_at_ms: row.expires_at.millis(),
            order,
        }),
    })
}
