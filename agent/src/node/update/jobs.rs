//! The updater's jobs, one at a time.
//!
//! Takes a job of the machine, carries it out beside the session, and reports how it went. A download can be given up in
//! its middle; whatever else has begun ends before the next job does, so that no two ever touch one slot.

use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use url::Url;

use super::Setting;
use crate::content::Seen;
use crate::node::fetch::{Fetch, FetchError, fetch};
use crate::updater::attempt::Ending;
use crate::updater::host::{Admitted, Source, Staged, with_causes};
use crate::updater::machine::{Done, Job, JobId};
use crate::updater::operations::{OperationError, Verdict};
use crate::updater::record::Record;

/// How a job went.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) id: JobId,
    pub(super) done: Done,
    /// The record, where the job changed it.
    pub(super) record: Option<Record>,
}

/// What one job hands to the next.
#[derive(Debug)]
enum Handed {
    Nothing,
    Admitted(Box<Admitted>),
    Downloaded(Box<Admitted>, Seen),
    Staged(Staged),
}

/// Carries out jobs.
#[derive(Debug)]
pub(super) struct Jobs {
    bench: Bench,
    running: Option<Running>,
    reports: mpsc::Receiver<Report>,
}

#[derive(Debug)]
struct Running {
    id: JobId,
    task: JoinHandle<Handed>,
    give_up: Option<oneshot::Sender<()>>,
}

/// What every job may use.
#[derive(Clone, Debug)]
struct Bench {
    setting: Setting,
    progress: watch::Sender<u8>,
    report: mpsc::Sender<Report>,
}

impl Jobs {
    pub(super) fn new(setting: Setting, progress: watch::Sender<u8>) -> Self {
        // One job runs, so one report is under way; the other place is for one that was given up.
        let (report, reports) = mpsc::channel(2);
        Self {
            bench: Bench {
                setting,
                progress,
                report,
            },
            running: None,
            reports,
        }
    }

    /// Begins a job as soon as the one before has ended; if that is a download, it is given up.
    pub(super) fn start(&mut self, id: JobId, job: Job) {
        let before = self.running.take().map(|running| running.task);
        let (give_up, given_up) = oneshot::channel();
        let bench = self.bench.clone();
        let task = tokio::spawn(async move {
            let handed = match before {
                Some(before) => before.await.unwrap_or(Handed::Nothing),
                None => Handed::Nothing,
            };
            let work = bench.work(job, handed, given_up).await;
            let report = Report {
                id,
                done: work.done,
                record: work.record,
            };
            if bench.report.send(report).await.is_err() {
                tracing::debug!("nobody waits for the job any more");
            }
            work.hand
        });
        self.running = Some(Running {
            id,
            task,
            give_up: Some(give_up),
        });
    }

    /// Gives a download up.
    pub(super) fn abandon(&mut self, id: JobId) {
        if let Some(running) = self.running.as_mut().filter(|running| running.id == id) {
            // Dropping it is the message.
            drop(running.give_up.take());
        }
    }

    /// The next report.
    pub(super) async fn next(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => report,
            // It cannot end: this end holds a sender too.
            None => std::future::pending().await,
        }
    }
}

struct Work {
    done: Done,
    hand: Handed,
    record: Option<Record>,
}

impl Work {
    fn done(done: Done) -> Self {
        Self {
            done,
            hand: Handed::Nothing,
            record: None,
        }
    }

    fn handing(done: Done, hand: Handed) -> Self {
        Self {
            hand,
            ..Self::done(done)
        }
    }

    fn recorded(done: Done, record: Record) -> Self {
        Self {
            record: Some(record),
            ..Self::done(done)
        }
    }

    fn failed(ending: Ending) -> Self {
        tracing::warn!(code = %ending.code, reason = %ending.message, "a step of the update failed");
        Self::done(Done::Failed(ending))
    }
}

impl From<OperationError> for Work {
    fn from(error: OperationError) -> Self {
        match error.verdict() {
            Verdict::TrialWaits => {
                tracing::warn!("another binary's trial is to begin");
                Self::done(Done::TrialWaits)
            }
            Verdict::NotOnTrial => Self::done(Done::NotOnTrial),
            Verdict::Ended(ending) => Self::failed(ending),
        }
    }
}

