//! The certificate that the gateway shows, which changes while it runs.
//!
//! Takes the identity of the state folder and what control sends to renew it; gives TLS for what comes next. What goes
//! on already, sessions and link, is not touched. A new certificate is on the disk before it is used.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bc_protocol::{
    certificate::{HolderError, Validity, holder},
    id::GatewayId,
    session::Certificate,
};
use rustls::{ClientConfig, ServerConfig};
use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;
use url::Url;

use crate::{
    clock,
    identity::{Enrolled, Folder, Identity, IdentityError},
    tls::{self, TlsError},
};

/// What the gateway shows.
#[derive(Debug)]
pub(crate) struct Credentials {
    gateway: GatewayId,
    link: Url,
    folder: Folder,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    validity: Validity,
}

/// Why a certificate is not used.
#[derive(Debug, Error)]
pub(crate) enum CredentialsError {
    /// It is none, or somebody else's.
    #[error("expected a certificate of this gateway")]
    Holder(#[from] HolderError),
    /// It is another gateway's.
    #[error("expected a certificate of {expected}, found one of {found}")]
    Another {
        /// This gateway.
        expected: GatewayId,
        /// Whose it is.
        found: GatewayId,
    },
    /// There is none at all.
    #[error("expected a certificate, found none")]
    Empty,
    /// It does not fit the key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The state folder does not take it.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

impl Credentials {
    /// What an enrolled gateway begins with.
    pub(crate) fn new(folder: Folder, identity: &Identity) -> Result<Self, CredentialsError> {
        require_own(
            &identity.gateway,
            identity.chain.first().map(|leaf| &**leaf),
        )?;
        Ok(Self {
            gateway: identity.gateway.clone(),
            link: identity.link.clone(),
            folder,
            current: Mutex::new(Current::of(identity)?),
        })
    }

    /// Whose they are.
    pub(crate) fn gateway(&self) -> &GatewayId {
        &self.gateway
    }

    /// Where control takes links.
    pub(crate) fn link(&self) -> &Url {
        &self.link
    }

    /// For the next node.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().server)
    }

    /// For the next link.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current().client)
    }

    /// How long the certificate is good before it has to be renewed.
    pub(crate) fn renewal_in(&self) -> Duration {
        let due = self.current().validity.renew_at().saturating_mul(1000);
        let due = u64::try_from(due).unwrap_or(0);
        Duration::from_millis(due.saturating_sub(clock::unix_ms()))
    }

    /// Between a request that nobody answered and the next.
    pub(crate) fn ask_again(&self) -> Duration {
        self.current().validity.ask_again()
    }

    /// A certificate request with the gateway's key, DER.
    pub(crate) fn request(&self) -> Result<Vec<u8>, IdentityError> {
        self.folder.request_der()
    }

    /// When the certificate ends, in seconds since 1970.
    pub(crate) fn ends_at(&self) -> i64 {
        self.current().validity.ends
    }

    /// Uses what lies in the state folder now, if it is this gateway's.
    pub(crate) fn reload(&self) -> Result<(), CredentialsError> {
        let identity = self.folder.load()?.ok_or(CredentialsError::Empty)?;
        require_own(&self.gateway, identity.chain.first().map(|leaf| &**leaf))?;
        let current = Current::of(&identity)?;
        *self.current() = current;
        Ok(())
    }

    /// Keeps a renewed certificate, and uses it from here on.
    pub(crate) fn renew(&self, renewed: &Certificate) -> Result<(), CredentialsError> {
        require_own(&self.gateway, renewed.chain.first().map(Vec::as_slice))?;
        let identity = Identity {
            gateway: self.gateway.clone(),
            link: self.link.clone(),
            chain: certificates(&renewed.chain),
            key: self.folder.key()?,
            authorities: certificates(&renewed.authorities),
        };
        // Nothing that could not be used gets as far as the disk.
        let current = Current::of(&identity)?;
        self.folder.save(&Enrolled {
            gateway: identity.gateway,
            link: identity.link,
            certificate: pem_of(&renewed.chain),
            authorities: pem_of(&renewed.authorities),
        })?;
        *self.current() = current;
        Ok(())
    }

    /// Keeps what enrolling again gave, and uses it from here on.
    pub(crate) fn enrolled(&self, enrolled: &Enrolled) -> Result<(), CredentialsError> {
        if enrolled.gateway != self.gateway {
            return Err(CredentialsError::Another {
                expected: self.gateway.clone(),
                found: enrolled.gateway.clone(),
            });
        }
        self.folder.save(enrolled)?;
        self.reload()
    }

    /// Where key and certificate lie.
    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        // No code panics in between.
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn require_own(gateway: &GatewayId, leaf: Option<&[u8]>) -> Result<(), CredentialsError> {
    let found: GatewayId = holder(leaf.ok_or(CredentialsError::Empty)?)?;
    if found == *gateway {
        return Ok(());
    }
    let expected = gateway.clone();
    Err(CredentialsError::Another { expected, found })
}

impl Current {
    fn of(identity: &Identity) -> Result<Self, CredentialsError> {
        let now = Duration::from_millis(clock::unix_ms());
        tls::require_vouched(identity, UnixTime::since_unix_epoch(now))?;
        Ok(Self {
            server: tls::server(identity)?,
            client: tls::client(identity)?,
            validity: identity.validity()?,
        })
    }
}

fn certificates(ders: &[Vec<u8>]) -> Vec<CertificateDer<'static>> {
    ders.iter().cloned().map(CertificateDer::from).collect()
}

fn pem_of(ders: &[Vec<u8>]) -> String {
    ders.iter()
        .map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.clone())))
        .collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};
    use rustls_pki_types::PrivateKeyDer;

    use super::*;

    fn certificate(of: &GatewayId, key: &KeyPair) -> Certificate {
        let mut params = CertificateParams::default();
        let urn = bc_protocol::certificate::Holder::urn(of);
        params.subject_alt_names = vec![SanType::URI(urn.as_str().try_into().unwrap())];
        let der = params.self_signed(key).unwrap().der().to_vec();
        Certificate {
            chain: vec![der.clone()],
            authorities: vec![der],
            gateways: Vec::new(),
        }
    }

    #[test]
    fn only_its_own_certificate_is_kept_and_used() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        folder.request().unwrap();
        let PrivateKeyDer::Pkcs8(key) = folder.key().unwrap() else {
            panic!("expected a key in PKCS 8");
        };
        let key = KeyPair::try_from(&key).unwrap();
        let [own, other] = [b"own", b"oth"].map(|name| GatewayId::derived(&[name]));
        let first = certificate(&own, &key);
        folder
            .save(&Enrolled {
                gateway: own.clone(),
                link: "wss://127.0.0.1:1/link".parse().unwrap(),
                certificate: pem_of(&first.chain),
                authorities: pem_of(&first.authorities),
            })
            .unwrap();
        let credentials =
            Credentials::new(folder.clone(), &folder.load().unwrap().unwrap()).unwrap();
        let before = credentials.server();
        let foreign_key = KeyPair::generate().unwrap();
        for wrong in [certificate(&other, &key), certificate(&own, &foreign_key)] {
            credentials.renew(&wrong).unwrap_err();
            assert!(Arc::ptr_eq(&before, &credentials.server()));
        }
        let renewed = certificate(&own, &key);
        credentials.renew(&renewed).unwrap();
        assert!(!Arc::ptr_eq(&before, &credentials.server()));
        let kept = folder.load().unwrap().unwrap();
        assert_eq!(kept.chain, certificates(&renewed.chain));
    }
}
