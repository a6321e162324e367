//! One link a gateway.
//!
//! A gateway that dials again has lost its older link, whether this end has noticed or not: the newcomer ends it and
//! waits until it has. So facts of two links of one gateway never mix.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bc_protocol::id::GatewayId;
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;

/// Whose turn it is, for each gateway that was ever linked.
#[derive(Debug)]
pub(super) struct Turns {
    stop: CancellationToken,
    gateways: Mutex<BTreeMap<GatewayId, Seat>>,
}

#[derive(Debug, Default)]
struct Seat {
    taken: Arc<tokio::sync::Mutex<()>>,
    /// Ends whoever sits there or waits for it.
    end: CancellationToken,
}

/// The right to act for a gateway, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    /// Cancelled when somebody else wants it, or when everything ends.
    pub(super) end: CancellationToken,
    _seat: OwnedMutexGuard<()>,
}

impl Turns {
    /// Nobody's. All end with `stop`.
    pub(super) fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            gateways: Mutex::default(),
        }
    }

    /// Ends whoever acts for the gateway, and takes the place once it is free.
    pub(super) async fn take(&self, gateway: &GatewayId) -> Turn {
        let end = self.stop.child_token();
        let taken = {
            let mut gateways = self.gateways();
            let seat = gateways.entry(gateway.clone()).or_default();
            std::mem::replace(&mut seat.end, end.clone()).cancel();
            Arc::clone(&seat.taken)
        };
        Turn {
            end,
            _seat: taken.lock_owned().await,
        }
    }

    /// Ends whoever acts for the gateway or waits to.
    pub(super) fn end(&self, gateway: &GatewayId) {
        if let Some(seat) = self.gateways().get(gateway) {
            seat.end.cancel();
        }
    }

    /// Takes the place if nobody has it.
    pub(super) fn take_if_free(&self, gateway: &GatewayId) -> Option<Turn> {
        let mut gateways = self.gateways();
        let seat = gateways.entry(gateway.clone()).or_default();
        let seated = Arc::clone(&seat.taken).try_lock_owned().ok()?;
        seat.end = self.stop.child_token();
        Some(Turn {
            end: seat.end.clone(),
            _seat: seated,
        })
    }

    fn gateways(&self) -> MutexGuard<'_, BTreeMap<GatewayId, Seat>> {
        // No code panics in between.
        self.gateways.lock().unwrap_or_else(PoisonError::into_inner)
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
        let first = turns.take(&gateway).await;
        assert!(turns.take_if_free(&gateway).is_none());
        assert!(!first.end.is_cancelled());
        let leaves = async {
            first.end.cancelled().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(turns.take(&gateway), leaves);
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
}