impl Bench {
    async fn work(&self, job: Job, handed: Handed, given_up: oneshot::Receiver<()>) -> Work {
        match (job, handed) {
            (Job::Admit(section), _) => self.admit(section).await,
            (Job::Download(section), Handed::Admitted(admitted)) => {
                tokio::select! {
                    work = self.download(section, *admitted) => work,
                    _ = given_up => Work::failed(Ending::new(
                        Outcome::Cancelled,
                        "replaced",
                        "expected the target to stay, found another one",
                    )),
                }
            }
            (Job::Stage(section), Handed::Downloaded(admitted, binary)) => {
                self.stage(section, (*admitted, Some(binary))).await
            }
            (Job::Stage(section), Handed::Admitted(admitted)) => {
                self.stage(section, (*admitted, None)).await
            }
            (Job::Preflight(section), Handed::Staged(staged)) => {
                self.preflight(section, staged).await
            }
            (Job::Activate(section), Handed::Staged(staged)) => {
                self.activate(section, staged).await
            }
            (Job::Note(attempt), _) => match self.setting.operations.note(attempt.clone()).await {
                Ok(record) => Work::recorded(Done::Noted(attempt), record),
                Err(error) => error.into(),
            },
            (Job::Confirm, _) => self.confirm().await,
            // The machine asks for these only after the job that hands over what they need.
            (
                Job::Download(_) | Job::Stage(_) | Job::Preflight(_) | Job::Activate(_),
                Handed::Nothing | Handed::Admitted(_) | Handed::Downloaded(..) | Handed::Staged(_),
            ) => Work::failed(Ending::new(
                Outcome::Failed,
                "internal",
                "expected the step before to have handed something over, found nothing",
            )),
        }
    }

    async fn admit(&self, section: DaemonSection) -> Work {
        tracing::info!(attempt = %section.attempt, version = %section.version, "judging a release");
        match self.setting.operations.admit(section).await {
            Ok(admitted) => {
                let done = match admitted.source {
                    Source::Download(_) => Done::ToDownload,
                    Source::InPlace => Done::InPlace,
                };
                Work::handing(done, Handed::Admitted(Box::new(admitted)))
            }
            Err(error) => error.into(),
        }
    }

    async fn download(&self, section: DaemonSection, admitted: Admitted) -> Work {
        let Source::Download(partial) = admitted.source.clone() else {
            return Work::done(Done::Downloaded);
        };
        let url = match Url::parse(&section.url) {
            Ok(url) => url,
            Err(error) => {
                let problem =
                    format!("expected a URL to download from, found another text: {error}");
                return Work::failed(Ending::new(Outcome::Refused, "url", problem));
            }
        };
        self.progress.send_replace(0);
        let order = Fetch {
            url,
            size: admitted.size,
            digest: admitted.digest,
            partial,
            web: self.setting.web.clone(),
        };
        match fetch(order, &self.progress).await {
            Ok(binary) => {
                let hand = Handed::Downloaded(Box::new(admitted), binary);
                Work::handing(Done::Downloaded, hand)
            }
            Err(error) => Work::failed(ending_of(&error)),
        }
    }

    async fn stage(&self, section: DaemonSection, what: (Admitted, Option<Seen>)) -> Work {
        match self.setting.operations.stage(section, what).await {
            Ok(staged) => Work::handing(Done::Staged, Handed::Staged(staged)),
            Err(error) => error.into(),
        }
    }

    async fn preflight(&self, section: DaemonSection, staged: Staged) -> Work {
        let (operations, config) = (&self.setting.operations, &self.setting.config);
        match operations.preflight(section, &staged, config).await {
            Ok(()) => Work::handing(Done::Passed, Handed::Staged(staged)),
            Err(error) => error.into(),
        }
    }

    async fn activate(&self, section: DaemonSection, staged: Staged) -> Work {
        match self.setting.operations.activate(section, staged).await {
            Ok(record) => Work::recorded(Done::Activated, record),
            Err(error) => error.into(),
        }
    }

    async fn confirm(&self) -> Work {
        match self
            .setting
            .operations
            .confirm(self.setting.running.digest)
            .await
        {
            Ok(record) => {
                tracing::info!(floor = %record.floor(), "confirmed: this release is never undone by going back");
                let attempt = record.last_attempt().cloned();
                Work::recorded(Done::Confirmed(attempt), record)
            }
            Err(error) => error.into(),
        }
    }
}

fn ending_of(error: &FetchError) -> Ending {
    let outcome = if error.is_final() {
        Outcome::Refused
    } else {
        Outcome::Failed
    };
    Ending::new(outcome, error.code(), with_causes(error))
}
