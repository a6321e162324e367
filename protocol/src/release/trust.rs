//! Whom to believe.
//!
//! Takes the pins and the threshold of a configuration, gives a [`Trust`] that can be met and cannot be met by nobody.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::digest::Pin;

/// The keys that may sign releases, and how many of them must have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TrustInput", into = "TrustInput")]
pub struct Trust {
    pins: BTreeSet<Pin>,
    threshold: NonZeroUsize,
}

impl Trust {
    /// Accepts at least one pin, none of them twice, and a threshold from 1 to their number.
    pub fn new(pins: impl IntoIterator<Item = Pin>, threshold: usize) -> Result<Self, TrustError> {
        let mut distinct = BTreeSet::new();
        for pin in pins {
            // A pin given twice is a slip that would make the threshold mean less than it says.
            if !distinct.insert(pin) {
                return Err(TrustError::Duplicate { pin });
            }
        }
        if distinct.is_empty() {
            return Err(TrustError::NoPins);
        }
        let threshold = NonZeroUsize::new(threshold)
            .filter(|threshold| threshold.get() <= distinct.len())
            .ok_or(TrustError::Threshold {
                pins: distinct.len(),
                found: threshold,
            })?;
        Ok(Self {
            pins: distinct,
            threshold,
        })
    }

    /// The keys that count.
    #[must_use]
    pub const fn pins(&self) -> &BTreeSet<Pin> {
        &self.pins
    }

    /// How many distinct ones must have signed.
    #[must_use]
    pub const fn threshold(&self) -> NonZeroUsize {
        self.threshold
    }
}

/// Why pins and a threshold make no trust.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TrustError {
    /// Nobody could sign.
    #[error("expected at least one pin, found none")]
    NoPins,
    /// One key would look like two.
    #[error("expected each pin once, found {pin} twice")]
    Duplicate {
        /// The pin given twice.
        pin: Pin,
    },
    /// Anybody could sign, or nobody could sign enough.
    #[error("expected a threshold from 1 to the number of pins, which is {pins}, found {found}")]
    Threshold {
        /// How many pins there are.
        pins: usize,
        /// The threshold given.
        found: usize,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrustInput {
    pins: Vec<Pin>,
    threshold: usize,
}

impl TryFrom<TrustInput> for Trust {
    type Error = TrustError;

    fn try_from(input: TrustInput) -> Result<Self, TrustError> {
        Self::new(input.pins, input.threshold)
    }
}

impl From<Trust> for TrustInput {
    fn from(trust: Trust) -> Self {
        Self {
            pins: trust.pins.into_iter().collect(),
            threshold: trust.threshold.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Trust, TrustError};
    use crate::digest::Pin;

    #[test]
    fn a_trust_can_be_met_and_not_by_nobody() {
        let (one, two) = (Pin::of_spki(b"1"), Pin::of_spki(b"2"));
        assert_eq!(Trust::new([one, two], 2).unwrap().threshold().get(), 2);
        assert_eq!(Trust::new([], 0), Err(TrustError::NoPins));
        assert_eq!(Trust::new([], 1), Err(TrustError::NoPins));
        assert_eq!(
            Trust::new([one, two], 0),
            Err(TrustError::Threshold { pins: 2, found: 0 })
        );
        assert_eq!(
            Trust::new([one, two], 3),
            Err(TrustError::Threshold { pins: 2, found: 3 })
        );
        assert_eq!(
            Trust::new([one, two, one], 2),
            Err(TrustError::Duplicate { pin: one })
        );
    }

    #[test]
    fn a_configuration_that_makes_no_trust_does_not_load() {
        let pin = Pin::of_spki(b"1");
        for (pins, threshold) in [
            ("[]".to_owned(), "1"),
            (format!("[\"{pin}\"]"), "0"),
            (format!("[\"{pin}\"]"), "-1"),
            (format!("[\"{pin}\"]"), "2"),
            (format!("[\"{pin}\"]"), "1.0"),
            (format!("[\"{pin}\", \"{pin}\"]"), "1"),
        ] {
            let json = format!("{{\"pins\": {pins}, \"threshold\": {threshold}}}");
            assert!(serde_json::from_str::<Trust>(&json).is_err(), "{json}");
        }
        let trust: Trust =
            serde_json::from_str(&format!("{{\"pins\": [\"{pin}\"], \"threshold\": 1}}")).unwrap();
        assert_eq!(
            serde_json::from_str::<Trust>(&serde_json::to_string(&trust).unwrap()).unwrap(),
            trust
        );
    }
}
