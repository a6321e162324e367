//! Exact fractions of a fleet.
//!
//! Takes decimals as people and JSON write them, gives [`Share`]s and [`Percent`]s held in millionths. Never computes
//! in binary floats: in those, 0.29 of 100 nodes are 28.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::text::excerpt;

mod decimal;

use decimal::{Number, PERCENT, SHARE};

const MILLION: u32 = 1_000_000;

/// A share from 0 to 1, held exactly in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Share {
    millionths: u32,
}

impl Share {
    /// Nothing.
    pub const ZERO: Self = Self { millionths: 0 };

    /// Everything.
    pub const ONE: Self = Self {
        millionths: MILLION,
    };

    /// A share of that many millionths; refused above a million.
    pub fn from_millionths(millionths: u32) -> Result<Self, ShareError> {
        if millionths > MILLION {
            return Err(SHARE.refuses(SHARE.text(millionths)));
        }
        Ok(Self { millionths })
    }

    /// How many millionths this is.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.millionths
    }

    /// The whole number of nodes in this share of `nodes`, rounded down.
    #[must_use]
    pub fn of(self, nodes: u32) -> u32 {
        let scaled = u64::from(nodes) * u64::from(self.millionths);
        u32::try_from(scaled / u64::from(MILLION)).unwrap_or(nodes)
    }

    /// Whether `part` of `whole` is strictly more than this share. Of nothing, any part is.
    #[must_use]
    pub fn is_exceeded_by(self, part: u32, whole: u32) -> bool {
        u64::from(part) * u64::from(MILLION) > u64::from(whole) * u64::from(self.millionths)
    }
}

/// A percentage above 0 and up to 100, with at most 4 places; held exactly in millionths of the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    millionths: u32,
}

impl Percent {
    /// All of it.
    pub const HUNDRED: Self = Self {
        millionths: MILLION,
    };

    /// How many millionths of the whole this is.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.millionths
    }

    /// The whole number of nodes that this percentage of `nodes` touches, rounded up.
    #[must_use]
    pub fn ceil_of(self, nodes: u32) -> u32 {
        let scaled = u64::from(nodes) * u64::from(self.millionths);
        u32::try_from(scaled.div_ceil(u64::from(MILLION))).unwrap_or(nodes)
    }
}

/// Why a number is no share or percentage.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected}, found \"{}\"", excerpt(found))]
pub struct ShareError {
    expected: &'static str,
    found: String,
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        SHARE.parse(text).map(|millionths| Self { millionths })
    }
}

impl FromStr for Percent {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        PERCENT.parse(text).map(|millionths| Self { millionths })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&SHARE.text(self.millionths))
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&PERCENT.text(self.millionths))
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SHARE.serialize(self.millionths, serializer)
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        PERCENT.serialize(self.millionths, serializer)
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_f64(Number(&SHARE))
            .map(|millionths| Self { millionths })
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_f64(Number(&PERCENT))
            .map(|millionths| Self { millionths })
    }
}

#[cfg(test)]
mod tests {
    use super::{Percent, Share};
    use proptest::prelude::*;

    #[test]
    fn shares_read_as_they_are_written() {
        for (text, millionths) in [
            ("0", 0),
            ("1", 1_000_000),
            ("0.05", 50_000),
            ("0.29", 290_000),
            ("0.000001", 1),
            ("0.999999", 999_999),
        ] {
            let share: Share = text.parse().unwrap();
            assert_eq!(
                (share.millionths(), share.to_string().as_str()),
                (millionths, text)
            );
            assert_eq!(
                serde_json::to_string(&share).unwrap(),
                text.replace("0.000001", "1e-6")
            );
        }
    }

    #[test]
    fn percentages_read_as_they_are_written() {
        for (text, millionths) in [
            ("1", 10_000),
            ("100", 1_000_000),
            ("12.5", 125_000),
            ("0.0001", 1),
            ("99.9999", 999_999),
        ] {
            let percent: Percent = text.parse().unwrap();
            assert_eq!(
                (percent.millionths(), percent.to_string().as_str()),
                (millionths, text)
            );
            assert_eq!(serde_json::to_string(&percent).unwrap(), text);
        }
    }

