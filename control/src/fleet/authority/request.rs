//! Certificate requests from outside.
//!
//! Takes a request, gives the key in it, once the request proved that its sender holds that key. Whatever else the
//! request asks for (names, uses, being an authority) is not even kept.

use bc_protocol::{digest::Pin, limits::REQUEST_BYTES_MAX, release::PublicKey};
use rcgen::{CertificateSigningRequestParams, PublicKeyData, SubjectPublicKeyInfo};
use rustls_pki_types::CertificateSigningRequestDer;
use thiserror::Error;

/// A P-256 key whose holder has proven to hold it.
#[derive(Clone, Debug)]
pub(crate) struct CertifiedKey {
    public: SubjectPublicKeyInfo,
    spki: Vec<u8>,
}

impl CertifiedKey {
    /// Takes the key from a request in PEM, whose own signature is checked.
    pub(crate) fn from_request(pem: &str) -> Result<Self, RequestError> {
        if pem.len() > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLarge { found: pem.len() });
        }
        Self::proven(&CertificateSigningRequestParams::from_pem(pem).map_err(RequestError::Form)?)
    }

    /// The same of a request in DER.
    pub(crate) fn from_request_der(der: &[u8]) -> Result<Self, RequestError> {
        if der.len() > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLarge { found: der.len() });
        }
        let der = CertificateSigningRequestDer::from(der);
        Self::proven(&CertificateSigningRequestParams::from_der(&der).map_err(RequestError::Form)?)
    }

    /// A key that has proven itself before, as it was written down then.
    pub(crate) fn recorded(spki: &[u8]) -> Result<Self, RequestError> {
        Self::of(spki.to_vec())
    }

    fn proven(request: &CertificateSigningRequestParams) -> Result<Self, RequestError> {
        Self::of(request.public_key.subject_public_key_info())
    }

    fn of(spki: Vec<u8>) -> Result<Self, RequestError> {
        // The signature's algorithm does not name the curve; the one form of a P-256 key that is 91 bytes long does.
        PublicKey::from_spki(&spki).map_err(|_| RequestError::Key)?;
        Ok(Self {
            public: SubjectPublicKeyInfo::from_der(&spki).map_err(RequestError::Form)?,
            spki,
        })
    }

    /// The key, SPKI DER.
    pub(crate) fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// What logs name the key by.
    pub(crate) fn pin(&self) -> Pin {
        Pin::of_spki(&self.spki)
    }

    pub(super) fn public(&self) -> &SubjectPublicKeyInfo {
        &self.public
    }
}

/// Why a request gets no certificate.
#[derive(Debug, Error)]
pub(crate) enum RequestError {
    /// Nothing so large is a request.
    #[error("expected a certificate request of at most {REQUEST_BYTES_MAX} bytes, found {found}")]
    TooLarge {
        /// Its size.
        found: usize,
    },
    /// Not a request, or not signed by its own key.
    #[error("expected a certificate request that its own key has signed, found none: {0}")]
    Form(rcgen::Error),
    /// Another kind of key.
    #[error("expected a request for a P-256 key, found another kind of key")]
    Key,
}
