//! Certificate requests and their answers, checked for size alone: what is in them is for those to judge who sign and
//! who store.

use super::{Certificate, FrameError};
use crate::{
    limits::{CERTIFICATES_MAX, REQUEST_BYTES_MAX, URL_BYTES_MAX},
    wire::node as wire,
};

/// Gateways that one answer may name.
const GATEWAYS_MAX: usize = 256;

/// A request of a plausible size.
pub(crate) fn check_request(der: &[u8]) -> Result<Vec<u8>, FrameError> {
    if (1..=REQUEST_BYTES_MAX).contains(&der.len()) {
        return Ok(der.to_vec());
    }
    let found = format!("{} bytes", der.len());
    Err(FrameError::field("csr_der", "1 to 8192 bytes", found))
}

impl TryFrom<wire::Certificate> for Certificate {
    type Error = FrameError;

    fn try_from(certificate: wire::Certificate) -> Result<Self, FrameError> {
        for (field, found) in [
            ("chain_der", certificate.chain_der.len()),
            ("ca_der", certificate.ca_der.len()),
        ] {
            if !(1..=CERTIFICATES_MAX).contains(&found) {
                return Err(FrameError::field(field, "1 to 8 certificates", found));
            }
        }
        let longest = certificate.gateways.iter().map(String::len).max();
        if certificate.gateways.len() > GATEWAYS_MAX || longest > Some(URL_BYTES_MAX) {
            let found = certificate.gateways.len();
            return Err(FrameError::field(
                "gateways",
                "at most 256 addresses",
                found,
            ));
        }
        let owned = |list: Vec<bytes::Bytes>| list.iter().map(|der| der.to_vec()).collect();
        Ok(Self {
            chain: owned(certificate.chain_der),
            authorities: owned(certificate.ca_der),
            gateways: certificate.gateways,
        })
    }
}

impl From<Certificate> for wire::Certificate {
    fn from(certificate: Certificate) -> Self {
        Self {
            chain_der: certificate.chain.into_iter().map(Into::into).collect(),
            ca_der: certificate
                .authorities
                .into_iter()
                .map(Into::into)
                .collect(),
            gateways: certificate.gateways,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_bounded_size() {
        assert!(check_request(&[]).is_err());
        assert!(check_request(&[0; REQUEST_BYTES_MAX + 1]).is_err());
        assert_eq!(check_request(&[7; REQUEST_BYTES_MAX]).unwrap().len(), 8192);
    }

    #[test]
    fn an_answer_without_certificates_is_none() {
        let whole = Certificate {
            chain: vec![vec![1]],
            authorities: vec![vec![2], vec![3]],
            gateways: vec!["wss://g.example/session".to_owned()],
        };
        let wire = wire::Certificate::from(whole.clone());
        assert_eq!(Certificate::try_from(wire.clone()), Ok(whole));
        for spoilt in [
            wire::Certificate {
                chain_der: Vec::new(),
                ..wire.clone()
            },
            wire::Certificate {
                ca_der: vec![bytes::Bytes::new(); CERTIFICATES_MAX + 1],
                ..wire.clone()
            },
            wire::Certificate {
                gateways: vec!["x".repeat(URL_BYTES_MAX + 1)],
                ..wire.clone()
            },
        ] {
            assert!(Certificate::try_from(spoilt).is_err());
        }
    }
}
