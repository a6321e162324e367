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

/// Counts who is inside.
#[derive(Debug)]
pub(crate) struct Door {
    connections_max: NonZeroU32,
    unwelcomed_per_address: NonZeroU32,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    connections: u32,
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
    /// With nobody inside.
    pub(crate) fn new(connections_max: NonZeroU32, unwelcomed_per_address: NonZeroU32) -> Self {
        Self {
            connections_max,
            unwelcomed_per_address,
            inside: Mutex::default(),
        }
    }

    /// Lets one in.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Result<Place, Full> {
        let mut inside = self.inside();
        if inside.connections >= self.connections_max.get() {
            let max = self.connections_max;
            return Err(Full::Connections { max });
        }
        let unwelcomed = inside.unwelcomed.entry(address).or_default();
        if *unwelcomed >= self.unwelcomed_per_address.get() {
            let max = self.unwelcomed_per_address;
            return Err(Full::Address { address, max });
        }
        *unwelcomed += 1;
        inside.connections += 1;
        Ok(Place {
            door: Arc::clone(self),
            unwelcomed: Some(address),
        })
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
        self.door.inside().connections -= 1;
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

    fn door(connections_max: u32, unwelcomed_per_address: u32) -> Arc<Door> {
        let number = |of| NonZeroU32::new(of).unwrap();
        Arc::new(Door::new(
            number(connections_max),
            number(unwelcomed_per_address),
        ))
    }

    #[test]
    fn an_address_that_says_nothing_takes_no_place_from_others() {
        let door = door(10, 2);
        let [a, b] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let (mut first, second) = (door.enter(a).unwrap(), door.enter(a).unwrap());
        assert!(matches!(door.enter(a), Err(Full::Address { .. })));
        let _other = door.enter(b).unwrap();
        first.welcomed();
        first.welcomed();
        let third = door.enter(a).unwrap();
        assert!(matches!(door.enter(a), Err(Full::Address { .. })));
        drop((first, second, third));
        assert_eq!(door.inside().connections, 1);
        assert_eq!(door.inside().unwelcomed, BTreeMap::from([(b, 1)]));
    }

    #[test]
    fn a_full_gateway_takes_one_when_one_leaves() {
        let door = door(1, 5);
        let a = IpAddr::from([127, 0, 0, 1]);
        let first = door.enter(a).unwrap();
        assert!(matches!(door.enter(a), Err(Full::Connections { .. })));
        drop(first);
        door.enter(a).unwrap();
    }
}
