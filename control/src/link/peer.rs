//! Which gateway is at the other end of a link.
//!
//! Takes a certificate that TLS has verified already, gives the gateway's id. No message is asked for it.

use bc_protocol::id::{GatewayId, IdError};
use rustls_pki_types::CertificateDer;
use thiserror::Error;
use x509_parser::{
    extensions::GeneralName,
    prelude::{FromDer as _, X509Certificate},
};

/// How the address begins that names a gateway in its certificate.
const GATEWAY_URN: &str = "urn:bettercompute:gateway:";

/// Why a verified certificate is no gateway's.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum PeerError {
    /// TLS let nobody in without one, so this is a fault of ours.
    #[error("expected a client certificate, found none")]
    NoCertificate,
    /// Verified, yet not readable.
    #[error("expected a readable certificate, found: {0}")]
    Unreadable(String),
    /// A certificate of control's, but of something else.
    #[error("expected one name {GATEWAY_URN}…, found {found}")]
    NotAGateway {
        /// How many such names there were.
        found: usize,
    },
    /// The name is no gateway's id.
    #[error("expected a gateway's id in the certificate")]
    Id(#[source] IdError),
}

/// The gateway that a certificate was issued to.
pub(super) fn gateway_of(chain: Option<&[CertificateDer<'_>]>) -> Result<GatewayId, PeerError> {
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
                uri.strip_prefix(GATEWAY_URN)
            } else {
                None
            }
        });
    match (ids.next(), ids.count()) {
        (Some(id), 0) => id.parse().map_err(PeerError::Id),
        (Some(_), more) => Err(PeerError::NotAGateway { found: more + 1 }),
        (None, _) => Err(PeerError::NotAGateway { found: 0 }),
    }
}
