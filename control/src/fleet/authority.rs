//! Control's own certificate authority.
//!
//! Takes keys that proved themselves and the names that control gave their holders, gives certificates. It is made
//! once, when control starts for the first time; its key never leaves the data folder.

mod request;

use std::{
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::{
    certificate::{Holder, company},
    digest::Sha256,
    id::{GatewayId, NodeId},
};
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SanType, SerialNumber,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject as _};
use thiserror::Error;

pub(crate) use request::{CertifiedKey, RequestError};

use crate::{chance, clock::Moment, files};

/// How long the authority itself lasts.
const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// Certificates begin a little in the past, so that a clock that is somewhat behind does not refuse a fresh one; one
/// that does not live long by an eighth of its life, so that it is not due for renewal when it is made.
const BACKDATED_MAX: Duration = Duration::from_secs(5 * 60);

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long certificates are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    /// Those of nodes.
    pub node: Duration,
    /// Those of gateways and of the link's own server.
    pub server: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            node: 30 * DAY,
            server: 90 * DAY,
        }
    }
}

/// The authority of one control.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    root: CertificateDer<'static>,
    lifetimes: Lifetimes,
}

/// A certificate with its key, for a server of this process.
pub(crate) struct ServerIdentity {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// Its key.
    pub key: PrivateKeyDer<'static>,
}

/// The certificate's file in the data folder.
const PEM: &str = "authority.pem";

/// The key's.
const KEY: &str = "authority.key";

impl Authority {
    /// Whether a data folder holds the certificate of one.
    pub(crate) fn is_in(data_dir: &Path) -> bool {
        data_dir.join(PEM).exists()
    }

    /// Reads the authority of a data folder, or makes it there. Its certificates live for `lifetimes`.
    pub(crate) fn open(
        data_dir: &Path,
        lifetimes: Lifetimes,
        now: Moment,
    ) -> Result<Self, AuthorityError> {
        let (pem_path, key_path) = (data_dir.join(PEM), data_dir.join(KEY));
        let found = (read(&pem_path)?, read(&key_path)?);
        let (pem, key) = match found {
            (Some(pem), Some(key)) => (pem, key_pair(&key, &key_path)?),
            // The key is written first: where only it is there, the start before this one was cut short.
            (None, key) => {
                let key = match key {
                    Some(key) => key_pair(&key, &key_path)?,
                    None => KeyPair::generate()?,
                };
                write(&key_path, &key.serialize_pem())?;
                let pem = self_signed(&key, now)?;
                write(&pem_path, &pem)?;
                (pem, key)
            }
            (Some(_), None) => return Err(AuthorityError::KeyMissing { path: key_path }),
        };
        let root = CertificateDer::from_pem_slice(pem.as_bytes())
            .map_err(|_| AuthorityError::Unreadable { path: pem_path })?;
        Ok(Self {
            issuer: Issuer::from_ca_cert_der(&root, key)?,
            pem,
            root,
            lifetimes,
        })
    }

