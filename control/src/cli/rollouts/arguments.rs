//! What people write behind `rollouts create`, `pause` and `abort`.
//!
//! Takes texts, gives what the API takes. Whatever can be seen to be wrong is refused here, before any call.

use std::{collections::BTreeMap, str::FromStr};

use bc_protocol::share::{Percent, ShareError};

use crate::cli::limits::{KEY_CHARS_MAX, REASON_CHARS_MAX};

/// Cumulative percentages, as in `1,10,50,100`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waves(pub Vec<Percent>);

/// Why a text is no list of waves.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WavesError {
    #[error("expected percentages like 1,10,50,100")]
    Percent(#[from] ShareError),
    #[error("expected 1 to 10 waves, found {found}")]
    Count { found: usize },
    #[error("expected every wave above the one before, found {later} after {earlier}")]
    NotRising { earlier: Percent, later: Percent },
    #[error("expected the last wave to be 100, found {found}")]
    Last { found: Percent },
}

impl FromStr for Waves {
    type Err = WavesError;

    fn from_str(text: &str) -> Result<Self, WavesError> {
        let waves: Vec<Percent> = text
            .split(',')
            .map(|wave| wave.trim().parse())
            .collect::<Result<_, _>>()?;
        if waves.len() > 10 {
            return Err(WavesError::Count { found: waves.len() });
        }
        for (&earlier, &later) in waves.iter().zip(waves.iter().skip(1)) {
            if later <= earlier {
                return Err(WavesError::NotRising { earlier, later });
            }
        }
        match waves.last() {
            Some(&last) if last == Percent::HUNDRED => Ok(Self(waves)),
            Some(&found) => Err(WavesError::Last { found }),
            None => Err(WavesError::Count { found: 0 }),
        }
    }
}

impl Waves {
    /// Whether the first wave is the whole fleet: then nothing is tried out first.
    pub(super) fn starts_everything(&self) -> bool {
        self.0.first() == Some(&Percent::HUNDRED)
    }
}

/// A label that nodes must have, as in `tier=edge`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    key: String,
    value: String,
}

/// Why a text selects nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LabelError {
    #[error("expected a label like tier=edge")]
    Form,
}

impl FromStr for Label {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            Some(_) | None => Err(LabelError::Form),
        }
    }
}

/// All labels together. One key with two values would select nothing, which nobody means.
pub(super) fn selector(labels: Vec<Label>) -> Result<Option<BTreeMap<String, String>>, String> {
    let mut selector = BTreeMap::new();
    for Label { key, value } in labels {
        if let Some(other) = selector.get(&key).filter(|other| **other != value) {
            return Err(format!(
                "--selector: expected one value for {key}, found {other} and {value}"
            ));
        }
        selector.insert(key, value);
    }
    Ok(Some(selector).filter(|selector| !selector.is_empty()))
}

/// Why a text is no key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected 1 to {KEY_CHARS_MAX} letters, digits and . _ ~ : / + = -")]
pub(in crate::cli) struct KeyError;

/// An idempotency key.
pub(in crate::cli) fn key(text: &str) -> Result<String, KeyError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:/+=-".contains(&byte);
    let fits = (1..=KEY_CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed);
    fits.then(|| text.to_owned()).ok_or(KeyError)
}

/// Why a text is no reason.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected at most {REASON_CHARS_MAX} characters, found {found}")]
pub(in crate::cli) struct ReasonError {
    found: usize,
}

/// Why somebody pauses or aborts.
pub(in crate::cli) fn reason(text: &str) -> Result<String, ReasonError> {
    let found = text.chars().count();
    if found > REASON_CHARS_MAX {
        return Err(ReasonError { found });
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_rise_to_a_hundred() {
        for text in ["100", "1,10,50,100", "0.5, 100", "1,2,3,4,5,6,7,8,9,100"] {
            assert!(text.parse::<Waves>().is_ok(), "{text}");
        }
        for (text, message) in [
            ("", "expected percentages like 1,10,50,100"),
            ("1,,100", "expected percentages like 1,10,50,100"),
            ("0,100", "expected percentages like 1,10,50,100"),
            ("1,101", "expected percentages like 1,10,50,100"),
            (
                "10,10,100",
                "expected every wave above the one before, found 10 after 10",
            ),
            (
                "50,10,100",
                "expected every wave above the one before, found 10 after 50",
            ),
            ("1,50", "expected the last wave to be 100, found 50"),
            (
                "1,2,3,4,5,6,7,8,9,10,100",
                "expected 1 to 10 waves, found 11",
            ),
        ] {
            assert_eq!(text.parse::<Waves>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_first_wave_of_everything_is_noticed() {
        for (text, everything) in [("100", true), ("99.9999,100", false)] {
            let waves: Waves = text.parse().unwrap();
            assert_eq!(waves.starts_everything(), everything, "{text}");
        }
    }

    #[test]
    fn labels_are_keys_and_values() {
        let labels = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(selector(Vec::new()), Ok(None));
        assert_eq!(
            selector(labels(&["a=b", "c=d=e", "f=", "a=b"])),
            Ok(Some(BTreeMap::from(
                [("a", "b"), ("c", "d=e"), ("f", "")].map(|(k, v)| (k.to_owned(), v.to_owned()))
            )))
        );
        assert!(selector(labels(&["a=b", "a=c"])).is_err());
        for text in ["", "a", "=b"] {
            assert_eq!(text.parse::<Label>(), Err(LabelError::Form), "{text}");
        }
    }

    #[test]
    fn keys_are_short_and_plain() {
        assert!(key("bcd-1.4.0").is_ok());
        assert!(key(&"k".repeat(128)).is_ok());
        for text in ["", "a b", "é", &"k".repeat(129)] {
            assert_eq!(key(text), Err(KeyError), "{text}");
        }
    }

    #[test]
    fn reasons_count_characters_not_bytes() {
        assert!(reason(&"é".repeat(500)).is_ok());
        assert_eq!(reason(&"é".repeat(501)), Err(ReasonError { found: 501 }));
    }
}
