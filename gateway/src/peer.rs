//! Who is at the other end of a connection.
//!
//! Takes a certificate that TLS has verified already, gives the node's id. It is the only place that an identity comes
//! from: no message is asked for one.

use bc_protocol::id::{IdError, NodeId};
use rustls_pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer, X509Certificate},
};

/// How the address begins that names a node in its certificate.
const NODE_URN: &str = "urn:bettercompute:node:";

/// Why a verified certificate is no node's.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum PeerError {
    /// TLS let nobody in without one, so this is a fault of ours.
    #[error("expected a client certificate, found none")]
    NoCertificate,
    /// Verified, yet not readable.
    #[error("expected a readable certificate, found: {0}")]
    Unreadable(String),
    /// A certificate of control's, but of something else.
    #[error("expected one name {NODE_URN}…, found {found}")]
    NotANode {
        /// How many such names there were.
        found: usize,
    },
    /// The name is no node's id.
    #[error("expected a node's id in the certificate")]
    Id(#[source] IdError),
}

/// The node that a certificate was issued to.
pub(crate) fn node_of(chain: Option<&[CertificateDer<'_>]>) -> Result<NodeId, PeerError> {
    let leaf = chain
        .and_then(<[_]>::first)
        .ok_or(PeerError::NoCertificate)?;
    let unreadable = |error: &dyn std::fmt::Display| PeerError::Unreadable(error.to_string());
    let (_, certificate) = X509Certificate::from_der(leaf).map_err(|error| unreadable(&error))?;
    let names = certificate
        .subject_alternative_name()
        .map_err(|error| unreadable(&error))?;
    let mut ids = names
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| {
            if let GeneralName::URI(uri) = name {
                uri.strip_prefix(NODE_URN)
            } else {
                None
            }
        });
    match (ids.next(), ids.count()) {
        (Some(id), 0) => id.parse().map_err(PeerError::Id),
        (Some(_), more) => Err(PeerError::NotANode { found: more + 1 }),
        (None, _) => Err(PeerError::NotANode { found: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(uris: &[&str]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        params.subject_alt_names.extend(
            uris.iter()
                .map(|uri| SanType::URI((*uri).try_into().unwrap())),
        );
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        made.der().clone()
    }

    #[test]
    fn a_node_is_who_its_certificate_says() {
        let id = NodeId::derived(&[b"a"]);
        let uri = format!("urn:bettercompute:node:{id}");
        assert_eq!(node_of(Some(&[certificate(&[&uri])])), Ok(id));
    }

    #[test]
    fn anything_else_is_no_node() {
        let [a, b] =
            [b"a", b"b"].map(|part| format!("urn:bettercompute:node:{}", NodeId::derived(&[part])));
        assert_eq!(node_of(None), Err(PeerError::NoCertificate));
        assert_eq!(node_of(Some(&[])), Err(PeerError::NoCertificate));
        for (uris, expected) in [
            (vec![], PeerError::NotANode { found: 0 }),
            (
                vec!["urn:bettercompute:gateway:gw_0"],
                PeerError::NotANode { found: 0 },
            ),
            (
                vec![a.as_str(), b.as_str()],
                PeerError::NotANode { found: 2 },
            ),
        ] {
            assert_eq!(
                node_of(Some(&[certificate(&uris)])),
                Err(expected),
                "{uris:?}"
            );
        }
        let error = node_of(Some(&[certificate(&["urn:bettercompute:node:node_x"])]));
        assert!(matches!(error, Err(PeerError::Id(_))), "{error:?}");
        let error = node_of(Some(&[CertificateDer::from(vec![0_u8; 3])]));
        assert!(matches!(error, Err(PeerError::Unreadable(_))), "{error:?}");
    }
}
