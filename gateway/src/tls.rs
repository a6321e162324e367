//! TLS on both of the gateway's sides: 1.3 only, and both ends prove who they are.

mod greeting;
mod secured;

use std::sync::Arc;

use rustls::{
    CertificateError, CipherSuite, ClientConfig, Error, RootCertStore, ServerConfig,
    client::{Resumption, verify_server_cert_signed_by_trust_anchor},
    crypto::{CryptoProvider, ring},
    server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;

use crate::identity::Identity;

pub(crate) use greeting::{Greeting, Patience};
pub(crate) use secured::Secured;

/// Why an identity cannot be used for TLS.
#[derive(Debug, Error)]
pub(crate) enum TlsError {
    /// A certificate that no reader accepts, or a key that does not fit.
    #[error("expected a certificate and its key")]
    Certificate(#[from] rustls::Error),
    /// No authority to verify clients with.
    #[error("expected authorities to verify clients with")]
    Authorities(#[from] VerifierBuilderError),
    /// Nodes and control would refuse it: they believe the authorities alone.
    #[error("expected a certificate that an authority of the state folder signed, found another's")]
    Foreign,
    /// Its time is over or has not come.
    #[error("expected a certificate that is good now by this machine's clock, found one that {0}")]
    Untimely(&'static str),
    /// It is good for something else.
    #[error("expected a certificate with which a gateway serves nodes and is control's client")]
    Unfit(#[source] rustls::Error),
}

/// Whether whoever believes the authorities believes the gateway too, nodes as well as control. Otherwise everybody would be
/// met by a gateway that nobody can speak with.
pub(crate) fn require_vouched(identity: &Identity, now: UnixTime) -> Result<(), TlsError> {
    let (own, between) = identity
        .chain
        .split_first()
        .ok_or(TlsError::Certificate(Error::NoCertificatesPresented))?;
    let roots = Arc::new(roots(&identity.authorities)?);
    let algorithms = provider().signature_verification_algorithms;
    let leaf = ParsedCertificate::try_from(own)?;
    verify_server_cert_signed_by_trust_anchor(&leaf, &roots, between, now, algorithms.all)
        .map_err(unvouched)?;
    let client = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
    client
        .verify_client_cert(own, between, now)
        .map_err(unvouched)?;
    Ok(())
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a library's errors, of which more may come"
)]
fn unvouched(error: Error) -> TlsError {
    match &error {
        Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        ) => TlsError::Foreign,
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => TlsError::Untimely("has ended"),
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => TlsError::Untimely("has not begun"),
        _ => TlsError::Unfit(error),
    }
}

/// For nodes: only who shows a certificate of one of the authorities comes in.
pub(crate) fn server(identity: &Identity) -> Result<Arc<ServerConfig>, TlsError> {
    let roots = Arc::new(roots(&identity.authorities)?);
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider()).build()?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(quick()))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    // A ticket would let a node in without showing its certificate again, and costs memory for each.
    config.send_tls13_tickets = 0;
    config.ignore_client_order = true;
    Ok(Arc::new(config))
}

/// For the link to control.
pub(crate) fn client(identity: &Identity) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(&identity.authorities)?)
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())?;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The one implementation of cryptography in this process.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The same, with AES-128 and SHA-256 first: processors have instructions for both, and for SHA-384 hardly any. A
/// handshake hashes so much that this is a tenth of it, on either side.
fn quick() -> CryptoProvider {
    let mut provider = ring::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

fn roots(authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_suite_is_first_and_none_is_lost() {
        let (quick, usual) = (
            quick().cipher_suites,
            ring::default_provider().cipher_suites,
        );
        assert_eq!(quick[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(quick.len(), usual.len());
    }
}
