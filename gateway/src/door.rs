//! How many may be inside.
//!
//! Takes connections as they come, gives each a place or the reason against it. A place is free again when its holder
//! is dropped, whatever happened to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use thiserror::Error;

use crate::limits::{LINGERS_AFTER, Limits};

/// Counts who is inside.
#[derive(Debug, Default)]
pub(crate) struct Door {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    connections: u32,
    /// How often somebody came or went.
    moves: u64,
    /// Those that were not welcomed yet. It holds no address with nobody behind it.
    unwelcomed: BTreeMap<IpAddr, u32>,
    /// The same by the second in which they came. It holds no second in which nobody did.
    came: BTreeMap<u64, u32>,
    /// From when seconds count: when the first came.
    since: Option<Instant>,
}

/// Somebody who was not welcomed yet.
#[derive(Clone, Copy, Debug)]
struct Unwelcomed {
    address: IpAddr,
    second: u64,
}

/// Why a connection is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Full {
    /// The gateway has all it can hold.
    #[error("expected at most {max} connections, found one more")]
    Connections {
        /// The bound.
        max: NonZeroU32,
    },
    /// One address has too many that say nothing.
    #[error("expected at most {max} connections of {address} before their welcome, found one more")]
    Address {
        /// Whose.
        address: IpAddr,
        /// The bound.
        max: NonZeroU32,
    },
}

/// A connection's place.
#[derive(Debug)]
pub(crate) struct Place {
    door: Arc<Door>,
    /// Until it is welcomed.
    unwelcomed: Option<Unwelcomed>,
}

impl Door {
    /// Lets one in.
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: IpAddr,
        limits: &Limits,
        now: Instant,
    ) -> Result<Place, Full> {
        let mut inside = self.inside();
        let max = limits.connections_max;
        if inside.connections >= max.get() {
            return Err(Full::Connections { max });
        }
        let max = limits.unwelcomed_per_address;
        let unwelcomed = inside.unwelcomed.get(&address).copied().unwrap_or(0);
        if unwelcomed >= max.get() {
            return Err(Full::Address { address, max });
        }
        inside.unwelcomed.insert(address, unwelcomed + 1);
        let second = inside.second(now);
        *inside.came.entry(second).or_default() += 1;
        inside.connections += 1;
        inside.moves += 1;
        Ok(Place {
            door: Arc::clone(self),
            unwelcomed: Some(Unwelcomed { address, second }),
        })
    }

    /// How many are inside.
    pub(crate) fn connections(&self) -> u32 {
        self.inside().connections
    }

    /// How many came so long ago that whoever wants a session has one by now.
    pub(crate) fn lingering(&self, now: Instant) -> u32 {
        let mut inside = self.inside();
        let second = inside.second(now);
        let until = second.saturating_sub(LINGERS_AFTER.as_secs());
        inside.came.range(..until).map(|(_, count)| count).sum()
    }

    /// How often somebody has come or gone.
    pub(crate) fn moves(&self) -> u64 {
        self.inside().moves
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // No code panics in between.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// It counts for its address no more.
    pub(crate) fn welcomed(&mut self) {
        if let Some(one) = self.unwelcomed.take() {
            self.door.inside().leave(one);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.welcomed();
        let mut inside = self.door.inside();
        inside.connections -= 1;
        inside.moves += 1;
    }
}

impl Inside {
    fn second(&mut self, now: Instant) -> u64 {
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since).as_secs()
    }

    fn leave(&mut self, one: Unwelcomed) {
        one_less(&mut self.unwelcomed, &one.address);
        one_less(&mut self.came, &one.second);
    }
}

fn one_less<K: Ord>(counts: &mut BTreeMap<K, u32>, of: &K) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    fn limits(connections_max: u32, unwelcomed_per_address: u32) -> Limits {
        let number = |of| NonZeroU32::new(of).unwrap();
        Limits {
            connections_max: number(connections_max),
            unwelcomed_per_address: number(unwelcomed_per_address),
            ..Limits::default()
        }
    }

    #[test]
    fn an_address_that_says_nothing_takes_no_place_from_others() {
        let (door, limits, now) = (Arc::<Door>::default(), limits(10, 2), clock::now());
        let [a, b] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let (mut first, second) = (
            door.enter(a, &limits, now).unwrap(),
            door.enter(a, &limits, now).unwrap(),
        );
        assert!(matches!(
            door.enter(a, &limits, now),
            Err(Full::Address { .. })
        ));
        let _other = door.enter(b, &limits, now).unwrap();
        first.welcomed();
        first.welcomed();
        let third = door.enter(a, &limits, now).unwrap();
        assert!(matches!(
            door.enter(a, &limits, now),
            Err(Full::Address { .. })
        ));
        drop((first, second, third));
        assert_eq!(door.inside().connections, 1);
        assert_eq!(door.inside().unwelcomed, BTreeMap::from([(b, 1)]));
    }

    #[test]
    fn a_full_gateway_takes_one_when_one_leaves() {
        let (door, limits, now) = (Arc::<Door>::default(), limits(1, 5), clock::now());
        let a = IpAddr::from([127, 0, 0, 1]);
        let first = door.enter(a, &limits, now).unwrap();
        assert!(matches!(
            door.enter(a, &limits, now),
            Err(Full::Connections { .. })
        ));
        drop(first);
        door.enter(a, &limits, now).unwrap();
    }

    #[test]
    fn who_is_welcomed_or_leaves_lingers_no_more() {
        let (door, limits, now) = (Arc::<Door>::default(), limits(10, 10), clock::now());
        let a = IpAddr::from([127, 0, 0, 1]);
        let mut first = door.enter(a, &limits, now).unwrap();
        let second = door.enter(a, &limits, now).unwrap();
        let later = now + LINGERS_AFTER + Duration::from_secs(1);
        let _third = door.enter(a, &limits, later).unwrap();
        assert_eq!((door.lingering(now), door.lingering(later)), (0, 2));
        first.welcomed();
        assert_eq!(door.lingering(later), 1);
        drop(second);
        assert_eq!(door.lingering(later), 0);
        assert_eq!(door.inside().came.values().sum::<u32>(), 1);
    }
}
