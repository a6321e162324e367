//! The version of a release, as people name it.
//!
//! Takes text, gives a [`Version`] without a leading `v`. Says nothing about which version is newer: that is the
//! sequence's to say.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::text::{excerpt, serde_as_text};

/// `MAJOR.MINOR.PATCH` with an optional `-…` or `+…` tail; safe as one component of a path.
///
/// Its order is that of its text, for ordered maps only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(String);

/// Long enough for any tail that people read, short enough for a file name.
const VERSION_CHARS_MAX: usize = 128;

impl Version {
    /// The text, without a leading `v`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VersionError {
    /// The form is another.
    #[error(
        "expected a version like 1.4.0, 1.4.0-rc.1 or 1.4.0+build, found \"{}\"",
        excerpt(found)
    )]
    Form {
        /// The text given.
        found: String,
    },
    /// Too long to be a file name everywhere.
    #[error("expected a version of at most {VERSION_CHARS_MAX} characters, found {found}")]
    Length {
        /// How many characters were given.
        found: usize,
    },
}

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let bare = text.strip_prefix('v').unwrap_or(text);
        if bare.len() > VERSION_CHARS_MAX {
            return Err(VersionError::Length {
                found: bare.chars().count(),
            });
        }
        if !has_version_form(bare) {
            return Err(VersionError::Form {
                found: text.to_owned(),
            });
        }
        Ok(Self(bare.to_owned()))
    }
}

fn has_version_form(bare: &str) -> bool {
    let (core, tail) = match bare.find(['-', '+']) {
        Some(at) => bare.split_at(at),
        None => (bare, ""),
    };
    let mut numbers = 0;
    let digits_only = core.split('.').all(|part| {
        numbers += 1;
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
    });
    digits_only && numbers == 3 && is_tail(tail)
}

fn is_tail(tail: &str) -> bool {
    let Some(rest) = tail.strip_prefix(['-', '+']) else {
        return tail.is_empty();
    };
    !rest.is_empty()
        && rest
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-')
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

serde_as_text!(Version);

#[cfg(test)]
mod tests {
    use super::Version;
    use proptest::prelude::*;

    #[test]
    fn versions_lose_their_leading_v_and_nothing_else() {
        for (text, stored) in [
            ("1.4.0", "1.4.0"),
            ("v1.4.0", "1.4.0"),
            ("0.0.0", "0.0.0"),
            ("01.002.3", "01.002.3"),
            ("1.4.0-rc.1", "1.4.0-rc.1"),
            ("1.4.0+build-7", "1.4.0+build-7"),
            ("1.4.0-..", "1.4.0-.."),
        ] {
            assert_eq!(text.parse::<Version>().unwrap().as_str(), stored);
        }
    }

    #[test]
    fn other_texts_are_no_versions() {
        for text in [
            "",
            "v",
            "1",
            "1.4",
            "1.4.0.1",
            "1..0",
            "vv1.4.0",
            "V1.4.0",
            "1.4.0-",
            "1.4.0+",
            "1.4.0-a+b",
            "1.4.0 ",
            " 1.4.0",
            "1.4.0\n",
            "1.4.0-a/b",
            "../1.4.0",
            "1.4.0-\0",
            "1.4.x",
            "-1.4.0",
            "١.4.0",
            "1.4.0-é",
        ] {
            assert!(text.parse::<Version>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_longest_version_has_128_characters() {
        let longest = format!("1.4.0-{}", "a".repeat(122));
        assert!(longest.parse::<Version>().is_ok());
        assert!(format!("v{longest}").parse::<Version>().is_ok());
        assert!(format!("{longest}a").parse::<Version>().is_err());
    }

    proptest! {
        #[test]
        fn a_version_is_one_component_of_a_path(text in "v?[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}([-+][0-9A-Za-z.-]{1,9})?") {
            let version: Version = text.parse().unwrap();
            let components: Vec<_> = std::path::Path::new(version.as_str()).components().collect();
            prop_assert!(matches!(components.as_slice(), [std::path::Component::Normal(_)]));
            prop_assert_eq!(version.to_string().parse::<Version>().unwrap(), version);
        }
    }
}
