//! Why a node is where it is, in one sentence with the numbers.
//!
//! Takes the node's row, what the next pass would hold back and why, and who has the pool's places; gives a word and a
//! sentence. It is made of the values that the planner itself decides by, so that it cannot say anything else than what
//! happens. Reads no clock and no database.

mod absence;

use std::fmt;

use bc_protocol::{id::NodeId, version::Version};

pub(crate) use absence::Absence;

use super::{
    hold::Hold,
    snapshot::{Freeze, Head, Node, Presence, Tally, Terms, Trouble, taken},
};
use crate::{
    api::rollout::{RolloutState, RowState},
    clock::Moment,
};

/// Nodes that a sentence names; the others it counts.
const NAMED_MAX: usize = 3;

/// Everything that an explanation may know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case<'a> {
    /// What was agreed.
    pub terms: &'a Terms,
    /// How far the rollout has come.
    pub head: &'a Head,
    /// Its waves.
    pub waves: &'a [Tally],
    /// Why nothing starts in the tenant, if nothing does.
    pub freeze: Option<&'a Freeze>,
    /// The node's part in it.
    pub part: &'a Part,
    /// What the next pass holds it back for.
    pub hold: Option<&'a Hold>,
    /// Who has places in the node's pool.
    pub users: &'a [User],
    /// The node.
    pub node: &'a Node,
    /// Which nodes it was made for.
    pub reach: Reach,
}

/// Which nodes a rollout was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All that its pools had.
    WholePools,
    /// Some, by their ids or labels: nothing of it is tried again later.
    Narrowed,
}

/// A node's part in a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A row of a wave.
    Wave(u32, Account),
    /// A late row.
    Late(Account),
    /// It is late and was not started yet.
    Awaited,
    /// None.
    Stranger(Absence),
}

/// What a row tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// Its state.
    pub state: RowState,
    /// What the node ran before.
    pub from: Option<Version>,
    /// When it was started.
    pub started_at: Option<Moment>,
    /// When it has taken too long.
    pub deadline_at: Option<Moment>,
    /// When it settled.
    pub finished_at: Option<Moment>,
    /// What went wrong.
    pub trouble: Option<Trouble>,
}

/// Who has a place in a pool's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    /// The node.
    pub node: NodeId,
    /// The rollout or workflow that disrupts it.
    pub reason: String,
}

/// A word and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The word.
    pub code: String,
    /// The sentence.
    pub sentence: String,
}

/// Explains a node.
pub(crate) fn explain(case: Case<'_>) -> Answer {
    match case.part {
        Part::Wave(wave, account) => case.row(account, Some(*wave)),
        Part::Late(account) => case.row(account, None),
        Part::Awaited => case.awaited(),
        Part::Stranger(absence) => Answer::new(absence.code(), absence),
    }
}

impl Answer {
    fn new(code: &str, sentence: impl fmt::Display) -> Self {
        Self {
            code: code.to_owned(),
            sentence: sentence.to_string(),
        }
    }

    /// How something ended, and what went wrong.
    fn troubled(account: &Account, ended: String) -> Self {
        match &account.trouble {
            Some(trouble) => Self::new(&trouble.code, format!("{ended}: {trouble}")),
            None => Self::new("unknown", format!("{ended}, and nothing says why")),
        }
    }

    fn and(mut self, more: impl fmt::Display) -> Self {
        self.sentence.push_str(&more.to_string());
        self
    }
}

