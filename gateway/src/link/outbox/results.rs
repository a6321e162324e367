//! How commands ended, for as long as control has not been sent it.
//!
//! Unlike facts, results do not replace each other: each answers a command of its own. A session has few of them, and
//! all sessions together have room for so many bytes of reports: what finds none leaves without its report, and says so.

use bc_protocol::{command::code, link::CommandEnded};

use crate::limits::{REPORTS_BYTES_MAX, RESULTS_PER_SESSION_MAX};

/// The room for reports of all sessions together.
#[derive(Debug, Default)]
pub(super) struct Room {
    bytes: usize,
}

/// What became of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// It is kept as it is.
    Whole,
    /// It is kept without its report, for which there was no room.
    WithoutReport,
    /// It is dropped, and given again when control has the command replayed.
    Dropped,
}

/// The results of one session that have not left.
#[derive(Debug, Default)]
pub(super) struct Results(Vec<CommandEnded>);

impl Results {
    /// Keeps a result. One that repeats another takes its place; beyond the bound it is dropped, and given when control
    /// has the command replayed.
    pub(super) fn keep(&mut self, mut ended: CommandEnded, room: &mut Room) -> Kept {
        if let Some(at) = self.position(&ended) {
            room.give_back(&self.0.remove(at));
        }
        if self.0.len() >= RESULTS_PER_SESSION_MAX {
            tracing::warn!(node = %ended.node, command = %ended.result.id, max = RESULTS_PER_SESSION_MAX,
                "a result is dropped: too many of this session wait for control");
            return Kept::Dropped;
        }
        let kept = room.take(&mut ended);
        self.0.push(ended);
        kept
    }

    /// Takes the oldest.
    pub(super) fn take(&mut self, room: &mut Room) -> Option<CommandEnded> {
        if self.0.is_empty() {
            return None;
        }
        let ended = self.0.remove(0);
        room.give_back(&ended);
        Some(ended)
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all.
    pub(super) fn clear(&mut self, room: &mut Room) {
        for ended in self.0.drain(..) {
            room.give_back(&ended);
        }
    }

    fn position(&self, ended: &CommandEnded) -> Option<usize> {
        self.0
            .iter()
            .position(|kept| kept.result.id == ended.result.id)
    }
}

impl Room {
    /// Whether nothing takes any.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn take(&mut self, ended: &mut CommandEnded) -> Kept {
        let needed = ended.result.report.len();
        let mut kept = Kept::Whole;
        if self.bytes.saturating_add(needed) > REPORTS_BYTES_MAX {
            tracing::warn!(node = %ended.node, command = %ended.result.id, bytes = needed, max = REPORTS_BYTES_MAX,
                "a report is dropped: too much waits for control");
            kept = Kept::WithoutReport;
            ended.result.report = Vec::new();
            ended.result.succeeded = false;
            code::NO_ROOM.clone_into(&mut ended.result.code);
            ended.result.message = format!(
                "expected room for the report at the gateway, found {} bytes of others that wait for control",
                self.bytes
            );
        }
        self.bytes = self.bytes.saturating_add(ended.result.report.len());
        kept
    }

    fn give_back(&mut self, ended: &CommandEnded) {
        self.bytes = self.bytes.saturating_sub(ended.result.report.len());
    }
}

#[cfg(test)]
mod tests {
    use bc_protocol::{command::CommandResult, limits::REPORT_BYTES_MAX};

    use super::*;
    use crate::fixture::{done, ended, restart};

    fn with_report(name: u8, bytes: usize) -> CommandEnded {
        let result = CommandResult {
            report: vec![b'x'; bytes],
            ..done(restart(name).id)
        };
        ended(0, 1, result)
    }

    #[test]
    fn a_result_that_repeats_another_takes_its_place() {
        let (mut results, mut room) = (Results::default(), Room::default());
        results.keep(with_report(1, 10), &mut room);
        results.keep(with_report(2, 10), &mut room);
        results.keep(with_report(1, 30), &mut room);
        assert_eq!(room.bytes, 40);
        assert_eq!(results.take(&mut room), Some(with_report(2, 10)));
        assert_eq!(results.take(&mut room), Some(with_report(1, 30)));
        assert_eq!(results.take(&mut room), None);
        assert_eq!(room.bytes, 0);
    }

    #[test]
    fn what_finds_no_room_leaves_without_its_report_and_says_so() {
        let mut room = Room::default();
        let mut sessions: Vec<Results> = Vec::new();
        let fit = REPORTS_BYTES_MAX / REPORT_BYTES_MAX;
        for number in 0..=fit {
            let mut results = Results::default();
            let kept = results.keep(with_report(1, REPORT_BYTES_MAX), &mut room);
            assert_eq!(kept == Kept::WithoutReport, number == fit);
            sessions.push(results);
        }
        let last = sessions.pop().unwrap().take(&mut room).unwrap().result;
        assert_eq!((last.succeeded, last.report.len()), (false, 0));
        assert_eq!(last.code, code::NO_ROOM);
        for mut results in sessions {
            assert!(results.take(&mut room).unwrap().result.succeeded);
        }
        assert_eq!(room.bytes, 0);
    }

    #[test]
    fn a_session_has_few_results() {
        let (mut results, mut room) = (Results::default(), Room::default());
        for name in 0..9 {
            let kept = results.keep(with_report(name, 1), &mut room);
            let has_room = usize::from(name) < RESULTS_PER_SESSION_MAX;
            assert_eq!(kept == Kept::Whole, has_room);
        }
        assert_eq!(results.0.len(), RESULTS_PER_SESSION_MAX);
        results.clear(&mut room);
        assert!(results.is_empty());
        assert_eq!(room.bytes, 0);
    }
}
