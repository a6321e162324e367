//! Whether a gateway can be reached from this machine at all, while a binary is on trial.
//!
//! Takes the node's own identity and gateways, opens a TLS connection every few seconds and says nothing on it. A binary
//! that was not welcomed is not to blame where nobody could have been. Only the trial's last third counts, so nothing is
//! asked before it: most trials are confirmed by then, and gateways have better to do.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use url::Url;

use crate::identity::Identity;
use crate::node;
use crate::node::socket;
use crate::tls;
use crate::updater::host::{Host, with_causes};
use crate::updater::watchdog::Reach;

/// The wait between two tries where a trial is long.
const PERIOD: Duration = Duration::from_secs(3);

/// Tries where a trial is short: its last third has to see several.
const TRIES_MIN: u32 = 4;

/// How long one gateway may take. A gateway that answers later does not answer in time for a node either.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);

/// Probes until the trial has ended, or it is dropped.
#[derive(Debug)]
pub(crate) struct Probe {
    seen: Arc<Mutex<Seen>>,
    /// When the trial's last third begins.
    counts_from: Instant,
    task: JoinHandle<()>,
}

/// When gateways were reached last, and when none was.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    reached: Option<Instant>,
    missed: Option<Instant>,
}

impl Probe {
    /// Begins. Where there is nothing to probe with, nobody knows better than the binary on trial.
    pub(crate) fn begin(host: &Host, owners: &[Url], trial_ends: Instant) -> Self {
        let third = host.deadline() / 3;
        let counts_from = trial_ends.checked_sub(third).unwrap_or(trial_ends);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kept = Arc::clone(&seen);
        let (host, owners) = (host.clone(), owners.to_vec());
        let task = tokio::spawn(async move {
            sleep_until(counts_from).await;
            // Not before it is needed: most trials are over by now, and TLS takes memory.
            if !is_on(&host) {
                return;
            }
            let Some((gateways, tls)) = line(&host.paths().identity(), &owners) else {
                return;
            };
            let period = PERIOD.min(third / TRIES_MIN);
            while is_on(&host) {
                look(&gateways, &tls, &kept).await;
                sleep(period).await;
            }
        });
        Self {
            seen,
            counts_from,
            task,
        }
    }

    /// What the trial's last third has shown.
    pub(crate) fn verdict(&self) -> Reach {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        judge(seen, self.counts_from)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn judge(seen: Seen, counts_from: Instant) -> Reach {
    let counts = |at: Option<Instant>| at.is_some_and(|at| at >= counts_from);
    if counts(seen.missed) && !counts(seen.reached) {
        Reach::None
    } else {
        Reach::Assumed
    }
}

fn line(identity: &Path, owners: &[Url]) -> Option<(Vec<String>, Arc<ClientConfig>)> {
    let identity = match Identity::load(identity) {
        Ok(identity) => identity,
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "no identity to look for gateways with");
            return None;
        }
    };
    match tls::session(&identity) {
        Ok(tls) => Some((node::gateways(owners, &identity), tls)),
        Err(error) => {
            tracing::warn!(error = %with_causes(&error), "no TLS to look for gateways with");
            None
        }
    }
}

/// Whether a binary is on trial still, as far as anybody can tell. Who holds this probe may hear of its end late.
fn is_on(host: &Host) -> bool {
    host.status()
        .map_or(true, |record| record.trial().is_some())
}

async fn look(gateways: &[String], tls: &Arc<ClientConfig>, seen: &Mutex<Seen>) {
    let reached = reach_any(gateways, tls).await;
    let now = Some(Instant::now());
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    match reached {
        Reach::Assumed => seen.reached = now,
        Reach::None => seen.missed = now,
    }
}

async fn reach_any(gateways: &[String], tls: &Arc<ClientConfig>) -> Reach {
    for gateway in gateways {
        let connected = timeout(CONNECT_PATIENCE, socket::connect(gateway, Arc::clone(tls))).await;
        match connected {
            Ok(Ok(mut stream)) => {
                if let Err(error) = stream.shutdown().await {
                    tracing::debug!(%gateway, %error, "the gateway closed first");
                }
                return Reach::Assumed;
            }
            Ok(Err(error)) => tracing::debug!(%gateway, %error, "the gateway cannot be reached"),
            Err(_) => tracing::debug!(%gateway, "the gateway does not answer"),
        }
    }
    Reach::None
}

#[cfg(test)]
mod tests {
    use super::{Reach, Seen, judge};
    use std::time::Duration;
    use tokio::time::Instant;

    #[test]
    fn only_the_last_third_counts() {
        let third = Instant::now();
        let (before, within) = (
            third.checked_sub(Duration::from_secs(1)),
            third.checked_add(Duration::from_secs(1)),
        );
        for (reached, missed, reach) in [
            (None, None, Reach::Assumed),
            (before, None, Reach::Assumed),
            (None, before, Reach::Assumed),
            (None, within, Reach::None),
            (before, within, Reach::None),
            (within, within, Reach::Assumed),
            (within, before, Reach::Assumed),
        ] {
            assert_eq!(judge(Seen { reached, missed }, third), reach);
        }
    }
}
