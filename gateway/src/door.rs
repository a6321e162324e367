//! How many may be inside.
//!
//! Takes connections as they come, gives each a place or the reason against it. A place is free again when its holder
//! is dropped, whatever happened to it.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use thiserror::Error;

use crate::limits::Limits;

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
    unwelcomed: Option<IpAddr>,
}

impl Door {
    /// Lets one in.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr, limits: &Limits) -> Result<Place, Full> {
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
        inside.connections += 1;
        inside.moves += 1;
        Ok(Place {
            door: Arc::clone(self),
            unwelcomed: Some(address),
        })
    }

    /// How many are inside.
    pub(crate) fn connections(&self) -> u32 {
        self.inside().connections
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
        if let Some(address) = self.unwelcomed.take() {
            self.door.inside().leave(address);
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
    fn leave(&mut self, address: IpAddr) {
        if let Some(count) = self.unwelcomed.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.unwelcomed.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (door, limits) = (Arc::<Door>::default(), limits(10, 2));
        let [a, b] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let (mut first, second) = (
            door.enter(a, &limits).unwrap(),
            door.enter(a, &limits).unwrap(),
        );
        assert!(matches!(door.enter(a, &limits), Err(Full::Address { .. })));
        let _other = door.enter(b, &limits).unwrap();
        first.welcomed();
        first.welcomed();
        let third = door.enter(a, &limits).unwrap();
        assert!(matches!(door.enter(a, &limits), Err(Full::Address { .. })));
        drop((first, second, third));
        assert_eq!(door.inside().connections, 1);
        assert_eq!(door.inside().unwelcomed, BTreeMap::from([(b, 1)]));
    }

    #[test]
    fn a_full_gateway_takes_one_when_one_leaves() {
        let (door, limits) = (Arc::<Door>::default(), limits(1, 5));
        let a = IpAddr::from([127, 0, 0, 1]);
        let first = door.enter(a, &limits).unwrap();
        assert!(matches!(
            door.enter(a, &limits),
            Err(Full::Connections { .. })
        ));
        drop(first);
        door.enter(a, &limits).unwrap();
    }
}
