//! Whom a certificate was issued to.
//!
//! Control names nodes and gateways in the certificates that it signs, in one address of one form; whoever is at the
//! other end of a connection is who that address says. Takes a certificate that TLS has verified already, and verifies
//! nothing itself. No message is ever asked for an identity. How long a certificate is good is read here too.

pub mod company;
mod fields;

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::id::{GatewayId, IdError, NodeId};
use fields::Fields;

/// What certificates are issued to.
pub trait Holder: FromStr<Err = IdError> + Display {
    /// How the address begins that names one of them.
    const URN: &str;

    /// The address that names this one.
    fn urn(&self) -> String {
        format!("{}{self}", Self::URN)
    }
}

impl Holder for NodeId {
    const URN: &str = "urn:bettercompute:node:";
}

impl Holder for GatewayId {
    const URN: &str = "urn:bettercompute:gateway:";
}

/// Why a verified certificate names nobody of the kind that was expected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HolderError {
    /// Verified, yet not readable.
    #[error("expected a readable certificate, found: {0}")]
    Unreadable(String),
    /// A certificate of the same authority, but of something else.
    #[error("{found} names that begin with {expected}, where exactly one is expected")]
    Names {
        /// How the name begins.
        expected: &'static str,
        /// How many such names there are.
        found: usize,
    },
    /// The name ends in no id.
    #[error("expected an id in the certificate")]
    Id(#[source] IdError),
}

/// The node, or the gateway, that a certificate in DER was issued to.
pub fn holder<H: Holder>(der: &[u8]) -> Result<H, HolderError> {
    let fields = Fields::of(der).map_err(HolderError::Unreadable)?;
    let mut ids = fields
        .uris
        .iter()
        .filter_map(|uri| uri.strip_prefix(H::URN));
    // Two names would be two identities: whoever checks one of them might act for the other.
    match (ids.next(), ids.count()) {
        (Some(id), 0) => id.parse().map_err(HolderError::Id),
        (first, more) => Err(HolderError::Names {
            expected: H::URN,
            found: usize::from(first.is_some()) + more,
        }),
    }
}

/// The public key of a certificate in DER, as SPKI DER.
pub fn public_key(der: &[u8]) -> Result<&[u8], HolderError> {
    let fields = Fields::of(der).map_err(HolderError::Unreadable)?;
    Ok(fields.spki)
}

/// From when to when a certificate is good, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub starts: i64,
    /// The last one.
    pub ends: i64,
}

impl Validity {
    /// Of a certificate in DER.
    pub fn of(der: &[u8]) -> Result<Self, HolderError> {
        let fields = Fields::of(der).map_err(HolderError::Unreadable)?;
        Ok(Self {
            starts: fields.starts,
            ends: fields.ends,
        })
    }

    /// When it is to be renewed: after two thirds of its life.
    pub fn renew_at(self) -> i64 {
        let life = self.ends.saturating_sub(self.starts).max(0);
        self.ends.saturating_sub(life / 3)
    }

    /// Whether it is over.
    pub fn has_ended(self, now: i64) -> bool {
        self.ends < now
    }

    /// Between a request for its renewal that nobody answered and the next: a short life leaves little time.
    pub fn ask_again(self) -> Duration {
        const LEAST: u64 = 1;
        const MOST: u64 = 15 * 60;
        let life = u64::try_from(self.ends.saturating_sub(self.starts)).unwrap_or(0);
        Duration::from_secs((life / 20).clamp(LEAST, MOST))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        params.subject_alt_names.extend(
            uris.iter()
                .map(|uri| SanType::URI((*uri).try_into().unwrap())),
        );
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        made.der().to_vec()
    }

    #[test]
    fn a_holder_is_who_the_certificate_says() {
        let (node, gateway) = (NodeId::derived(&[]), GatewayId::derived(&[]));
        assert_eq!(node.urn(), format!("urn:bettercompute:node:{node}"));
        let both = certificate(&[&node.urn(), &gateway.urn(), "urn:other:x"]);
        assert_eq!(holder(&both), Ok(node));
        assert_eq!(holder(&both), Ok(gateway));
    }

    #[test]
    fn a_certificate_is_renewed_after_two_thirds_of_its_life() {
        let month = Validity {
            starts: 1000,
            ends: 1000 + 30 * 86_400,
        };
        assert_eq!(month.renew_at(), 1000 + 20 * 86_400);
        assert_eq!(month.ask_again(), Duration::from_secs(900));
        assert!(!month.has_ended(month.ends) && month.has_ended(month.ends + 1));
        let short = Validity { starts: 0, ends: 6 };
        assert_eq!((short.renew_at(), short.ask_again().as_secs()), (4, 1));
        let backwards = Validity { starts: 9, ends: 3 };
        assert_eq!(backwards.renew_at(), 3);
        let made = certificate(&[]);
        let read = Validity::of(&made).unwrap();
        assert!(read.starts < read.ends);
        Validity::of(b"x").unwrap_err();
    }

    #[test]
    fn anything_else_is_nobody() {
        let [a, b] = [b"a", b"b"].map(|part| NodeId::derived(&[part]).urn());
        let names = |found| HolderError::Names {
            expected: NodeId::URN,
            found,
        };
        for (uris, found) in [
            (vec![], 0),
            (vec!["urn:bettercompute:gateway:gw_0"], 0),
            (vec!["URN:bettercompute:node:x"], 0),
            (vec![a.as_str(), b.as_str()], 2),
            (vec![a.as_str(), a.as_str()], 2),
        ] {
            let error = holder::<NodeId>(&certificate(&uris)).unwrap_err();
            assert_eq!(error, names(found), "{uris:?}");
        }
        for tail in ["", "node_x", "gw_00000000000000000000000000"] {
            let error = holder::<NodeId>(&certificate(&[&format!("{}{tail}", NodeId::URN)]));
            assert!(matches!(error, Err(HolderError::Id(_))), "{error:?}");
        }
        for bytes in [&b""[..], b"\x30\x03", &[0x30; 300]] {
            let error = holder::<NodeId>(bytes);
            assert!(
                matches!(error, Err(HolderError::Unreadable(_))),
                "{error:?}"
            );
        }
    }
}
