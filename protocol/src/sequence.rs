//! The order of releases.
//!
//! Takes integers, gives [`Sequence`] and [`ReleaseFloor`]. Never holds a number that JSON cannot carry exactly, and a
//! floor never falls: it has no setter.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::text::excerpt;

/// The place of a release among all releases of its product: newer is higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Sequence(u64);

impl Sequence {
    /// The binary that came with the package: older than everything signed.
    pub const PACKAGED: Self = Self(0);

    /// The highest integer that every JSON reader holds exactly.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// Accepts 0 to 2^53-1.
    pub fn new(number: u64) -> Result<Self, SequenceError> {
        if number > Self::MAX.0 {
            return Err(SequenceError::TooLarge { found: number });
        }
        Ok(Self(number))
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The oldest release that a node still accepts. It only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReleaseFloor(Sequence);

impl ReleaseFloor {
    /// The floor of a new machine: it admits every release.
    pub const NONE: Self = Self(Sequence::PACKAGED);

    /// The floor that a record holds. Only for reading it back: what raises a floor is [`Self::raised_to`].
    #[must_use]
    pub const fn starting_at(sequence: Sequence) -> Self {
        Self(sequence)
    }

    /// Whether a release may run under this floor.
    #[must_use]
    pub fn admits(self, sequence: Sequence) -> bool {
        self.0 <= sequence
    }

    /// The floor after `confirmed` was confirmed: never lower than it was.
    #[must_use]
    pub fn raised_to(self, confirmed: Sequence) -> Self {
        Self(self.0.max(confirmed))
    }

    /// The lowest sequence that is admitted.
    #[must_use]
    pub const fn sequence(self) -> Sequence {
        self.0
    }
}

/// Why a number is no sequence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SequenceError {
    /// JSON readers would round it.
    #[error("expected a sequence of at most {}, found {found}", Sequence::MAX)]
    TooLarge {
        /// The number given.
        found: u64,
    },
    /// Not digits alone.
    #[error(
        "expected a whole number from 0 to {}, found \"{}\"",
        Sequence::MAX,
        excerpt(found)
    )]
    NotANumber {
        /// The text given.
        found: String,
    },
}

impl TryFrom<u64> for Sequence {
    type Error = SequenceError;

    fn try_from(number: u64) -> Result<Self, SequenceError> {
        Self::new(number)
    }
}

impl From<Sequence> for u64 {
    fn from(sequence: Sequence) -> Self {
        sequence.0
    }
}

impl FromStr for Sequence {
    type Err = SequenceError;

    fn from_str(text: &str) -> Result<Self, SequenceError> {
        // `u64::from_str` also takes a plus sign, which no writer of ours makes.
        let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(number) if digits_only => Self::new(number),
            Ok(_) | Err(_) => Err(SequenceError::NotANumber {
                found: text.to_owned(),
            }),
        }
    }
}

impl FromStr for ReleaseFloor {
    type Err = SequenceError;

    fn from_str(text: &str) -> Result<Self, SequenceError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for ReleaseFloor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::{ReleaseFloor, Sequence};
    use proptest::prelude::*;

    #[test]
    fn the_largest_number_that_json_holds_exactly_is_the_last_sequence() {
        assert_eq!(Sequence::new(9_007_199_254_740_991), Ok(Sequence::MAX));
        assert!(Sequence::new(9_007_199_254_740_992).is_err());
        assert!(serde_json::from_str::<Sequence>("9007199254740992").is_err());
    }

    #[test]
    fn only_whole_json_numbers_are_sequences() {
        for json in [
            "14.0",
            "1e1",
            "-1",
            "-0",
            "\"14\"",
            "null",
            "true",
            "18446744073709551616",
        ] {
            assert!(serde_json::from_str::<Sequence>(json).is_err(), "{json}");
        }
        assert_eq!(
            serde_json::from_str::<Sequence>("14").unwrap(),
            Sequence::new(14).unwrap()
        );
    }

    #[test]
    fn only_digits_are_sequences() {
        for text in ["", "+1", "-1", "1.0", " 1", "1_000", "٣"] {
            assert!(text.parse::<Sequence>().is_err(), "{text}");
        }
        assert_eq!("007".parse::<Sequence>().unwrap().get(), 7);
    }

    #[test]
    fn no_floor_admits_the_packages_own_binary() {
        assert!(ReleaseFloor::NONE.admits(Sequence::PACKAGED));
    }

    proptest! {
        #[test]
        fn a_floor_never_falls(start in 0_u64..1 << 53, steps in prop::collection::vec(0_u64..1 << 53, 0..20)) {
            let mut floor = ReleaseFloor::starting_at(Sequence::new(start).unwrap());
            for step in steps {
                let step = Sequence::new(step).unwrap();
                let raised = floor.raised_to(step);
                prop_assert!(raised >= floor);
                prop_assert_eq!(raised.admits(step), floor.admits(step));
                prop_assert!(raised.sequence() == step || raised == floor);
                floor = raised;
            }
        }
    }
}