    /// What others are to trust, PEM.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// What others are to trust.
    pub(crate) fn root(&self) -> &CertificateDer<'static> {
        &self.root
    }

    /// The digest of what nodes are told beside their certificates.
    pub(crate) fn company(&self, gateways: &[String]) -> Sha256 {
        company::digest([&self.root[..]], gateways.iter().map(String::as_str))
    }

    /// A node's client certificate, PEM. It vouches for the authority and the gateways that come beside it, whoever
    /// carries them.
    pub(crate) fn issue_node(
        &self,
        key: &CertifiedKey,
        node: &NodeId,
        gateways: &[String],
        now: Moment,
    ) -> Result<String, AuthorityError> {
        let company = self.company(gateways);
        let mut params = leaf(node.as_str(), now, self.lifetimes.node)?;
        params.custom_extensions = vec![CustomExtension::from_oid_content(
            company::OBJECT,
            company::value(&company),
        )];
        params.subject_alt_names = vec![urn(node)?];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, key.public())
    }

    /// A gateway's certificate for both roles, PEM: nodes find it at `host`, control takes its links.
    pub(crate) fn issue_gateway(
        &self,
        key: &CertifiedKey,
        gateway: &GatewayId,
        host: &str,
        now: Moment,
    ) -> Result<String, AuthorityError> {
        let mut params = leaf(gateway.as_str(), now, self.lifetimes.server)?;
        params.subject_alt_names = vec![host_name(host)?, urn(gateway)?];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.sign(params, key.public())
    }

    /// A certificate and a fresh key for the server of this process that takes links at `host`.
    pub(crate) fn issue_link_server(
        &self,
        host: &str,
        now: Moment,
    ) -> Result<ServerIdentity, AuthorityError> {
        let key = KeyPair::generate()?;
        let mut params = leaf("better-compute control", now, self.lifetimes.server)?;
        params.subject_alt_names = vec![host_name(host)?];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(ServerIdentity {
            certificate: certificate.into(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    fn sign(
        &self,
        params: CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<String, AuthorityError> {
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// Why the authority cannot be used, or cannot sign.
#[derive(Debug, Error)]
pub(crate) enum AuthorityError {
    /// A file of it cannot be read or written.
    #[error("cannot read or write {}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A new key would orphan every node.
    #[error(
        "expected the authority's key in {}, found none beside its certificate: restore it",
        path.display()
    )]
    KeyMissing {
        /// Where it should be.
        path: PathBuf,
    },
    /// The key is none.
    #[error(
        "expected the authority's key in {}, found something else: take it from the backup",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rcgen::Error,
    },
    /// The certificate is none.
    #[error(
        "expected the authority's certificate in {}, found something else: take it from the backup",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
    },
    /// A key or a certificate is not well formed.
    #[error("the authority's key or certificate cannot be used")]
    Certificate(#[from] rcgen::Error),
    /// The clock is outside of the years that certificates can hold.
    #[error("expected a clock after 1970, found {}", now.millis())]
    Clock {
        /// What it showed.
        now: Moment,
    },
}

/// Reads the key that a file holds, and warns of a file that others can read: who has it makes nodes and gateways.
fn key_pair(pem: &str, path: &Path) -> Result<KeyPair, AuthorityError> {
    if let Some(mode) = files::open_to_others(path) {
        let mode = format!("{mode:03o}");
        tracing::warn!(path = %path.display(), mode, "others can read the authority's key: chmod 600");
    }
    KeyPair::from_pem(pem).map_err(|source| AuthorityError::NoKey {
        path: path.to_owned(),
        source,
    })
}

fn read(path: &Path) -> Result<Option<String>, AuthorityError> {
    files::read_if_present(path).map_err(|source| AuthorityError::Io {
        path: path.to_owned(),
        source,
    })
}

fn write(path: &Path, content: &str) -> Result<(), AuthorityError> {
    files::replace_private(path, content.as_bytes()).map_err(|source| AuthorityError::Io {
        path: path.to_owned(),
        source,
    })
}

fn self_signed(key: &KeyPair, now: Moment) -> Result<String, AuthorityError> {
    // The name is random, so that the authorities of two controls are never taken for one another.
    let name = format!("better-compute authority {:032x}", chance::bits());
    let mut params = dated(&name, now, AUTHORITY_LIFE)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params.self_signed(key)?.pem())
}

fn leaf(name: &str, now: Moment, life: Duration) -> Result<CertificateParams, AuthorityError> {
    let mut params = dated(name, now, life)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn dated(name: &str, now: Moment, life: Duration) -> Result<CertificateParams, AuthorityError> {
    let since_epoch = Duration::from_millis(
        u64::try_from(now.millis()).map_err(|_| AuthorityError::Clock { now })?,
    );
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.not_before = epoch + since_epoch.saturating_sub(BACKDATED_MAX.min(life / 8));
    params.not_after = epoch + since_epoch + life;
    params.distinguished_name.push(DnType::CommonName, name);
    // Positive, and so long that no two are alike.
    let serial = (chance::bits() >> 1).to_be_bytes();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

fn urn(holder: &impl Holder) -> Result<SanType, AuthorityError> {
    Ok(SanType::URI(holder.urn().as_str().try_into()?))
}

fn host_name(host: &str) -> Result<SanType, AuthorityError> {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    Ok(match address.parse::<IpAddr>() {
        Ok(ip) => SanType::IpAddress(ip),
        Err(_) => SanType::DnsName(host.try_into()?),
    })
}

#[cfg(test)]
mod tests;
