//! `bcd supervise`: boot loader, parent and watchdog of a node where there is no systemd.
//!
//! Takes a host and the package's binary; runs until it is told to stop. Before every start it has the record decided
//! upon, it restarts whatever ends, and it ends a trial that was not confirmed in time by going back. It never waits for
//! the node's good will: what does not stop is killed.

mod child;
pub(crate) mod pause;
mod tail;
mod trial;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};

use crate::account::Account;
use crate::config::Config;
use crate::footprint;
use crate::hangup;
use crate::identity::{self, IdentityError};
use crate::updater::executor;
use crate::updater::expiry::{self, Expiry};
use crate::updater::host::{Host, with_causes};
use crate::updater::record::{Notice, Record, Trial};
use crate::updater::watchdog::{self, Death, Evidence, Reach, WatchError};
use crate::watchdog::probe::Probe;

use child::{Child, Output};
use pause::Pause;

/// How long a node has to end by itself: longer than its Goodbye takes, and with what follows within five seconds.
const STOP_GRACE: Duration = Duration::from_secs(4);

/// The wait before the watchdog tries again to write what it has decided.
const EXPIRE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What to supervise.
#[derive(Clone, Debug)]
pub(crate) struct Supervision {
    pub(crate) host: Host,
    /// The binary that plays the boot loader: this program itself.
    pub(crate) package: PathBuf,
    /// The configuration that the node reads.
    pub(crate) config_path: PathBuf,
    /// What it said when the supervision began.
    pub(crate) config: Config,
    /// What the node is to log.
    pub(crate) log: String,
    /// The user that the node runs as, where that is another one.
    pub(crate) account: Option<Account>,
}

