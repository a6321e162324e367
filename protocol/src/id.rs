//! The names of things.
//!
//! Takes randomness, or parts that are the same whenever the thing is, and gives typed ids: a prefix that tells the
//! kind, then 26 characters of a ULID or 52 of a digest, in lower-case Crockford base32. Never lets one kind pass for
//! another, and never makes one id from two lists of parts.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use thiserror::Error;
use ulid::Ulid;

use crate::digest::Sha256;
use crate::text::{excerpt, serde_as_text};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// What every id of this kind begins with.
            pub const PREFIX: &str = $prefix;

            /// A fresh id: ids of later milliseconds sort after those of earlier ones.
            #[must_use]
            pub fn random(unix_ms: u64, random: u128) -> Self {
                Self(random_id(Self::PREFIX, unix_ms, random))
            }

            /// The id that follows from `parts`, always the same. Where one part ends and the next begins counts.
            #[must_use]
            pub fn derived(parts: &[&[u8]]) -> Self {
                Self(derived_id(Self::PREFIX, parts))
            }

            /// Accepts an id of this kind only.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                checked_id(Self::PREFIX, text).map(Self)
            }

            /// The text, prefix included.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }

        serde_as_text!($name);
    };
}

id!(
    /// One rollout.
    RolloutId, "rollout_"
);
id!(
    /// One pool of a tenant.
    PoolId, "pool_"
);
id!(
    /// One node of a fleet.
    NodeId, "node_"
);
id!(
    /// One registered release.
    ReleaseId, "rel_"
);
id!(
    /// One workflow that disrupts a node.
    WorkflowId, "wf_"
);
id!(
    /// One command to a node.
    CommandId, "cmd_"
);
id!(
    /// One event.
    EventId, "evt_"
);
id!(
    /// One webhook.
    WebhookId, "whk_"
);
id!(
    /// One API token; its secret is not part of it.
    TokenId, "tok_"
);
id!(
    /// One gateway.
    GatewayId, "gw_"
);
id!(
    /// One join token; its secret is not part of it.
    JoinTokenId, "bcjt_"
);
id!(
    /// One session between a node and a gateway.
    SessionId, "sess_"
);
id!(
    /// One try to bring one node to one version.
    AttemptId, "att_"
);

/// Whose pools, nodes and rollouts these are. Given by whoever operates the platform, so it has no prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantId(String);

const TENANT_CHARS_MAX: usize = 128;

impl TenantId {
    /// Accepts 1 to 128 of `A-Z a-z 0-9 . _ : -`.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if text.is_empty() || text.len() > TENANT_CHARS_MAX || !text.bytes().all(allowed) {
            return Err(IdError::Tenant {
                found: text.to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        Self::parse(text)
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}

serde_as_text!(TenantId);

/// Why a text is not the id that was expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// Another kind of id, or none.
    #[error(
        "expected an id like {prefix}… with 26 to 52 lower-case Crockford base32 digits, found \"{}\"",
        excerpt(found)
    )]
    Prefixed {
        /// How the expected kind begins.
        prefix: &'static str,
        /// The text given.
        found: String,
    },
    /// No tenant is named like that.
    #[error(
        "expected a tenant of 1 to {TENANT_CHARS_MAX} letters, digits, '.', '_', ':' or '-', found \"{}\"",
        excerpt(found)
    )]
    Tenant {
        /// The text given.
        found: String,
    },
}

const CROCKFORD: &str = "0123456789abcdefghjkmnpqrstvwxyz";

fn random_id(prefix: &str, unix_ms: u64, random: u128) -> String {
    let mut id = format!("{prefix}{}", Ulid::from_parts(unix_ms, random));
    id.make_ascii_lowercase();
    id
}

fn derived_id(prefix: &str, parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::hasher();
    // The kind is the first part, so that ids of two kinds from the same parts have nothing in common.
    for part in [prefix.as_bytes()].iter().chain(parts) {
        // Each length goes first: otherwise ("a", "bc") and ("ab", "c") would be one id.
        hasher.update(&(part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    format!("{prefix}{}", crockford().encode(hasher.finish().as_bytes()))
}

#[expect(
    clippy::expect_used,
    reason = "32 distinct symbols always make an encoding, and a test makes this one"
)]
fn crockford() -> &'static Encoding {
    static ENCODING: LazyLock<Encoding> = LazyLock::new(|| {
        let mut specification = Specification::new();
        specification.symbols.push_str(CROCKFORD);
        specification.encoding().expect("32 symbols")
    });
    &ENCODING
}

