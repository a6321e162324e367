//! What a node remembers of its commands, so that none has its effect twice.
//!
//! Takes commands as they are begun and ended, gives what is known of an id. It is on the disk before anything is done,
//! or said, for a command. A file that cannot be read is as good as none, and a journal that cannot be written begins
//! nothing.

use std::{collections::VecDeque, io};

use bc_protocol::{
    command::{CommandResult, Kind, Order, code},
    id::{AttemptId, CommandId},
    session::StartId,
};
use serde::{Deserialize, Serialize};

use crate::{
    durable::{self, Mode},
    node::limits::{BEGUN_COMMANDS_MAX, ENDED_COMMANDS_MAX, JOURNAL_BYTES_MAX, KEPT_REPORTS_MAX},
    paths::Paths,
};

/// See the module's card.
#[derive(Debug)]
pub(super) struct Journal {
    paths: Paths,
    start: StartId,
    entries: VecDeque<Entry>,
}

/// What is known of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// It never came before.
    Nothing,
    /// It was begun, and has not ended.
    Begun(What),
    /// It has ended.
    Ended(CommandResult),
}

/// What a command that was begun is about: another payload under its id is not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct What {
    kind: String,
    attempt: Option<AttemptId>,
}

impl What {
    /// What this order is about.
    pub(super) fn of(order: &Order) -> Self {
        let attempt = match order {
            Order::Upgrade(section) => Some(section.attempt.clone()),
            Order::Restart | Order::Diagnostics { .. } => None,
        };
        Self {
            kind: order.kind().word().to_owned(),
            attempt,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: CommandId,
    kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<AttemptId>,
    /// The start that began it.
    start: StartId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Ended>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    succeeded: bool,
    code: String,
    message: String,
    /// Whether a file beside the journal holds its report.
    report: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct File {
    entries: VecDeque<Entry>,
}

impl Journal {
    /// Reads what earlier starts have left. A restart that one of them began has had its effect: this start is it.
    pub(super) fn load(paths: Paths, start: StartId) -> Self {
        let mut journal = Self {
            entries: read(&paths),
            paths,
            start,
        };
        let restarted: Vec<CommandId> = journal
            .entries
            .iter()
            .filter(|entry| {
                entry.ended.is_none() && entry.start != start && entry.kind == Kind::Restart.word()
            })
            .map(|entry| entry.id.clone())
            .collect();
        for id in restarted {
            let result = CommandResult {
                id,
                succeeded: true,
                message: "restarted".to_owned(),
                report: Vec::new(),
                code: String::new(),
            };
            // Should the disk not take it, the next start says the same.
            journal.end(&result);
        }
        journal
    }

    /// What is known of this id.
    pub(super) fn look(&self, id: &CommandId) -> Known {
        let Some(entry) = self.entries.iter().find(|entry| entry.id == *id) else {
            return Known::Nothing;
        };
        match &entry.ended {
            None => Known::Begun(What {
                kind: entry.kind.clone(),
                attempt: entry.attempt.clone(),
            }),
            Some(ended) => Known::Ended(CommandResult {
                id: id.clone(),
                succeeded: ended.succeeded,
                message: ended.message.clone(),
                report: self.report(id, ended),
                code: ended.code.clone(),
            }),
        }
    }

    /// Remembers that a command begins. It must not, where this fails. What an earlier start has begun and nobody has
    /// asked for since makes room; what is `under_way` does not.
    pub(super) fn begin(
        &mut self,
        id: CommandId,
        what: What,
        under_way: &[CommandId],
    ) -> io::Result<()> {
        let begun = self.entries.iter().filter(|entry| entry.ended.is_none());
        if begun.count() >= BEGUN_COMMANDS_MAX && !self.forget_begun(under_way) {
            let problem = format!(
                "expected at most {BEGUN_COMMANDS_MAX} commands that have not ended, found as many"
            );
            return Err(io::Error::other(problem));
        }
        self.entries.push_back(Entry {
            id,
            kind: what.kind,
            attempt: what.attempt,
            start: self.start,
            ended: None,
        });
        let saved = self.save();
        if saved.is_err() {
            self.entries.pop_back();
        }
        saved
    }

    /// Gives up the oldest command that was begun and that nobody works on: it must not begin again, and its room is
    /// another one's. A restart is never given up, for the next start is its effect.
    fn forget_begun(&mut self, under_way: &[CommandId]) -> bool {
        let given_up = self.entries.iter_mut().find(|entry| {
            entry.ended.is_none()
                && entry.kind != Kind::Restart.word()
                && !under_way.contains(&entry.id)
        });
        let Some(entry) = given_up else {
            return false;
        };
        tracing::warn!(command = %entry.id, "it was begun, and nobody has asked for it since: it is given up");
        entry.ended = Some(Ended {
            succeeded: false,
            code: code::FORGOTTEN.to_owned(),
            message: "expected to go on, found that later commands needed the room".to_owned(),
            report: false,
        });
        true
    }

    /// Remembers how a command ended, also of one that was never begun. This process remembers it in any case.
    pub(super) fn end(&mut self, result: &CommandResult) {
        let report = !result.report.is_empty() && self.keep_report(result);
        let ended = Some(Ended {
            succeeded: result.succeeded,
            code: result.code.clone(),
            message: result.message.clone(),
            report,
        });
        let at = self.entries.iter().position(|entry| entry.id == result.id);
        match at.and_then(|at| self.entries.remove(at)) {
            Some(entry) => self.entries.push_back(Entry { ended, ..entry }),
            None => self.entries.push_back(Entry {
                id: result.id.clone(),
                kind: String::new(),
                attempt: None,
                start: self.start,
                ended,
            }),
        }
        self.forget_oldest();
        if let Err(error) = self.save() {
            tracing::warn!(command = %result.id, %error, "a command's end cannot be kept");
        }
    }

    fn keep_report(&self, result: &CommandResult) -> bool {
        let path = self.paths.report(&result.id);
        let kept = durable::create_folder(&self.paths.reports(), 0o700)
            .and_then(|()| durable::replace_file(&path, &result.report, Mode::Private));
        if let Err(error) = &kept {
            tracing::warn!(command = %result.id, %error, "a report cannot be kept");
        }
        kept.is_ok()
    }

    fn report(&self, id: &CommandId, ended: &Ended) -> Vec<u8> {
        if !ended.report {
            return Vec::new();
        }
        let path = self.paths.report(id);
        match durable::read_unlinked(&path, JOURNAL_BYTES_MAX) {
            Ok(report) => report.unwrap_or_default(),
            Err(error) => {
                tracing::warn!(command = %id, %error, "a report cannot be read");
                Vec::new()
            }
        }
    }

    fn forget_oldest(&mut self) {
        let ended = self.entries.iter().filter(|entry| entry.ended.is_some());
        let mut beyond = ended.count().saturating_sub(ENDED_COMMANDS_MAX);
        let mut forgotten = Vec::new();
        self.entries.retain(|entry| {
            let goes = beyond > 0 && entry.ended.is_some();
            if goes {
                beyond -= 1;
                forgotten.push(entry.id.clone());
            }
            !goes
        });
        let mut kept = 0;
        for entry in self.entries.iter_mut().rev() {
            if let Some(ended) = entry.ended.as_mut().filter(|ended| ended.report) {
                kept += 1;
                if kept > KEPT_REPORTS_MAX {
                    ended.report = false;
                    forgotten.push(entry.id.clone());
                }
            }
        }
        for id in forgotten {
            if let Err(error) = durable::remove_if_there(&self.paths.report(&id)) {
                tracing::warn!(command = %id, %error, "an old report cannot be removed");
            }
        }
    }

    /// Writes what a reader can read again: texts that need escapes make the oldest ends go early.
    fn save(&mut self) -> io::Result<()> {
        let mut json = self.json()?;
        while u64::try_from(json.len()).is_ok_and(|bytes| bytes > JOURNAL_BYTES_MAX) {
            let Some(oldest) = self.entries.iter().position(|entry| entry.ended.is_some()) else {
                break;
            };
            self.entries.remove(oldest);
            json = self.json()?;
        }
        durable::replace_file(&self.paths.journal(), &json, Mode::Private)
    }

    fn json(&self) -> io::Result<Vec<u8>> {
        let file = File {
            entries: self.entries.clone(),
        };
        Ok(serde_json::to_vec(&file)?)
    }
}

fn read(paths: &Paths) -> VecDeque<Entry> {
    let path = paths.journal();
    let json = match durable::read_unlinked(&path, JOURNAL_BYTES_MAX) {
        Ok(json) => json,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the journal cannot be read");
            None
        }
    };
    let Some(json) = json else {
        return VecDeque::new();
    };
    match serde_json::from_slice::<File>(&json) {
        Ok(file) => file.entries,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the journal cannot be understood");
            VecDeque::new()
        }
    }
}

#[cfg(test)]
mod tests;
