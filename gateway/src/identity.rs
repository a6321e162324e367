//! The gateway's key and certificate, as they lie in its state folder.
//!
//! The key is written before it is used and never leaves the folder; the certificate's address book is written last, so
//! that its presence means that the enrolment is complete. This is all that a gateway keeps.

use std::{
    fs::{File, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use bc_protocol::{
    certificate::{HolderError, Validity},
    id::GatewayId,
};
use rcgen::{CertificateParams, CertificateSigningRequest, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

const KEY: &str = "gateway.key";
const CERTIFICATE: &str = "gateway.pem";
const AUTHORITIES: &str = "authorities.pem";
const ENROLMENT: &str = "enrolment.json";

/// Only the gateway's user.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o644;
const FOLDER: u32 = 0o700;

/// A gateway that has enrolled.
#[derive(Debug)]
pub(crate) struct Identity {
    /// Its id.
    pub(crate) gateway: GatewayId,
    /// Where control takes links.
    pub(crate) link: Url,
    /// The certificate, then what signed it.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// The certificate's key.
    pub(crate) key: PrivateKeyDer<'static>,
    /// Who signs nodes, gateways and control.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
}

impl Identity {
    /// From when to when its certificate is good.
    pub(crate) fn validity(&self) -> Result<Validity, HolderError> {
        Validity::of(self.chain.first().map_or(&[], |own| own))
    }
}

/// What control answered to the enrolment, as it is kept.
#[derive(Debug)]
pub(crate) struct Enrolled {
    /// The gateway's id.
    pub(crate) gateway: GatewayId,
    /// Where control takes links.
    pub(crate) link: Url,
    /// PEM.
    pub(crate) certificate: String,
    /// PEM.
    pub(crate) authorities: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Enrolment {
    gateway_id: GatewayId,
    link_url: Url,
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub(crate) enum IdentityError {
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong with it.
        found: String,
    },
    /// No key can be made.
    #[error("cannot make a key")]
    Key(#[source] rcgen::Error),
}

/// The folder with the gateway's identity.
#[derive(Clone, Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder if it is not there.
    pub(crate) fn open(path: &Path) -> Result<Self, IdentityError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(FOLDER)
            .create(path)
            .map_err(|source| file(path, source))?;
        Ok(Self(path.to_owned()))
    }

    /// The folder as it is there, or is not: to be looked at and not written to.
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Whether an enrolment could use the key that is there, if one is.
    pub(crate) fn check_key(&self) -> Result<(), IdentityError> {
        if let Some(pem) = self.read(KEY)? {
            self.key_pair(&pem)?;
        }
        Ok(())
    }

    /// The identity, if the gateway has enrolled.
    pub(crate) fn load(&self) -> Result<Option<Identity>, IdentityError> {
        let Some(enrolment) = self.read(ENROLMENT)? else {
            return Ok(None);
        };
        let enrolment: Enrolment = serde_json::from_str(&enrolment)
            .map_err(|error| self.content(ENROLMENT, "an enrolment", &error))?;
        let key = self.key()?;
        Ok(Some(Identity {
            gateway: enrolment.gateway_id,
            link: enrolment.link_url,
            chain: self.certificates(CERTIFICATE)?,
            key,
            authorities: self.certificates(AUTHORITIES)?,
        }))
    }

    /// The gateway's key.
    pub(crate) fn key(&self) -> Result<PrivateKeyDer<'static>, IdentityError> {
        PrivateKeyDer::from_pem_slice(self.read_required(KEY)?.as_bytes())
            .map_err(|error| self.content(KEY, "a private key", &error))
    }

    /// A certificate request with the gateway's key in PEM; the key is made and kept first if there is none: after a lost answer
    /// control knows the gateway by it.
    pub(crate) fn request(&self) -> Result<String, IdentityError> {
        self.signed_request()?.pem().map_err(IdentityError::Key)
    }

    /// The same in DER.
    pub(crate) fn request_der(&self) -> Result<Vec<u8>, IdentityError> {
        Ok(self.signed_request()?.der().to_vec())
    }

    fn signed_request(&self) -> Result<CertificateSigningRequest, IdentityError> {
        let key = match self.read(KEY)? {
            Some(pem) => self.key_pair(&pem)?,
            None => {
                let key =
                    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IdentityError::Key)?;
                self.write(KEY, SECRET, &key.serialize_pem())?;
                key
            }
        };
        CertificateParams::default()
            .serialize_request(&key)
            .map_err(IdentityError::Key)
    }

    fn key_pair(&self, pem: &str) -> Result<KeyPair, IdentityError> {
        KeyPair::from_pem(pem).map_err(|error| self.content(KEY, "a private key", &error))
    }

    /// Keeps what control answered.
    pub(crate) fn save(&self, enrolled: &Enrolled) -> Result<(), IdentityError> {
        let enrolment = Enrolment {
            gateway_id: enrolled.gateway.clone(),
            link_url: enrolled.link.clone(),
        };
        let enrolment = serde_json::to_string(&enrolment)
            .map_err(|error| self.content(ENROLMENT, "an enrolment", &error))?;
        self.write(CERTIFICATE, PUBLIC, &enrolled.certificate)?;
        self.write(AUTHORITIES, PUBLIC, &enrolled.authorities)?;
        self.write(ENROLMENT, PUBLIC, &enrolment)
    }

    fn certificates(&self, name: &str) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
        let text = self.read_required(name)?;
        let certificates = CertificateDer::pem_slice_iter(text.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| self.content(name, "certificates", &error))?;
        if certificates.is_empty() {
            return Err(self.content(name, "certificates", &"none"));
        }
        Ok(certificates)
    }

    fn read_required(&self, name: &str) -> Result<String, IdentityError> {
        self.read(name)?
            .ok_or_else(|| file(&self.0.join(name), io::ErrorKind::NotFound.into()))
    }

    fn read(&self, name: &str) -> Result<Option<String>, IdentityError> {
        let path = self.0.join(name);
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(file(&path, source)),
        }
    }

    fn write(&self, name: &str, mode: u32, text: &str) -> Result<(), IdentityError> {
        let path = self.0.join(name);
        replace(&self.0, &path, mode, text).map_err(|source| file(&path, source))
    }

    fn content(
        &self,
        name: &str,
        expected: &'static str,
        found: &dyn std::fmt::Display,
    ) -> IdentityError {
        IdentityError::Content {
            path: self.0.join(name),
            expected,
            found: found.to_string(),
        }
    }
}