fn checked_id(prefix: &'static str, text: &str) -> Result<String, IdError> {
    const DIGITS: std::ops::RangeInclusive<usize> = 26..=52;
    text.strip_prefix(prefix)
        .filter(|body| DIGITS.contains(&body.len()) && body.bytes().all(is_crockford))
        .map(|_| text.to_owned())
        .ok_or_else(|| IdError::Prefixed {
            prefix,
            found: text.to_owned(),
        })
}

/// Whether it is one of [`CROCKFORD`]'s. Ids are read by the hundred thousand, and to look through the alphabet for each digit
/// was most of what that cost.
const fn is_crockford(digit: u8) -> bool {
    matches!(
        digit,
        b'0'..=b'9' | b'a'..=b'h' | b'j' | b'k' | b'm' | b'n' | b'p'..=b't' | b'v'..=b'z'
    )
}

#[cfg(test)]
mod tests {
    use super::{AttemptId, CROCKFORD, NodeId, RolloutId, TenantId, is_crockford};
    use proptest::prelude::*;

    #[test]
    fn a_random_id_is_a_lower_case_ulid() {
        let id = NodeId::random(1_469_918_176_385, 0);
        assert_eq!(id.as_str(), "node_01aryz6s410000000000000000");
        assert!(NodeId::random(1, u128::MAX) < NodeId::random(2, 0));
    }

    #[test]
    fn a_derived_id_has_52_digits_and_never_changes() {
        let id = RolloutId::derived(&[b"root", b"alice", b"bcd-1.4.0"]);
        assert_eq!(
            id.as_str(),
            "rollout_9fmvqz155tjq09mnypgq77gtvfqjqhrxc2tgmb0wjjh4jnv983w0"
        );
        assert_eq!(RolloutId::parse(id.as_str()).unwrap(), id);
    }

    #[test]
    fn where_a_part_ends_counts() {
        let ids = [
            RolloutId::derived(&[b"a", b"bc"]),
            RolloutId::derived(&[b"ab", b"c"]),
            RolloutId::derived(&[b"abc"]),
            RolloutId::derived(&[b"abc", b""]),
            RolloutId::derived(&[b"", b"abc"]),
            RolloutId::derived(&[]),
        ];
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn two_kinds_from_the_same_parts_have_nothing_in_common() {
        let (rollout, attempt) = (RolloutId::derived(&[b"x"]), AttemptId::derived(&[b"x"]));
        assert_ne!(
            rollout.as_str().strip_prefix("rollout_"),
            attempt.as_str().strip_prefix("att_")
        );
    }

    #[test]
    fn other_texts_are_no_ids() {
        let digits = "0123456789abcdefghjkmnpqrs";
        assert!(format!("rollout_{digits}").parse::<RolloutId>().is_ok());
        for text in [
            String::new(),
            "rollout_".to_owned(),
            digits.to_owned(),
            format!("node_{digits}"),
            format!("Rollout_{digits}"),
            format!("rollout_{}", &digits[1..]),
            format!("rollout_{}", "0".repeat(53)),
            format!("rollout_{}", digits.to_uppercase()),
            format!("rollout_{}i", &digits[1..]),
            format!("rollout_{}l", &digits[1..]),
            format!("rollout_{}o", &digits[1..]),
            format!("rollout_{}u", &digits[1..]),
            format!("rollout_{}é", &digits[1..]),
            format!("rollout_{digits}\n"),
            format!(" rollout_{digits}"),
        ] {
            assert!(text.parse::<RolloutId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_digit_is_whatever_stands_in_the_alphabet() {
        for byte in 0..=u8::MAX {
            let is_digit = CROCKFORD.as_bytes().contains(&byte);
            assert_eq!(is_crockford(byte), is_digit, "{byte}");
        }
    }

    #[test]
    fn tenants_are_plain_words() {
        for text in ["root", "A", "a.b_c:d-e", "0", &"t".repeat(128)] {
            assert_eq!(text.parse::<TenantId>().unwrap().as_str(), text);
        }
        for text in ["", "a b", "a/b", "é", "a\n", &"t".repeat(129)] {
            assert!(text.parse::<TenantId>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_id_survives_its_text(unix_ms in 0_u64..1 << 48, random: u128, parts: Vec<Vec<u8>>) {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            for id in [NodeId::random(unix_ms, random), NodeId::derived(&parts)] {
                prop_assert_eq!(NodeId::parse(id.as_str()).unwrap(), id.clone());
                let json = serde_json::to_string(&id).unwrap();
                prop_assert_eq!(serde_json::from_str::<NodeId>(&json).unwrap(), id);
            }
        }
    }
}
