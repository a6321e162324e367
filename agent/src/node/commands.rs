//! Commands on the node: each has its effect once.
//!
//! Takes commands as the gateway sends them, gives results as they come about. A command is in the journal before its
//! effect, and its result before it is sent; one that comes again is answered from there. Lanes do not wait for each
//! other, and within a lane one command waits for the one before.

pub(crate) mod diagnostics;
mod journal;
mod scrub;

use std::{collections::VecDeque, time::Instant};

use bc_protocol::{
    command::{Command, CommandResult, Order, Unreadable, code},
    id::{AttemptId, CommandId},
    session::{Facts, Outcome, StartId},
    spec::DaemonSection,
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use self::{
    diagnostics::Sources,
    journal::{Journal, Known, What},
};
use super::{limits::COLLECT_DEADLINE, update::UpdateState};
use crate::clock;

/// See the module's card.
pub(crate) struct Commands {
    journal: Journal,
    sources: Sources,
    upgrade_to: Door,
    /// What this process works on: the next Hello names it.
    under_way: watch::Sender<Vec<CommandId>>,
    results: mpsc::Sender<CommandResult>,
    restart: watch::Sender<Restart>,
    upgrade: Option<(CommandId, AttemptId)>,
    waiting: VecDeque<(CommandId, Vec<String>)>,
    collecting: Option<(CommandId, JoinHandle<Vec<u8>>)>,
    server: Option<ServerTime>,
}

/// The way to the updater: the same that a spec's section takes.
pub(crate) type Door = Box<dyn Fn(DaemonSection) + Send>;

/// What a node's commands need of it.
pub(crate) struct Parts {
    pub(crate) sources: Sources,
    pub(crate) start: StartId,
    pub(crate) upgrade_to: Door,
    pub(crate) under_way: watch::Sender<Vec<CommandId>>,
    pub(crate) results: mpsc::Sender<CommandResult>,
    pub(crate) restart: watch::Sender<Restart>,
}

/// Whether the daemon is to end and start again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Restart {
    #[default]
    No,
    Now,
}

/// What a gateway's clock said, and when: commands expire by control's time, whatever this machine's clock says.
#[derive(Clone, Copy, Debug)]
struct ServerTime {
    unix_ms: i64,
    at: Instant,
}

impl Commands {
    /// Goes on where the journal says.
    pub(crate) fn new(parts: Parts) -> Self {
        Self {
            journal: Journal::load(parts.sources.paths.clone(), parts.start),
            sources: parts.sources,
            upgrade_to: parts.upgrade_to,
            under_way: parts.under_way,
            results: parts.results,
            restart: parts.restart,
            upgrade: None,
            waiting: VecDeque::new(),
            collecting: None,
            server: None,
        }
    }

    /// A gateway has welcomed the node, and told the time.
    pub(crate) fn welcomed(&mut self, server_time_ms: i64) {
        self.server = Some(ServerTime {
            unix_ms: server_time_ms,
            at: clock::instant(),
        });
    }

    /// A command came.
    pub(crate) fn hear(
        &mut self,
        command: Result<Command, Unreadable>,
        (state, facts): (&UpdateState, &Facts),
    ) {
        let command = match command {
            Ok(command) => command,
            Err(unreadable) => return self.refuse_unreadable(&unreadable),
        };
        let what = What::of(&command.order);
        match self.journal.look(&command.id) {
            Known::Ended(result) => self.send(result),
            Known::Begun(begun) if begun == what => self.go_on(command, (state, facts)),
            Known::Begun(_) => {
                tracing::warn!(command = %command.id, "it was begun as another one: what came now is left alone");
            }
            Known::Nothing => self.begin(command, what, (state, facts)),
        }
    }

    fn begin(&mut self, command: Command, what: What, now: (&UpdateState, &Facts)) {
        let id = command.id.clone();
        if let Some((code, message)) = self.objection(&command, now.0) {
            return self.end(failed(id, code, message));
        }
        if let Err(error) = self.journal.begin(id.clone(), what, &self.under_way()) {
            let message =
                format!("expected to remember the command first, found that it cannot be: {error}");
            // Without a journal this answer is not remembered either, and nothing has happened that could be twice.
            return self.send(failed(id, code::JOURNAL, message));
        }
        tracing::info!(command = %id, kind = %command.order.kind(), "a command begins");
        self.go_on(command, now);
    }

    /// Why a command does not begin.
    fn objection(&self, command: &Command, state: &UpdateState) -> Option<(&'static str, String)> {
        let now = self.now_ms();
        if now >= command.expires_at_ms {
            let late = now.saturating_sub(command.expires_at_ms);
            let message = format!("expected the command in time, found it {late} ms late");
            return Some((code::EXPIRED, message));
        }
        match (&command.order, &state.trial) {
            // A start on trial is counted, and counts against the release: nobody's restart may use one up.
            (Order::Restart, Some(trial)) => {
                let message = format!(
                    "expected no trial, found one in slot {}: it ends by itself first",
                    trial.slot
                );
                Some((code::ON_TRIAL, message))
            }
            (Order::Restart, None) | (Order::Upgrade(_) | Order::Diagnostics { .. }, _) => None,
        }
    }

