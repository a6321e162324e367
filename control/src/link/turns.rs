//! One link a gateway.
//!
//! A process that dials again has lost its older link, whether this end has noticed or not: the newcomer ends it and
//! waits until it has. Another process of the same gateway is let in only where the first is gone: its link has ended, or
//! nobody answers on it. So facts of two links of one gateway never mix.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bc_protocol::id::GatewayId;
use thiserror::Error;
use tokio::{sync::OwnedMutexGuard, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{limits::ANSWER_MAX, pulse::Pulse};

/// A gateway's process, as its Hello names it.
pub(super) type Process = [u8; 16];

/// Whose turn it is, for each gateway that was ever linked.
#[derive(Debug)]
pub(super) struct Turns {
    stop: CancellationToken,
    gateways: Mutex<BTreeMap<GatewayId, Seat>>,
}

#[derive(Debug, Default)]
struct Seat {
    taken: Arc<tokio::sync::Mutex<()>>,
    last: Arrival,
}

/// Whoever was let in last, and sits there, waits to or has left.
#[derive(Clone, Debug, Default)]
struct Arrival {
    number: u64,
    /// None of control's own.
    process: Option<Process>,
    /// Ends it.
    end: CancellationToken,
    pulse: Arc<Pulse>,
}

/// The right to act for a gateway, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    /// Cancelled when somebody else wants it, or when everything ends.
    pub(super) end: CancellationToken,
    /// Where somebody else asks whether the gateway is there.
    pub(super) pulse: Arc<Pulse>,
    _seat: OwnedMutexGuard<()>,
}

/// Another process of the gateway has its turn, and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "expected one process with this gateway's certificate, found another that is linked and answers"
)]
pub(super) struct Occupied;