/// Why there is no supervision.
#[derive(Debug, Error)]
pub(crate) enum SuperviseError {
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error(transparent)]
    NotJoined(#[from] IdentityError),
    #[error("expected to listen for signals, found that it cannot be done")]
    Signals(#[source] io::Error),
}

/// Supervises until SIGTERM or SIGINT.
pub(crate) async fn supervise(supervision: Supervision) -> Result<(), SuperviseError> {
    // Held for as long as this process lives: it is how the node knows that somebody would go back for it.
    let _lock = watchdog::watch(supervision.host.paths())?;
    joined(&supervision.host)?;
    hangup::ignore().map_err(SuperviseError::Signals)?;
    let supervisor = Supervisor {
        supervision,
        signals: Signals::new().map_err(SuperviseError::Signals)?,
        pause: Pause::default(),
        death: None,
    };
    supervisor.run().await;
    Ok(())
}

/// A machine that is no node would be started again and again without end. One on trial has to be able to go back all
/// the same.
fn joined(host: &Host) -> Result<(), IdentityError> {
    let folder = host.paths().identity();
    let on_trial = host.status().is_ok_and(|record| record.trial().is_some());
    match identity::node_id(&folder) {
        Ok(None) if !on_trial => Err(IdentityError::Absent(folder)),
        // What is damaged, the node has mended.
        Ok(_) | Err(_) => Ok(()),
    }
}

struct Supervisor {
    supervision: Supervision,
    signals: Signals,
    pause: Pause,
    /// How the binary on trial ended, until the next decision has looked at it.
    death: Option<Death>,
}

/// What comes after one start.
enum Turn {
    Again(Duration),
    Stop,
}

/// What is to start.
enum Booted {
    As(Box<Record>),
    /// Not even that could be decided.
    Failed,
    /// Somebody stopped us meanwhile.
    Stopped,
}

/// How one start ended.
enum Watched {
    Died(Death),
    WentBack,
    Stopped,
}

impl Supervisor {
    async fn run(mut self) {
        loop {
            let wait = match self.turn().await {
                Turn::Again(wait) => wait,
                Turn::Stop => break,
            };
            tokio::select! {
                () = self.signals.stop() => break,
                () = sleep(wait) => {}
            }
        }
        // A node that its operator stopped stays stopped, and does not come back on trial.
        trial::cancel(&self.supervision.host).await;
    }

    async fn turn(&mut self) -> Turn {
        let record = match self.boot().await {
            Booted::As(record) => record,
            Booted::Failed => return Turn::Again(self.pause.after_failure()),
            Booted::Stopped => return Turn::Stop,
        };
        let trial = running_trial(&record);
        let output = match trial {
            Some(_) => Output::Kept,
            None => Output::Inherited,
        };
        let mut child = match Child::spawn(&self.supervision, output) {
            Ok(child) => child,
            Err(error) => {
                tracing::error!(error = %with_causes(&error), "the node cannot be started");
                return Turn::Again(self.pause.after_failure());
            }
        };
        let started = Instant::now();
        match self.watch(&mut child, trial).await {
            Watched::Stopped => Turn::Stop,
            Watched::WentBack => {
                self.pause = Pause::default();
                Turn::Again(Duration::ZERO)
            }
            Watched::Died(death) => {
                let wait = if trial::waits(&self.supervision.host) {
                    Duration::ZERO
                } else {
                    self.pause.after(death.exit, started.elapsed())
                };
                tracing::info!(exit = %death.exit, wait = %humantime::format_duration(wait), "the node ended; it starts again");
                self.death = trial.map(|_| death);
                Turn::Again(wait)
            }
        }
    }

    /// Decides what starts. Somebody else may hold the record for as long as he likes: a stop does not wait for him.
    async fn boot(&mut self) -> Booted {
        let evidence = Evidence {
            death: self.death.take(),
            ..Evidence::none()
        };
        let Supervision { host, package, .. } = self.supervision.clone();
        let booting = spawn_blocking(move || executor::boot(&host, &package, evidence));
        let booted = tokio::select! {
            booted = booting => booted,
            () = self.signals.stop() => return Booted::Stopped,
        };
        match booted {
            Ok(Ok(record)) => Booted::As(Box::new(record)),
            Ok(Err(error)) => {
                tracing::error!(error = %with_causes(&error), "nothing can be started");
                Booted::Failed
            }
            Err(error) => {
                tracing::error!(%error, "nothing can be started");
                Booted::Failed
            }
        }
    }

    async fn watch(&mut self, child: &mut Child, trial: Option<&Trial>) -> Watched {
        let (host, gateways) = (&self.supervision.host, &self.supervision.config.gateways);
        let mut expires =
            trial.map(|trial| Instant::now() + expiry::time_left(trial, host.deadline()));
        let mut probe = expires.map(|at| Probe::begin(host, gateways, at));
        loop {
            footprint::give_back_code();
            tokio::select! {
                death = child.wait() => return Watched::Died(death),
                () = self.signals.stop() => {
                    child.stop(STOP_GRACE).await;
                    return Watched::Stopped;
                }
                () = wait_until(expires) => {}
            }
            let Some(trial) = trial else { continue };
            let reach = probe.as_ref().map_or(Reach::Assumed, Probe::verdict);
            let expiry = tokio::select! {
                expiry = trial::expire(&self.supervision.host, trial, (child, reach)) => Some(expiry),
                () = self.signals.stop() => None,
            };
            let Some(expiry) = expiry else {
                child.stop(STOP_GRACE).await;
                return Watched::Stopped;
            };
            match expiry {
                Expiry::WentBack => {
                    child.kill().await;
                    return Watched::WentBack;
                }
                Expiry::NotYet(left) => expires = Some(Instant::now() + left),
                Expiry::Over => (expires, probe) = (None, None),
                Expiry::Failed => expires = Some(Instant::now() + EXPIRE_AGAIN_AFTER),
            }
        }
    }
}

/// The trial whose binary is started. In rescue the package's own binary is, whatever the record says.
fn running_trial(record: &Record) -> Option<&Trial> {
    match record.notice() {
        Some(Notice::Rescue) => None,
        Some(Notice::Recovered) | None => record.trial(),
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The signals that mean stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
