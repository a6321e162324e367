//! Whom to believe: TLS 1.3 with ring, and the system's certificates or none but the operator's own.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore, version::TLS13};
use rustls_pki_types::{CertificateDer, pem::PemObject};
use rustls_platform_verifier::BuilderVerifierExt;
use url::Url;

use super::ClientError;

/// Whom to believe that a server is control.
#[derive(Clone, Debug)]
pub(in crate::cli) enum Roots {
    /// The system's list.
    System,
    /// These alone, in PEM.
    Only(Vec<u8>),
}

/// The TLS side of a client for `base`.
pub(in crate::cli) fn tls(base: &Url, roots: &Roots) -> Result<ClientConfig, ClientError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(ClientError::Tls)?;
    let config = match roots {
        Roots::Only(pem) => builder.with_root_certificates(certificates(pem)?),
        Roots::System if base.scheme() == "https" => {
            builder.with_platform_verifier().map_err(ClientError::Tls)?
        }
        // Nothing is encrypted: the system's list, which is long, need not be read.
        Roots::System => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(config.with_no_client_auth())
}

fn certificates(pem: &[u8]) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(ClientError::Certificates)?;
        roots.add(certificate).map_err(ClientError::Tls)?;
    }
    if roots.is_empty() {
        return Err(ClientError::NoCertificates);
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_refused() {
        let roots = Roots::Only(b"no certificate".to_vec());
        let refused = tls(&"https://control.example".parse().unwrap(), &roots);
        assert!(matches!(refused, Err(ClientError::NoCertificates)));
    }
}