impl Turns {
    /// Nobody's. All end with `stop`.
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            gateways: Mutex::default(),
        }
    }

    /// Takes the place once it is free. An older link of the same process is ended for it, and one of another process that
    /// does not answer.
    pub(super) async fn take(
        &self,
        gateway: &GatewayId,
        process: Process,
    ) -> Result<Turn, Occupied> {
        loop {
            let (taken, last) = {
                let mut gateways = self.gateways();
                let seat = gateways.entry(gateway.clone()).or_default();
                (Arc::clone(&seat.taken), seat.last.clone())
            };
            if last.is_another(process) && taken.try_lock().is_err() {
                tokio::select! {
                    biased;
                    () = last.end.cancelled() => {}
                    freed = taken.lock() => drop(freed),
                    answered = timeout(ANSWER_MAX, last.pulse.beats()) => match answered {
                        Ok(()) => return Err(Occupied),
                        Err(_) => tracing::warn!(%gateway, "nobody answers on a gateway's link: another process has it now"),
                    },
                }
            }
            // Unless somebody else was let in meanwhile: then it is about him.
            if let Some(next) = self.let_in(gateway, &last, process) {
                return Ok(Turn {
                    end: next.end,
                    pulse: next.pulse,
                    _seat: taken.lock_owned().await,
                });
            }
        }
    }

    /// Ends whoever was let in before, if that is still this one.
    fn let_in(&self, gateway: &GatewayId, last: &Arrival, process: Process) -> Option<Arrival> {
        let mut gateways = self.gateways();
        let seat = gateways.get_mut(gateway)?;
        if seat.last.number != last.number {
            return None;
        }
        seat.last = Arrival {
            number: last.number + 1,
            process: Some(process),
            end: self.stop.child_token(),
            pulse: Arc::default(),
        };
        last.end.cancel();
        Some(seat.last.clone())
    }

    /// Ends the link of whoever acts for the gateway, unless he answers.
    pub(super) async fn doubt(&self, gateway: &GatewayId, within: Duration) {
        let last = self.gateways().get(gateway).map(|seat| seat.last.clone());
        if let Some(last) = last
            && timeout(within, last.pulse.beats()).await.is_err()
        {
            last.end.cancel();
        }
    }

    /// Ends whoever acts for the gateway or waits to.
    pub(super) fn end(&self, gateway: &GatewayId) {
        if let Some(seat) = self.gateways().get(gateway) {
            seat.last.end.cancel();
        }
    }

    /// Takes the place if nobody has it.
    pub(super) fn take_if_free(&self, gateway: &GatewayId) -> Option<Turn> {
        let mut gateways = self.gateways();
        let seat = gateways.entry(gateway.clone()).or_default();
        let seated = Arc::clone(&seat.taken).try_lock_owned().ok()?;
        seat.last = Arrival {
            number: seat.last.number + 1,
            process: None,
            end: self.stop.child_token(),
            pulse: Arc::default(),
        };
        Some(Turn {
            end: seat.last.end.clone(),
            pulse: Arc::clone(&seat.last.pulse),
            _seat: seated,
        })
    }

    fn gateways(&self) -> MutexGuard<'_, BTreeMap<GatewayId, Seat>> {
        // No code panics in between.
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Whether it is another process of the gateway, and nobody has ended it.
    fn is_another(&self, process: Process) -> bool {
        self.process.is_some_and(|own| own != process) && !self.end.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_newcomer_ends_the_older_and_waits_for_it() {
        let stop = CancellationToken::new();
        let turns = Turns::new(stop.clone());
        let gateway = GatewayId::derived(&[]);
        let first = turns.take(&gateway, [1; 16]).await.unwrap();
        assert!(turns.take_if_free(&gateway).is_none());
        assert!(!first.end.is_cancelled());
        let leaves = async {
            first.end.cancelled().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(turns.take(&gateway, [1; 16]), leaves);
        let second = second.unwrap();
        assert!(!second.end.is_cancelled());
        let other = turns
            .take_if_free(&GatewayId::derived(&[b"other"]))
            .unwrap();
        turns.end(&GatewayId::derived(&[b"nobody's"]));
        turns.end(&GatewayId::derived(&[b"other"]));
        assert!(other.end.is_cancelled() && !second.end.is_cancelled());
        stop.cancel();
        assert!(second.end.is_cancelled());
    }

    /// Answers every question as a process does that is there.
    async fn lives(turn: &Turn) -> std::convert::Infallible {
        let mut questions = turn.pulse.questions();
        loop {
            questions.changed().await.unwrap();
            let question = *questions.borrow_and_update();
            turn.pulse.answered(&crate::link::pulse::payload(question));
        }
    }

    #[tokio::test]
    async fn another_process_comes_in_only_where_the_first_is_gone() {
        let turns = Turns::new(CancellationToken::new());
        let gateway = GatewayId::derived(&[]);
        let first = turns.take(&gateway, [1; 16]).await.unwrap();
        tokio::select! {
            _ = lives(&first) => {}
            second = turns.take(&gateway, [2; 16]) => assert_eq!(second.unwrap_err(), Occupied),
        }
        tokio::select! {
            _ = lives(&first) => {}
            () = turns.doubt(&gateway, ANSWER_MAX) => {}
        }
        assert!(!first.end.is_cancelled());
        // It has left: nobody waits for an answer.
        let (second, ()) = tokio::join!(turns.take(&gateway, [2; 16]), async { drop(first) });
        let second = second.unwrap();
        // It is silent: two of others come, and one of them has it.
        let leaves = async {
            second.end.cancelled().await;
            drop(second);
        };
        let refused = tokio::sync::Notify::new();
        let comes = async |process| match turns.take(&gateway, process).await {
            Ok(turn) => tokio::select! {
                _ = lives(&turn) => unreachable!(),
                () = refused.notified() => true,
            },
            Err(Occupied) => {
                refused.notify_one();
                false
            }
        };
        let (third, fourth, ()) = tokio::join!(comes([3; 16]), comes([4; 16]), leaves);
        assert!(third ^ fourth, "{third} {fourth}");
        let last = turns.take(&gateway, [5; 16]).await.unwrap();
        turns.doubt(&gateway, Duration::from_millis(1)).await;
        assert!(last.end.is_cancelled());
    }
}
