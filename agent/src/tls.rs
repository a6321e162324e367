//! How this node speaks TLS: 1.3 and nothing older, always verified.
//!
//! Takes an identity or a folder of roots, gives client configurations. Never accepts a certificate that it cannot
//! trace to a root, and never judges one by a clock that is known to be wrong.

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    client::danger::ServerCertVerifier,
    crypto::{CryptoProvider, ring},
    server::WebPkiClientVerifier,
    time_provider::TimeProvider,
    version::TLS13,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls_platform_verifier::Verifier;
use thiserror::Error;
use url::Host;

use crate::{clock, durable, identity::Identity, node::limits::STATE_FILE_BYTES_MAX};

/// Why there is no TLS.
#[derive(Debug, Error)]
pub(crate) enum TlsError {
    /// The certificates and the key do not make a configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
    /// The file with extra roots is not there, or not what it should be.
    #[error("{}: expected certificates in PEM, found {found}", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Setup(error)
    }
}

/// For sessions: the fleet's own authority and nobody else, and this node's certificate.
pub(crate) fn session(identity: &Identity) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in identity.authorities() {
        roots.add(authority.clone())?;
    }
    let config =
        ClientConfig::builder_with_details(provider(), clock_not_before(identity.starts()))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_client_auth_cert(identity.chain().to_vec(), identity.key().clone_key())?;
    Ok(Arc::new(config))
}

/// For joining and for downloads: the machine's roots, and those of a file if the owner names one. It reads files.
pub(crate) fn web(
    ca_file: Option<&Path>,
    earliest: Option<UnixTime>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let extra = ca_file.map(roots_of).transpose()?.unwrap_or_default();
    let verifier: Arc<dyn ServerCertVerifier> =
        Arc::new(Verifier::new_with_extra_roots(extra, provider())?);
    let config =
        ClientConfig::builder_with_details(provider(), clock_not_before(earliest.unwrap_or(EPOCH)))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Whether a gateway that trusts `authorities` would take this node's certificate at that time, in seconds since 1970.
pub(crate) fn vouched(
    chain: &[CertificateDer<'static>],
    authorities: &[CertificateDer<'static>],
    now: i64,
) -> Result<(), TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let setup = |error: &dyn ToString| TlsError::Setup(rustls::Error::General(error.to_string()));
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| setup(&error))?;
    let (own, between) = chain
        .split_first()
        .ok_or_else(|| setup(&"expected a certificate, found none"))?;
    let now = Duration::from_secs(u64::try_from(now).unwrap_or(0));
    verifier.verify_client_cert(own, between, UnixTime::since_unix_epoch(now))?;
    Ok(())
}

/// What a host's certificate has to be for.
pub(crate) fn name_of(host: &Host<String>) -> io::Result<ServerName<'static>> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone()).map_err(io::Error::other),
        Host::Ipv4(address) => Ok(ServerName::from(IpAddr::V4(*address))),
        Host::Ipv6(address) => Ok(ServerName::from(IpAddr::V6(*address))),
    }
}

const EPOCH: UnixTime = UnixTime::since_unix_epoch(Duration::ZERO);

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn roots_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |found: String| TlsError::Roots {
        path: path.to_owned(),
        found,
    };
    let bytes = durable::read_bounded(path, STATE_FILE_BYTES_MAX)
        .map_err(|error| wrong(error.to_string()))?;
    let roots = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(error.to_string()))?;
    if roots.is_empty() {
        return Err(wrong("none".to_owned()));
    }
    Ok(roots)
}

fn clock_not_before(earliest: UnixTime) -> Arc<dyn TimeProvider> {
    Arc::new(NotBefore(earliest))
}

/// The system's clock, or a moment that has certainly passed, whichever is later. A machine without a battery wakes
/// up in 1970; it must reach its gateway all the same.
#[derive(Debug)]
struct NotBefore(UnixTime);

impl TimeProvider for NotBefore {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(clock::wall().unix()).unwrap_or(0);
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)).max(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_the_later_of_clock_and_certificate() {
        let far = UnixTime::since_unix_epoch(Duration::from_secs(1 << 40));
        assert_eq!(NotBefore(far).current_time(), Some(far));
        assert!(NotBefore(EPOCH).current_time().unwrap() > EPOCH);
    }

    #[test]
    fn a_file_without_certificates_gives_no_roots() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        for bytes in [
            b"".as_slice(),
            b"hello",
            b"-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n",
        ] {
            durable::replace_file(&path, bytes, durable::Mode::Readable).unwrap();
            assert!(matches!(
                web(Some(&path), None),
                Err(TlsError::Roots { .. })
            ));
        }
        assert!(web(Some(&folder.path().join("none")), None).is_err());
    }
}
