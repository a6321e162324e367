//! What the updater's machine is told, and what it asks for.

use std::collections::{BTreeSet, VecDeque};

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::session::TrialFacts;
use bc_protocol::spec::{DaemonSection, SpecError};

use crate::updater::attempt::{Attempt, Ending};
use crate::updater::limits::ENDED_ATTEMPTS_MAX;
use crate::updater::watchdog::Stage;

/// What the record says of a process that has just started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// The trial that this process is: its digest is the image's.
    pub(crate) trial: Option<TrialFacts>,
    /// The newest attempt.
    pub(crate) last: Option<Attempt>,
    /// The confirmed binary's digest, where no slot holds it any more.
    pub(crate) lost: Option<Sha256>,
}

/// What the node is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Whatever runs.
    Anything,
    /// This release.
    Release(DaemonSection),
    /// A section that cannot be read; it is refused under its attempt.
    Unreadable { attempt: AttemptId, problem: String },
}

/// What the node's owner says to updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Allows,
    /// None is to begin. What is on trial already is judged all the same.
    Holds,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The newest target; it replaces the one before at once.
    Target(Target),
    /// What the owner says now.
    Owner(Owner),
    /// A Welcome to this process's own Hello.
    Welcomed,
    /// The session is gone, or none came about.
    Lost(Lost),
    /// How a job went.
    Done(JobId, Done),
    /// Time has passed.
    Tick,
}

/// Why there is no session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was closed or broke.
    Closed,
    /// The gateway put the node off: 429, 503 or a Goodbye.
    NotNow,
    /// No gateway could be reached.
    Unreachable,
}

/// A number for each job, so that a late answer is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobId(pub(super) u64);

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Begin a job. The one before, if it still runs, is of no interest any more.
    Start(JobId, Job),
    /// Stop the download.
    Abandon(JobId),
    /// Leave a mark for whoever judges the trial.
    Mark(Stage),
    /// Close the session and end: the next start is another binary's.
    Leave,
}

/// One piece of work; each says when it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Judge the section, and find out where its bytes come from.
    Admit(DaemonSection),
    /// Fetch the binary.
    Download(DaemonSection),
    /// Put it into its slot.
    Stage(DaemonSection),
    /// Ask it whether it can run here.
    Preflight(DaemonSection),
    /// Begin its trial.
    Activate(DaemonSection),
    /// Put the attempt into the record.
    Note(Attempt),
    /// End the trial well.
    Confirm,
}

/// How a job went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The section is good; its bytes have to come from elsewhere.
    ToDownload,
    /// The section is good; the spare slot holds its bytes.
    InPlace,
    Downloaded,
    Staged,
    Passed,
    Activated,
    /// The record now says so.
    Noted(Attempt),
    /// The trial is confirmed, and the record says so.
    Confirmed(Option<Attempt>),
    /// The trial had been ended before.
    NotOnTrial,
    /// The record says that another binary's trial is to begin.
    TrialWaits,
    Failed(Ending),
}

/// Why the machine wants to be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wakeup {
    Retry,
    SessionHeld,
    ConfirmAgain,
}

impl Target {
    /// What a spec asks for; nothing can be answered where not even an attempt is named.
    pub(crate) fn of_error(error: SpecError) -> Option<Self> {
        let problem = error.to_string();
        error
            .attempt
            .map(|attempt| Self::Unreadable { attempt, problem })
    }
}

impl Job {
    /// The section that it works for.
    pub(super) fn section(&self) -> Option<&DaemonSection> {
        match self {
            Self::Admit(section)
            | Self::Download(section)
            | Self::Stage(section)
            | Self::Preflight(section)
            | Self::Activate(section) => Some(section),
            Self::Note(_) | Self::Confirm => None,
        }
    }
}

/// The attempts that have ended for good, as far back as this process remembers.
#[derive(Clone, Debug, Default)]
pub(super) struct Ended {
    order: VecDeque<AttemptId>,
    ids: BTreeSet<AttemptId>,
}

impl Ended {
    pub(super) fn contains(&self, id: &AttemptId) -> bool {
        self.ids.contains(id)
    }

    pub(super) fn remember(&mut self, id: AttemptId) {
        if self.ids.insert(id.clone()) {
            self.order.push_back(id);
        }
        while self.order.len() > ENDED_ATTEMPTS_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
    }
}