/// Replaces a file so that a power cut leaves the old text or the new one.
fn replace(folder: &Path, path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut staged = tempfile::NamedTempFile::new_in(folder)?;
    staged.write_all(text.as_bytes())?;
    staged
        .as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    staged.as_file().sync_all()?;
    staged.persist(path)?;
    // The new name is lost with the folder's page unless that is flushed too.
    File::open(folder)?.sync_all()
}

fn file(path: &Path, source: io::Error) -> IdentityError {
    IdentityError::File {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept_to_oneself() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(&dir.path().join("state")).unwrap();
        folder.request().unwrap();
        let key = folder.read(KEY).unwrap().unwrap();
        folder.request().unwrap();
        assert_eq!(folder.read(KEY).unwrap().unwrap(), key);
        let mode = |name| {
            std::fs::metadata(folder.0.join(name))
                .unwrap()
                .permissions()
                .mode()
        };
        assert_eq!(mode(KEY) & 0o777, SECRET);
        assert_eq!(mode("") & 0o777, FOLDER);
        assert!(folder.load().unwrap().is_none());
    }

    #[test]
    fn what_was_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        folder.request().unwrap();
        let key = KeyPair::from_pem(&folder.read(KEY).unwrap().unwrap()).unwrap();
        let pem = CertificateParams::default()
            .self_signed(&key)
            .unwrap()
            .pem();
        let enrolled = Enrolled {
            gateway: GatewayId::derived(&[]),
            link: "wss://127.0.0.1:1/link".parse().unwrap(),
            certificate: pem.clone(),
            authorities: format!("{pem}{pem}"),
        };
        folder.save(&enrolled).unwrap();
        let identity = folder.load().unwrap().unwrap();
        assert_eq!(identity.gateway, enrolled.gateway);
        assert_eq!(identity.link, enrolled.link);
        assert_eq!((identity.chain.len(), identity.authorities.len()), (1, 2));
    }

    #[test]
    fn a_rotten_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        folder.write(ENROLMENT, PUBLIC, "{").unwrap();
        let error = folder.load().unwrap_err().to_string();
        assert!(error.contains(ENROLMENT), "{error}");
        folder.write(KEY, SECRET, "not a key").unwrap();
        let error = folder.request().unwrap_err().to_string();
        assert!(error.contains(KEY), "{error}");
    }
}