    /// Does, or goes on doing, what is in the journal as begun.
    fn go_on(&mut self, command: Command, (state, facts): (&UpdateState, &Facts)) {
        match command.order {
            Order::Restart => {
                self.restart.send_replace(Restart::Now);
            }
            Order::Upgrade(section) => self.upgrade(command.id, section, state),
            Order::Diagnostics { collect } => {
                let known = self.is_under_way(&command.id);
                if !known {
                    self.waiting.push_back((command.id, collect));
                    self.collect_next(facts);
                }
            }
        }
        self.tell();
    }

    fn upgrade(&mut self, id: CommandId, section: DaemonSection, state: &UpdateState) {
        let before = self.upgrade.replace((id.clone(), section.attempt.clone()));
        (self.upgrade_to)(section);
        // Nobody goes on with the one before: whoever sent it is told, and the journal keeps its room.
        if let Some((before, _)) = before.filter(|(before, _)| *before != id) {
            let message = format!("expected to go on, found that {id} took its place");
            self.end(failed(before, code::REPLACED, message));
        }
        self.look_at(state);
    }

    /// The updater's state has changed: an upgrade may have ended.
    pub(crate) fn look_at(&mut self, state: &UpdateState) {
        let Some((id, attempt)) = &self.upgrade else {
            return;
        };
        let Some(last) = state
            .last_attempt
            .as_ref()
            .filter(|last| last.id == *attempt)
        else {
            return;
        };
        let succeeded = last.outcome == Outcome::Confirmed && state.trial.is_none();
        if !succeeded && !last.is_final {
            return;
        }
        let result = CommandResult {
            id: id.clone(),
            succeeded,
            message: last.message.clone(),
            report: Vec::new(),
            code: last.code.clone(),
        };
        self.upgrade = None;
        self.end(result);
    }

    /// Waits until something that was begun here has ended; for ever where nothing is under way.
    pub(crate) async fn done(&mut self) -> Collected {
        match &mut self.collecting {
            Some((_, task)) => Collected(task.await.ok()),
            None => std::future::pending().await,
        }
    }

    /// Takes what was collected, and begins the next.
    pub(crate) fn collected(&mut self, collected: Collected, facts: &Facts) {
        let Some((id, _)) = self.collecting.take() else {
            return;
        };
        let result = match collected.0 {
            Some(report) if !report.is_empty() => CommandResult {
                id,
                succeeded: true,
                message: format!("{} bytes", report.len()),
                report,
                code: String::new(),
            },
            Some(_) | None => {
                let message = format!("expected a report within {COLLECT_DEADLINE:?}, found none");
                failed(id, code::OVERDUE, message)
            }
        };
        self.end(result);
        self.collect_next(facts);
        self.tell();
    }

    fn collect_next(&mut self, facts: &Facts) {
        if self.collecting.is_some() {
            return;
        }
        let Some((id, words)) = self.waiting.pop_front() else {
            return;
        };
        let (sources, facts) = (self.sources.clone(), facts.clone());
        let task = tokio::spawn(async move {
            let collecting = diagnostics::collect(&sources, &facts, &words);
            let collected = tokio::time::timeout(COLLECT_DEADLINE, collecting).await;
            collected.unwrap_or_default()
        });
        self.collecting = Some((id, task));
    }

    fn is_under_way(&self, id: &CommandId) -> bool {
        self.under_way().contains(id)
    }

    fn under_way(&self) -> Vec<CommandId> {
        let upgrade = self.upgrade.iter().map(|(id, _)| id);
        let collecting = self.collecting.iter().map(|(id, _)| id);
        let waiting = self.waiting.iter().map(|(id, _)| id);
        upgrade.chain(collecting).chain(waiting).cloned().collect()
    }

    fn refuse_unreadable(&mut self, unreadable: &Unreadable) {
        let Some(id) = unreadable.id.clone() else {
            tracing::warn!(%unreadable, "a command that nobody could answer");
            return;
        };
        match self.journal.look(&id) {
            Known::Ended(result) => self.send(result),
            Known::Begun(_) => {
                tracing::warn!(command = %id, "it was begun as another one: what came now is left alone");
            }
            Known::Nothing => self.end(failed(id, unreadable.code(), unreadable.to_string())),
        }
    }

    fn end(&mut self, result: CommandResult) {
        tracing::info!(command = %result.id, succeeded = result.succeeded, message = result.message,
            "a command has ended");
        self.journal.end(&result);
        self.send(result);
        self.tell();
    }

    fn send(&self, result: CommandResult) {
        let id = result.id.clone();
        // Whoever waits for it has the command replayed, and is answered from the journal.
        if self.results.try_send(result).is_err() {
            tracing::warn!(command = %id, "a result is not sent: too many wait");
        }
    }

    fn tell(&self) {
        let under_way = self.under_way();
        self.under_way.send_if_modified(|told| {
            let changed = *told != under_way;
            *told = under_way;
            changed
        });
    }

    fn now_ms(&self) -> i64 {
        let Some(server) = self.server else {
            return clock::wall().unix().saturating_mul(1000);
        };
        let passed = clock::instant().saturating_duration_since(server.at);
        let passed = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX);
        server.unix_ms.saturating_add(passed)
    }
}

/// What a collection gave.
pub(crate) struct Collected(Option<Vec<u8>>);

fn failed(id: CommandId, code: &str, message: String) -> CommandResult {
    CommandResult {
        id,
        succeeded: false,
        message,
        report: Vec::new(),
        code: code.to_owned(),
    }
}

#[cfg(test)]
mod tests;