    #[test]
    fn other_numbers_are_no_shares() {
        for text in [
            "",
            ".5",
            "5.",
            "1.000001",
            "1.1",
            "2",
            "-0",
            "-0.5",
            "+0.5",
            "0.0000001",
            "1e-3",
            "NaN",
            "inf",
            "0,5",
            "0.5 ",
            "0.5.5",
            "4294967296",
        ] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
        for json in [
            "-0.0",
            "-0",
            "-1",
            "1.5",
            "1e309",
            "1e-7",
            "0.0000001",
            "\"0.5\"",
            "null",
            "18446744073709551615",
        ] {
            assert!(serde_json::from_str::<Share>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn other_numbers_are_no_percentages() {
        for json in [
            "0", "0.0", "0.00001", "100.0001", "101", "-5", "1e3", "\"5\"", "5000",
        ] {
            assert!(serde_json::from_str::<Percent>(json).is_err(), "{json}");
        }
        for json in ["1e1", "10.0", "10"] {
            assert_eq!(
                serde_json::from_str::<Percent>(json).unwrap().to_string(),
                "10",
                "{json}"
            );
        }
    }

    #[test]
    fn a_refusal_names_the_rule_and_the_number() {
        let refusal = serde_json::from_str::<Share>("1.5")
            .unwrap_err()
            .to_string();
        assert!(
            refusal.contains("from 0 to 1") && refusal.contains("1.5"),
            "{refusal}"
        );
    }

    #[test]
    fn twenty_nine_of_a_hundred_are_twenty_nine() {
        assert_eq!("0.29".parse::<Share>().unwrap().of(100), 29);
        assert_eq!("29".parse::<Percent>().unwrap().ceil_of(100), 29);
        assert_eq!("0.05".parse::<Share>().unwrap().of(39), 1);
        assert_eq!("0.0001".parse::<Percent>().unwrap().ceil_of(1), 1);
    }

    #[test]
    fn the_limit_itself_is_not_exceeded() {
        let limit: Share = "0.05".parse().unwrap();
        assert!(!limit.is_exceeded_by(1, 20));
        assert!(limit.is_exceeded_by(1, 19));
        assert!(!Share::ZERO.is_exceeded_by(0, 5));
        assert!(Share::ZERO.is_exceeded_by(1, u32::MAX));
        assert!(!Share::ONE.is_exceeded_by(u32::MAX, u32::MAX));
        assert!(!Share::ZERO.is_exceeded_by(0, 0));
    }

    proptest! {
        #[test]
        fn every_share_survives_json_and_text(millionths in 0_u32..=1_000_000) {
            let share = Share::from_millionths(millionths).unwrap();
            let json = serde_json::to_string(&share).unwrap();
            prop_assert_eq!(serde_json::from_str::<Share>(&json).unwrap(), share);
            prop_assert_eq!(share.to_string().parse::<Share>().unwrap(), share);
        }

        #[test]
        fn every_percentage_survives_json_and_text(whole in 0_u32..100, places in 1_u32..10_000) {
            let percent: Percent = format!("{whole}.{places:04}").parse().unwrap();
            let json = serde_json::to_string(&percent).unwrap();
            prop_assert_eq!(serde_json::from_str::<Percent>(&json).unwrap(), percent);
            prop_assert_eq!(percent.to_string().parse::<Percent>().unwrap(), percent);
        }

        #[test]
        fn a_share_of_nodes_is_exact(millionths in 0_u32..=1_000_000, nodes: u32) {
            let share = Share::from_millionths(millionths).unwrap();
            let part = share.of(nodes);
            prop_assert!(part <= nodes && !share.is_exceeded_by(part, nodes));
            prop_assert!(part == nodes || share.is_exceeded_by(part + 1, nodes));
        }
    }
}
