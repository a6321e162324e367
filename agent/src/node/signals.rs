//! What ends a node, and how it has ended then.
//!
//! Takes the signals of a process and what the updater and a command want, gives why to leave. A node that is about to
//! become the next binary still hears who would rather have it stopped.

use futures_util::FutureExt as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::commands::Restart;
use super::session::Leaving;
use super::update::Updates;
use super::{End, NodeError};

/// What ends a node from outside.
pub(super) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    pub(super) fn install() -> Result<Self, NodeError> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).map_err(NodeError::Runtime)?,
            interrupt: signal(SignalKind::interrupt()).map_err(NodeError::Runtime)?,
        })
    }

    pub(super) async fn or_updated(
        self,
        updates: Updates,
        restart: watch::Receiver<Restart>,
    ) -> Leaving {
        let (mut signals, mut restart) = (self, restart);
        let restarted = async {
            if restart.wait_for(|now| *now == Restart::Now).await.is_err() {
                // Nobody is left who could ask for it.
                std::future::pending::<()>().await;
            }
        };
        let why = tokio::select! {
            _ = signals.terminate.recv() => Leaving::Stopping,
            _ = signals.interrupt.recv() => Leaving::Stopping,
            () = updates.leave() => Leaving::Updating,
            () = restarted => Leaving::Restarting,
        };
        tracing::info!(?why, "leaving the session");
        why
    }
}

/// Who asked this process to end while it was about to end anyway.
pub(super) struct Stops(Signals);

impl Stops {
    pub(super) fn install() -> Result<Self, NodeError> {
        Signals::install().map(Self)
    }

    pub(super) fn end(&mut self, updates: &Updates) -> End {
        let Self(signals) = self;
        let asked = signals.terminate.recv().now_or_never();
        let asked = asked.or_else(|| signals.interrupt.recv().now_or_never());
        match asked {
            Some(_) => End::Stopped,
            None if updates.is_leaving() => End::Updated,
            None => End::Stopped,
        }
    }
}
