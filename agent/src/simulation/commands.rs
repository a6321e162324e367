//! Commands on a made-up node, with a journal as durable as the real one.

use std::time::Duration;

use bc_protocol::{
    command::{Command, CommandResult, Order, code},
    id::CommandId,
    session::{Facts, Outcome},
};

use super::{Planted, SimulatedNode, disk::Begun};
use crate::{
    node::session::{Input, Leaving},
    updater::machine::{self, Target},
};

/// How long a report takes to collect.
const COLLECTS: Duration = Duration::from_secs(2);

impl SimulatedNode {
    /// A restart that an earlier start began has had its effect: this start is it.
    pub(super) fn load_journal(&mut self) {
        if self.plants(Planted::JournalForgotten) {
            self.disk.journal.clear();
        }
        let start = self.starts;
        for (id, begun) in &mut self.disk.journal {
            if begun.ended.is_none() && begun.restart && begun.start != start {
                begun.ended = Some(done(id.clone()));
            }
        }
    }

    pub(super) fn command(&mut self, command: Command, at: Duration) {
        let id = command.id.clone();
        match self.disk.journal.get(&id) {
            Some(Begun {
                ended: Some(result),
                ..
            }) => {
                let result = result.clone();
                self.answer(result, at);
            }
            Some(Begun { ended: None, .. }) => self.go_on(command, at),
            None => match self.objection(&command, at) {
                Some(code) => self.ends(failed(id, code), at),
                None => {
                    let begun = Begun {
                        restart: command.order == Order::Restart,
                        start: self.starts,
                        ended: None,
                    };
                    self.disk.journal.insert(id, begun);
                    self.go_on(command, at);
                }
            },
        }
    }

    fn objection(&self, command: &Command, at: Duration) -> Option<&'static str> {
        let ahead = self
            .process
            .as_ref()
            .map_or(0, |process| process.server_ahead_ms);
        let own = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        if own.saturating_add(ahead) >= command.expires_at_ms {
            return Some(code::EXPIRED);
        }
        let on_trial = self.disk.record.trial().is_some();
        (command.order == Order::Restart && on_trial).then_some(code::ON_TRIAL)
    }

    fn go_on(&mut self, command: Command, at: Duration) {
        match command.order {
            Order::Restart => {
                let first = |process: &mut super::Process| {
                    !std::mem::replace(&mut process.restarting, true)
                };
                if self.process.as_mut().is_some_and(first) {
                    *self.disk.effects.entry(command.id).or_insert(0) += 1;
                }
                self.session(Input::Leave(Leaving::Restarting), at);
            }
            Order::Upgrade(section) => {
                // It is newer than the spec that is remembered.
                if let Some(spec) = &mut self.disk.spec {
                    spec.daemon = None;
                }
                if let Some(process) = &mut self.process {
                    process.upgrade = Some((command.id, section.attempt.clone()));
                }
                self.update(machine::Input::Target(Target::Release(section)), at);
                // It may have ended before it came again.
                if let Some(facts) = self.facts() {
                    self.upgrade_looked_at(&facts, at);
                }
            }
            Order::Diagnostics { .. } => {
                if let Some(process) = &mut self.process {
                    process.collecting = Some((command.id, at + COLLECTS));
                }
            }
        }
    }

    pub(super) fn finish_collecting(&mut self, at: Duration) {
        let due = |process: &mut super::Process| process.collecting.take_if(|(_, due)| *due <= at);
        let Some((id, _)) = self.process.as_mut().and_then(due) else {
            return;
        };
        *self.disk.effects.entry(id.clone()).or_insert(0) += 1;
        self.ends(done(id), at);
    }

    /// The updater's state has changed: an upgrade may have ended.
    pub(super) fn upgrade_looked_at(&mut self, facts: &Facts, at: Duration) {
        let Some(process) = &mut self.process else {
            return;
        };
        let Some((id, attempt)) = &process.upgrade else {
            return;
        };
        let last = facts
            .last_attempt
            .as_ref()
            .filter(|last| last.id == *attempt);
        let Some(last) = last else { return };
        let succeeded = last.outcome == Outcome::Confirmed && facts.trial.is_none();
        if !succeeded && !last.is_final {
            return;
        }
        let result = CommandResult {
            succeeded,
            code: last.code.clone(),
            ..done(id.clone())
        };
        process.upgrade = None;
        self.ends(result, at);
    }

    fn ends(&mut self, result: CommandResult, at: Duration) {
        let start = self.starts;
        let begun = self.disk.journal.entry(result.id.clone()).or_insert(Begun {
            restart: false,
            start,
            ended: None,
        });
        begun.ended = Some(result.clone());
        self.answer(result, at);
    }
}

fn done(id: CommandId) -> CommandResult {
    CommandResult {
        id,
        succeeded: true,
        message: String::new(),
        report: b"report".to_vec(),
        code: String::new(),
    }
}

fn failed(id: CommandId, code: &str) -> CommandResult {
    CommandResult {
        succeeded: false,
        report: Vec::new(),
        code: code.to_owned(),
        ..done(id)
    }
}
