//! `bcd watchdog`: what goes back where a service manager runs the node.
//!
//! Takes a host and how to restart the node; runs for as long as there is a trial, and a little before one. It is a process
//! of its own, that dies with nothing of the node's: a new binary that hangs, crashes or fills its group cannot keep it
//! from its work. The kernel tells it when the record changes; it polls nothing.

pub(crate) mod probe;

use std::io;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use url::Url;

use crate::changes::Changes;
use crate::footprint;
use crate::manager::{self, ManagerError, Standing};
use crate::updater::expiry::{self, Clock, Expiry};
use crate::updater::host::{Host, with_causes};
use crate::updater::record::Trial;
use crate::updater::watchdog::{self, Evidence, Reach, WatchError};

use probe::Probe;

/// How long a watchdog that was started before its trial waits for it: what lies between is one write to the record.
const ARMED_PATIENCE: Duration = Duration::from_secs(60);

/// How often the record's lock is asked for before its holder is ended by a restart.
const LOCK_TRIES_MAX: u32 = 20;

/// The wait between two tries.
const LOCK_RETRY_AFTER: Duration = Duration::from_millis(100);

/// The wait before what was decided is written, or a restart ordered, once more.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Orders to restart the node, until its own manager is left to it.
const RESTARTS_MAX: u32 = 30;

/// How long a stop waits for whoever holds the record.
const CANCEL_PATIENCE: Duration = Duration::from_millis(500);

/// How the node comes to run another binary.
#[derive(Clone, Debug)]
pub(crate) enum Restart {
    /// By its unit.
    Unit(String),
    /// By a line of shell.
    Shell(String),
}

/// Whom to watch.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog {
    pub(crate) host: Host,
    /// The owner's gateways, before those that joining named.
    pub(crate) gateways: Vec<Url>,
    pub(crate) restart: Restart,
}

/// Why nobody watches.
#[derive(Debug, Error)]
pub(crate) enum WatchdogError {
    #[error(transparent)]
    Watch(#[from] WatchError),
    #[error("expected to listen for signals, found that it cannot be done")]
    Signals(#[source] io::Error),
    #[error("expected to be told of changes of the record, found that nobody tells")]
    Changes(#[source] io::Error),
}

/// Watches until there is no trial, or until it is stopped: on trial that means to go back, and to leave the node alone.
pub(crate) async fn run(watchdog: Watchdog) -> Result<(), WatchdogError> {
    let _lock = watchdog::watch(watchdog.host.paths())?;
    let root = watchdog.host.paths().root();
    let mut watch = Watch {
        changes: Changes::of(root).map_err(WatchdogError::Changes)?,
        terminate: signal(SignalKind::terminate()).map_err(WatchdogError::Signals)?,
        interrupt: signal(SignalKind::interrupt()).map_err(WatchdogError::Signals)?,
        watchdog,
    };
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "the service manager cannot be told");
    }
    let trial = match watch.armed().await {
        Heard::Trial(trial) => *trial,
        Heard::Nothing => return Ok(()),
        Heard::Stop => {
            watch.stopped().await;
            return Ok(());
        }
    };
    watch.over(trial).await;
    Ok(())
}

struct Watch {
    watchdog: Watchdog,
    changes: Changes,
    terminate: Signal,
    interrupt: Signal,
}

enum Heard {
    Trial(Box<Trial>),
    Nothing,
    Stop,
}

impl Watch {
    /// Waits for the trial that it was started for.
    async fn armed(&mut self) -> Heard {
        let until = Instant::now() + ARMED_PATIENCE;
        loop {
            if let Some(trial) = self.trial() {
                return Heard::Trial(Box::new(trial));
            }
            footprint::give_back_code();
            tokio::select! {
                () = stop(&mut self.terminate, &mut self.interrupt) => return Heard::Stop,
                changed = self.changes.next() => if let Err(error) = changed {
                    tracing::error!(%error, "changes of the record are not told any more");
                    return Heard::Nothing;
                },
                () = sleep_until(until) => return Heard::Nothing,
            }
        }
    }

    fn trial(&self) -> Option<Trial> {
        let record = self.watchdog.host.status().ok()?;
        record.trial().cloned()
    }

