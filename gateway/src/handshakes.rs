//! How many handshakes are under way.
//!
//! Takes peers that have said all it takes to begin, gives each a place while keys are agreed upon: that is what costs a
//! processor and memory, so a storm's peak is bounded by the places. Where all are taken, whoever has had one the longest
//! gives it up, if he has had it for so long that he is not at work but holding it; otherwise the next one waits. So a
//! crowd gets in one after another, and peers that stop in the middle keep nobody out.

use std::{
    collections::BTreeMap,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use prometheus_client::metrics::gauge::Gauge;
use thiserror::Error;
use tokio::{sync::Notify, time::timeout_at};

use crate::{clock, limits::HANDSHAKE_HELD_MIN};

/// Who is at it.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    under_way: Mutex<UnderWay>,
    freed: Notify,
    shown: Gauge,
}

#[derive(Debug, Default)]
struct UnderWay {
    /// In the order in which they began.
    places: BTreeMap<u64, Place>,
    last: u64,
}

#[derive(Debug)]
struct Place {
    since: Instant,
    wanted: Arc<Notify>,
}

/// A place. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'h> {
    of: &'h Handshakes,
    number: u64,
    wanted: Arc<Notify>,
}

/// Others needed the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "expected at most {max} handshakes under way, found one more that had waited while this one was held for {held:?}"
)]
pub(crate) struct GivenUp {
    max: NonZeroU32,
    held: Duration,
}

impl Handshakes {
    /// None yet; how many there are is shown there.
    pub(crate) fn shown(shown: Gauge) -> Self {
        Self {
            shown,
            ..Self::default()
        }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, max: NonZeroU32) -> Turn<'_> {
        loop {
            // From here on no place that is given back is missed.
            let freed = self.freed.notified();
            let free_by = match self.try_enter(max, clock::now()) {
                Ok(turn) => return turn,
                Err(free_by) => free_by,
            };
            // Whichever is first: the turn is tried again either way.
            timeout_at(free_by.into(), freed).await.ok();
        }
    }

    /// A place, or when one is free at the latest.
    fn try_enter(&self, max: NonZeroU32, now: Instant) -> Result<Turn<'_>, Instant> {
        let mut under_way = self.under_way();
        if under_way.places.len() >= usize::try_from(max.get()).unwrap_or(usize::MAX)
            && let Some(oldest) = under_way.places.first_entry()
        {
            let free_by = oldest.get().since + HANDSHAKE_HELD_MIN;
            if now < free_by {
                return Err(free_by);
            }
            oldest.remove().wanted.notify_one();
        }
        under_way.last += 1;
        let (number, wanted) = (under_way.last, Arc::<Notify>::default());
        let place = Place {
            since: now,
            wanted: Arc::clone(&wanted),
        };
        under_way.places.insert(number, place);
        self.show(&under_way);
        Ok(Turn {
            of: self,
            number,
            wanted,
        })
    }

    fn show(&self, under_way: &UnderWay) {
        let count = under_way.places.len();
        self.shown.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        // No code panics in between.
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Does what the place is for, unless others need it more.
    pub(crate) async fn unless_wanted<T>(
        self,
        max: NonZeroU32,
        what: impl Future<Output = T>,
    ) -> Result<T, GivenUp> {
        let since = clock::now();
        tokio::select! {
            biased;
            done = what => Ok(done),
            () = self.wanted.notified() => Err(GivenUp {
                max,
                held: clock::now().saturating_duration_since(since),
            }),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut under_way = self.of.under_way();
        if under_way.places.remove(&self.number).is_some() {
            self.of.show(&under_way);
            self.of.freed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: NonZeroU32 = NonZeroU32::new(2).unwrap();

    #[test]
    fn a_place_that_is_given_back_is_the_next_ones() {
        let (handshakes, now) = (Handshakes::default(), clock::now());
        let first = handshakes.try_enter(TWO, now).unwrap();
        let later = now + Duration::from_millis(10);
        let _second = handshakes.try_enter(TWO, later).unwrap();
        let free_by = handshakes.try_enter(TWO, later).unwrap_err();
        assert_eq!(free_by, now + HANDSHAKE_HELD_MIN);
        drop(first);
        let _third = handshakes.try_enter(TWO, later).unwrap();
        assert!(handshakes.try_enter(TWO, later).is_err());
        assert_eq!(handshakes.shown.get(), 2);
    }

    #[tokio::test]
    async fn who_holds_a_place_for_long_makes_room() {
        let (handshakes, now) = (Handshakes::default(), clock::now());
        let stalled = handshakes.try_enter(TWO, now).unwrap();
        let honest = handshakes
            .try_enter(TWO, now + HANDSHAKE_HELD_MIN / 2)
            .unwrap();
        let newcomer = handshakes.try_enter(TWO, now + HANDSHAKE_HELD_MIN).unwrap();
        let given_up = stalled.unless_wanted(TWO, std::future::pending::<()>());
        assert_eq!(given_up.await.unwrap_err().max, TWO);
        // The others go on, and the place of the one that was put out is not given twice.
        assert_eq!(handshakes.under_way().places.len(), 2);
        assert_eq!(honest.unless_wanted(TWO, async { 1 }).await, Ok(1));
        assert_eq!(newcomer.unless_wanted(TWO, async { 2 }).await, Ok(2));
        assert_eq!(handshakes.under_way().places.len(), 0);
        assert_eq!(handshakes.shown.get(), 0);
    }

    #[tokio::test]
    async fn a_crowd_gets_in_one_after_another() {
        let handshakes = Arc::<Handshakes>::default();
        let mut crowd = tokio::task::JoinSet::new();
        for _ in 0..200 {
            let handshakes = Arc::clone(&handshakes);
            crowd.spawn(async move {
                let turn = handshakes.enter(TWO).await;
                let work = async {
                    tokio::task::yield_now().await;
                    handshakes.under_way().places.len()
                };
                turn.unless_wanted(TWO, work).await.unwrap()
            });
        }
        while let Some(beside) = crowd.join_next().await {
            assert!(beside.unwrap() <= 2);
        }
        assert_eq!(handshakes.under_way().places.len(), 0);
    }
}
