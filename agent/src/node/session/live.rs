//! A session that a gateway has welcomed: signs of life, and reports.
//!
//! Takes the node's facts and the time, gives pings and numbered reports. It never holds back more than a change of
//! percent, and of held back facts only the newest are ever sent.

use std::time::{Duration, Instant};

use bc_protocol::session::{Facts, FromNode, StatusReport, Welcome};

use super::{Output, Wakeup};
use crate::node::limits::{
    HEARTBEAT_MAX, HEARTBEAT_MIN, HEARTBEATS_UNTIL_LOST, PERCENT_REPORT_INTERVAL,
};

/// What a welcomed session keeps.
pub(super) struct Live {
    since: Instant,
    heartbeat: Duration,
    ping_at: Instant,
    heard_at: Instant,
    /// What the gateway knows.
    told: Facts,
    told_at: Instant,
    /// The latest report's number; the Hello was 0.
    number: u64,
    /// When facts that are held back are due.
    report_at: Option<Instant>,
}

impl Live {
    /// Begins at the Welcome, with what the Hello has told already.
    pub(super) fn new(welcome: &Welcome, told: Facts, now: Instant) -> Self {
        let heartbeat = Duration::from_millis(welcome.heartbeat_interval_ms.into())
            .clamp(HEARTBEAT_MIN, HEARTBEAT_MAX);
        Self {
            since: now,
            heartbeat,
            ping_at: now + heartbeat,
            heard_at: now,
            told,
            told_at: now,
            number: 0,
            report_at: None,
        }
    }

    /// How long the session has held.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    /// The gateway lives.
    pub(super) fn heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// How long nothing has been heard, once that is too long.
    pub(super) fn silence(&self, now: Instant) -> Option<Duration> {
        (self.lost_at() <= now).then(|| now.saturating_duration_since(self.heard_at))
    }

    /// The next thing to wake for.
    pub(super) fn next_wakeup(&self) -> (Instant, Wakeup) {
        let always = (self.lost_at(), Wakeup::Silence).min((self.ping_at, Wakeup::Heartbeat));
        match self.report_at {
            Some(at) => always.min((at, Wakeup::Report)),
            None => always,
        }
    }

    /// Sends what is due.
    pub(super) fn tick(&mut self, facts: &Facts, now: Instant) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.report_at.is_some_and(|at| at <= now) {
            outputs.extend(self.report(facts, now));
        }
        if self.ping_at <= now {
            self.ping_at = now + self.heartbeat;
            outputs.push(Output::Ping);
        }
        outputs
    }

    /// Tells the gateway what it does not know yet. A change of percent alone can wait for its turn.
    pub(super) fn report(&mut self, facts: &Facts, now: Instant) -> Vec<Output> {
        self.report_at = None;
        if *facts == self.told {
            return Vec::new();
        }
        let due = self.told_at + PERCENT_REPORT_INTERVAL;
        if differ_in_percent_only(&self.told, facts) && now < due {
            self.report_at = Some(due);
            return Vec::new();
        }
        self.told = facts.clone();
        self.told_at = now;
        self.number += 1;
        vec![Output::Send(FromNode::Report(StatusReport {
            number: self.number,
            facts: facts.clone(),
        }))]
    }

    fn lost_at(&self) -> Instant {
        self.heard_at + self.heartbeat * HEARTBEATS_UNTIL_LOST
    }
}

fn differ_in_percent_only(told: &Facts, facts: &Facts) -> bool {
    let (Some(before), Some(after)) = (&told.progress, &facts.progress) else {
        return false;
    };
    if (&before.attempt, before.phase) != (&after.attempt, after.phase) {
        return false;
    }
    let mut levelled = told.clone();
    levelled.progress.clone_from(&facts.progress);
    levelled == *facts
}