    /// Watches over one trial until it has ended.
    async fn over(&mut self, first: Trial) {
        let length = self.watchdog.host.deadline();
        tracing::info!(attempt = %first.attempt, slot = %first.slot, "watching over a trial");
        let mut expires = Instant::now() + expiry::time_left(&first, length);
        let probe = Probe::begin(&self.watchdog.host, &self.watchdog.gateways, expires);
        let mut trial = first;
        loop {
            footprint::give_back_code();
            tokio::select! {
                () = stop(&mut self.terminate, &mut self.interrupt) => return self.stopped().await,
                changed = self.changes.next() => {
                    match self.trial() {
                        None => return,
                        Some(now) if is_the_same(&now, &trial) => {}
                        // Its first start in this boot has begun its time anew, or another one has taken its place.
                        Some(now) => {
                            expires = Instant::now() + expiry::time_left(&now, length);
                            trial = now;
                        }
                    }
                    if let Err(error) = changed {
                        tracing::error!(%error, "changes of the record are not told any more");
                        sleep_until(expires).await;
                    }
                }
                () = sleep_until(expires) => match self.expire(&trial, probe.verdict()).await {
                    Expiry::Over => return,
                    Expiry::WentBack => return self.restart().await,
                    Expiry::NotYet(left) => expires = Instant::now() + left,
                    Expiry::Failed => expires = Instant::now() + AGAIN_AFTER,
                },
            }
        }
    }

    /// Ends the trial. A binary that holds the record for ever is ended by a restart, whose own decision it is then.
    async fn expire(&self, trial: &Trial, reach: Reach) -> Expiry {
        for _ in 0..LOCK_TRIES_MAX {
            match self.look(trial, reach).await {
                Ok(Some(expiry)) => return expiry,
                Ok(None) => sleep(LOCK_RETRY_AFTER).await,
                Err(error) => {
                    tracing::error!(%error, "the trial's end cannot be written");
                    return Expiry::Failed;
                }
            }
        }
        tracing::warn!("the binary on trial does not let go of the record: it is restarted for it");
        self.restart().await;
        Expiry::Failed
    }

    async fn look(&self, trial: &Trial, reach: Reach) -> Result<Option<Expiry>, String> {
        let (host, trial) = (self.watchdog.host.clone(), trial.clone());
        let unit = match &self.watchdog.restart {
            Restart::Unit(unit) => Some(unit.clone()),
            Restart::Shell(_) => None,
        };
        let looked = spawn_blocking(move || {
            let evidence = Evidence {
                stage: watchdog::read_stage(host.paths(), &trial.attempt),
                death: None,
                log: unit.map(|unit| manager::log(&unit)).unwrap_or_default(),
                reach,
            };
            expiry::try_expire(&host, &trial, Clock::Watchdog, evidence)
        });
        match looked.await {
            Ok(Ok(expiry)) => Ok(expiry),
            Ok(Err(error)) => Err(with_causes(&error)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Somebody stopped the watchdog, and with it the node: it goes back, and nobody is started. A machine that goes down
    /// takes its trial along.
    async fn stopped(&mut self) {
        let host = self.watchdog.host.clone();
        let cancelled = spawn_blocking(move || {
            if manager::is_there() && manager::machine_is_stopping() {
                tracing::info!("the machine stops: a trial goes on with its next boot");
            } else {
                expiry::cancel(&host);
            }
        });
        match timeout(CANCEL_PATIENCE, cancelled).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "the trial was not ended"),
            Err(_) => tracing::error!("the trial cannot be ended: the record is held"),
        }
    }

    /// Brings the node to run what the record says by now, from whatever state it is in, unless somebody stopped it.
    async fn restart(&self) {
        for _ in 0..RESTARTS_MAX {
            match self.order().await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => {
                    tracing::error!(error = %with_causes(&error), "the node cannot be restarted");
                }
                Err(error) => tracing::error!(%error, "the node was not restarted"),
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    async fn order(&self) -> Result<Result<(), ManagerError>, JoinError> {
        let restart = self.watchdog.restart.clone();
        spawn_blocking(move || match restart {
            Restart::Unit(unit) => match manager::standing(&unit) {
                Standing::Wanted => manager::restart(&unit),
                Standing::Stopped => {
                    tracing::info!(%unit, "somebody stopped the node: it stays stopped");
                    Ok(())
                }
            },
            Restart::Shell(line) => manager::shell(&line),
        })
        .await
    }
}

/// Whether nothing has changed but the number of starts.
fn is_the_same(one: &Trial, other: &Trial) -> bool {
    one.attempt == other.attempt
        && one.digest == other.digest
        && one.boot_id == other.boot_id
        && one.deadline == other.deadline
}

async fn stop(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
