//! Who asks for metrics or health right now.
//!
//! Takes those that come, gives each a place at once: where its address has its share, or all places are taken, whoever has
//! been at it the longest gives way. A question takes a millisecond, so whoever is put out was holding a place and not
//! asking. It waits for nobody.

use std::{
    collections::VecDeque,
    net::IpAddr,
    time::{Duration, Instant},
};

use thiserror::Error;
use tokio::task::AbortHandle;

use crate::{
    admission::Site,
    limits::{STATUS_CONNECTIONS_MAX, STATUS_PER_ADDRESS_MAX},
};

/// Those who are at it, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Askers(VecDeque<Asker>);

/// One of them.
#[derive(Debug)]
pub(super) struct Asker {
    /// Where it comes from.
    pub(super) site: Site,
    /// When it came.
    pub(super) since: Instant,
    /// Ends it.
    pub(super) answering: AbortHandle,
}

/// Somebody was put out for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum GaveWay {
    /// The newcomer's address had its share.
    #[error(
        "expected at most {STATUS_PER_ADDRESS_MAX} questions of {address} at once, found one more: its oldest, of {held:?}, gives way"
    )]
    Share {
        /// Whose.
        address: IpAddr,
        /// For how long it had its place.
        held: Duration,
    },
    /// All places were taken.
    #[error(
        "expected at most {STATUS_CONNECTIONS_MAX} questions at once, found one more: the oldest, of {address} and {held:?}, gives way"
    )]
    Places {
        /// Whose.
        address: IpAddr,
        /// For how long it had its place.
        held: Duration,
    },
}

impl Askers {
    /// Gives a place to one more.
    pub(super) fn enter(&mut self, newcomer: Asker) -> Option<GaveWay> {
        self.0.retain(|asker| !asker.answering.is_finished());
        let now = newcomer.since;
        let held = |oldest: &Asker| now.saturating_duration_since(oldest.since);
        let address = newcomer.site.address();
        let of_site = |asker: &&Asker| asker.site == newcomer.site;
        let gave_way = if self.0.iter().filter(of_site).count() >= STATUS_PER_ADDRESS_MAX {
            let oldest = self.0.iter().position(|asker| of_site(&asker));
            let oldest = oldest.and_then(|at| self.0.remove(at));
            oldest.map(|oldest| {
                oldest.answering.abort();
                let held = held(&oldest);
                GaveWay::Share { address, held }
            })
        } else if self.0.len() >= STATUS_CONNECTIONS_MAX {
            self.0.pop_front().map(|oldest| {
                oldest.answering.abort();
                let (address, held) = (oldest.site.address(), held(&oldest));
                GaveWay::Places { address, held }
            })
        } else {
            None
        };
        self.0.push_back(newcomer);
        gave_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    fn asker(host: u8, since: Instant) -> Asker {
        Asker {
            site: IpAddr::from([10, 0, 0, host]).into(),
            since,
            answering: tokio::spawn(std::future::pending::<()>()).abort_handle(),
        }
    }

    #[tokio::test]
    async fn an_address_puts_out_nobody_but_its_own() {
        let (mut askers, now) = (Askers::default(), clock::now());
        assert_eq!(askers.enter(asker(1, now)), None);
        for _ in 0..STATUS_PER_ADDRESS_MAX {
            assert_eq!(askers.enter(asker(2, now)), None);
        }
        let held = Duration::from_secs(1);
        for _ in 0..100 {
            let address = IpAddr::from([10, 0, 0, 2]);
            let gave_way = askers.enter(asker(2, now + held));
            assert!(matches!(gave_way, Some(GaveWay::Share { address: of, .. }) if of == address));
        }
        assert_eq!(askers.0.len(), 1 + STATUS_PER_ADDRESS_MAX);
        assert!(!askers.0[0].answering.is_finished());
    }

    #[tokio::test]
    async fn where_all_places_are_taken_the_oldest_gives_way_and_who_has_gone_holds_none() {
        let (mut askers, now) = (Askers::default(), clock::now());
        let hosts = STATUS_CONNECTIONS_MAX / STATUS_PER_ADDRESS_MAX;
        for host in 0..u8::try_from(hosts).unwrap() {
            for _ in 0..STATUS_PER_ADDRESS_MAX {
                assert_eq!(askers.enter(asker(host, now)), None);
            }
        }
        let (address, held) = (IpAddr::from([10, 0, 0, 0]), Duration::from_secs(3));
        let gave_way = askers.enter(asker(200, now + held));
        assert_eq!(gave_way, Some(GaveWay::Places { address, held }));
        assert_eq!(askers.0.len(), STATUS_CONNECTIONS_MAX);
        let done = askers.0[9].answering.clone();
        done.abort();
        while !done.is_finished() {
            tokio::task::yield_now().await;
        }
        assert_eq!(askers.enter(asker(201, now)), None);
    }
}