impl Case<'_> {
    fn row(self, account: &Account, wave: Option<u32>) -> Answer {
        let version = &self.terms.version;
        let at = at(account.finished_at);
        let late = if wave.is_none() { "late " } else { "" };
        match account.state {
            RowState::Pending => self.pending(wave),
            RowState::Upgrading => {
                let from = account.from.as_ref().map(|from| format!(" from {from}"));
                let text = format!(
                    "it is upgrading {late}to {version}{}{}",
                    from.unwrap_or_default(),
                    journey(account)
                );
                Answer::new("upgrading", text)
                    .and(last_error(account))
                    .and(self.away())
            }
            RowState::Succeeded => match &account.from {
                // The package's own binary, or another release of that name.
                Some(from) if from == version => {
                    let text = format!(
                        "it took {late}the release {version}, and ran a {version} before, confirmed{at}"
                    );
                    Answer::new("succeeded", text).and(self.away())
                }
                Some(from) => {
                    let text = format!("it went {late}from {from} to {version}, confirmed{at}");
                    Answer::new("succeeded", text).and(self.away())
                }
                None => {
                    // When it confirmed it is before anything that is known here.
                    let text = format!("it ran {version} already, confirmed");
                    Answer::new("succeeded", text).and(self.away())
                }
            },
            RowState::Failed => {
                let text = format!("upgrading {late}to {version} failed{at}");
                Answer::troubled(account, text)
                    .and(self.holding())
                    .and(self.once_more())
            }
            RowState::Skipped => {
                let text = format!("it was passed over{at}");
                Answer::troubled(account, text).and(self.holding())
            }
            RowState::RollingBack => {
                let to = account.from.as_ref().map(|to| format!(" to {to}"));
                let text = format!(
                    "it is going back from {version}{}{}",
                    to.unwrap_or_default(),
                    journey(account)
                );
                Answer::new("rolling-back", text)
                    .and(last_error(account))
                    .and(self.away())
            }
            RowState::RolledBack => {
                let from = account
                    .from
                    .as_ref()
                    .map_or("what it ran before", Version::as_str);
                Answer::new("rolled-back", format!("it went back to {from}{at}"))
            }
        }
    }

    /// What holds back a node that waits: the tenant, the rollout, its wave, or the node itself.
    fn pending(self, wave: Option<u32>) -> Answer {
        if let Some(freeze) = self.freeze {
            let hold = Hold::Frozen(freeze.clone());
            return Answer::new("frozen", format!("it waits: {hold}"));
        }
        match wave {
            Some(wave) if wave > self.head.wave => self.later_wave(wave),
            Some(_) | None => self.waiting(),
        }
    }

    fn later_wave(self, wave: u32) -> Answer {
        let open = usize::try_from(self.head.wave)
            .ok()
            .and_then(|open| self.waves.get(open))
            .copied()
            .unwrap_or_default();
        let (left, all) = (
            open.rows.pending.saturating_add(open.rows.in_flight()),
            open.rows.total(),
        );
        let settled = all.saturating_sub(left);
        let (number, waves) = (wave.saturating_add(1), taken(self.waves));
        let current = self.head.wave.saturating_add(1);
        let stands = match left {
            0 => format!("wave {current} has settled"),
            _ => {
                format!("wave {current} is open, and {settled} of its {all} nodes have settled")
            }
        };
        let text = format!("it waits for wave {number} of {waves}: {stands}");
        let code = match self.head.state {
            RolloutState::Running => "wave",
            RolloutState::Paused | RolloutState::Completed | RolloutState::Aborted => {
                self.head.state.word()
            }
        };
        match self.hold {
            Some(hold) => Answer::new(code, text).and(format_args!("; {hold}")),
            None => Answer::new(code, text),
        }
    }

    fn waiting(self) -> Answer {
        match self.hold {
            Some(hold) => {
                Answer::new(hold.code(), format!("it waits: {hold}")).and(self.users_of(hold))
            }
            None => Answer::new("next", "it starts with the next pass"),
        }
    }

    fn awaited(self) -> Answer {
        let version = &self.terms.version;
        if let Some(freeze) = self.freeze {
            let hold = Hold::Frozen(freeze.clone());
            let text = format!("it is late for {version} and waits: {hold}");
            return Answer::new("frozen", text);
        }
        match self.hold {
            Some(hold) => {
                let text = format!("it is late for {version} and waits: {hold}");
                Answer::new(hold.code(), text).and(self.users_of(hold))
            }
            None => {
                let text =
                    format!("it is late for {version} and starts with one of the next passes");
                Answer::new("late", text)
            }
        }
    }

    /// Which nodes use up a budget.
    fn users_of(self, hold: &Hold) -> String {
        match hold {
            Hold::Budget { .. } => users(self.users),
            Hold::NotRunning { .. }
            | Hold::Frozen(_)
            | Hold::Soaking { .. }
            | Hold::Offline { .. }
            | Hold::Disrupted { .. }
            | Hold::Distrusted { .. }
            | Hold::StillAtWork
            | Hold::Maintenance
            | Hold::Unstartable(_) => String::new(),
        }
    }

    fn holding(self) -> String {
        match self.hold {
            Some(hold @ Hold::StillAtWork) => format!("; {hold}"),
            Some(_) | None => String::new(),
        }
    }

    /// What brings a failed node another try. It gets none by itself.
    fn once_more(self) -> &'static str {
        match (self.head.state, self.reach) {
            (RolloutState::Completed, Reach::WholePools) => "; rollouts retry tries it again",
            (RolloutState::Completed, Reach::Narrowed) | (RolloutState::Aborted, _) => {
                "; only another rollout tries it again"
            }
            (RolloutState::Running | RolloutState::Paused, _) => "",
        }
    }

    fn away(self) -> String {
        match self.node.presence {
            Presence::Online => String::new(),
            Presence::Offline(since) => format!(", and has been offline since {since:#}"),
        }
    }
}

fn at(moment: Option<Moment>) -> String {
    moment.map_or_else(String::new, |at| format!(" at {at:#}"))
}

fn journey(account: &Account) -> String {
    let since = account.started_at.map(|since| format!(" since {since:#}"));
    let until = account
        .deadline_at
        .map(|until| format!(" and has time until {until:#}"));
    [since, until].into_iter().flatten().collect()
}

fn last_error(account: &Account) -> String {
    match &account.trouble {
        Some(trouble) => format!(", last error {trouble}"),
        None => String::new(),
    }
}

fn users(users: &[User]) -> String {
    if users.is_empty() {
        return String::new();
    }
    let named: Vec<String> = users
        .iter()
        .take(NAMED_MAX)
        .map(|user| format!("{} by {}", user.node, user.reason))
        .collect();
    let others = users.len().saturating_sub(NAMED_MAX);
    let list = named.join(", ");
    if others == 0 {
        format!(": {list}")
    } else {
        format!(": {list}, and {others} more")
    }
}

#[cfg(test)]
mod tests;
