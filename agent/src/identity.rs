//! Who this node is: its key, its certificate, whom it trusts, and where its gateways are.
//!
//! Takes and gives the files of `identity/`. `node.json` is written last, so a folder that has one is whole; a key
//! alone is a join that has not been answered yet. The key never leaves the folder.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::{
    certificate::{self, Validity},
    id::NodeId,
    session::Certificate,
};
use rcgen::{KeyPair, PublicKeyData};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use crate::{
    clock,
    durable::{self, Mode},
    node::limits::STATE_FILE_BYTES_MAX,
    tls,
};

const KEY: &str = "node.key";
const CERTIFICATE: &str = "node.pem";
const AUTHORITIES: &str = "ca.pem";
const NODE: &str = "node.json";

/// A node that has joined.
pub(crate) struct Identity {
    node: NodeFile,
    key: PrivateKeyDer<'static>,
    chain: Vec<CertificateDer<'static>>,
    authorities: Vec<CertificateDer<'static>>,
    validity: Validity,
}

/// What control answers to a join: everything but the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    /// The node's id; the certificate has it too.
    pub(crate) node_id: NodeId,
    /// The client certificate, PEM.
    pub(crate) certificate: String,
    /// Whom to trust, PEM.
    pub(crate) authorities: String,
    /// Where gateways can be reached.
    pub(crate) gateways: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeFile {
    node_id: NodeId,
    gateways: Vec<String>,
    /// Where the node joined: there it asks for a new certificate when its own has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control: Option<Url>,
}

/// Certificates that somebody offers.
pub(crate) struct Offered {
    /// The node's certificate first, then what signed it.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// Whom to trust.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
}

impl Offered {
    /// What a gateway carried.
    pub(crate) fn of(certificate: &Certificate) -> Self {
        let ders = |list: &[Vec<u8>]| list.iter().cloned().map(CertificateDer::from).collect();
        Self {
            chain: ders(&certificate.chain),
            authorities: ders(&certificate.authorities),
        }
    }

    /// Reads what control answered.
    pub(crate) fn read(folder: &Path, membership: &Membership) -> Result<Self, IdentityError> {
        Ok(Self {
            chain: certificates(folder, CERTIFICATE, membership.certificate.as_bytes())?,
            authorities: certificates(folder, AUTHORITIES, membership.authorities.as_bytes())?,
        })
    }
}

/// Why there is no identity.
#[derive(Debug, Error)]
pub(crate) enum IdentityError {
    /// The node has not joined.
    #[error("expected the identity of a node in {}, found none: `bcd join --token-file FILE` makes it", .0.display())]
    Absent(PathBuf),
    /// A file cannot be read or written.
    #[error("{} cannot be used", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// A file is there and is not what it should be.
    #[error("{}: expected {expected}, found {found}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What it holds.
        found: String,
    },
}

impl Identity {
    /// Reads the folder.
    pub(crate) fn load(folder: &Path) -> Result<Self, IdentityError> {
        let node = joined(folder)?.ok_or_else(|| IdentityError::Absent(folder.to_owned()))?;
        let pem = present(folder, KEY)?;
        let key = PrivateKeyDer::from_pem_slice(&pem)
            .map_err(|error| content(folder, KEY, "a private key in PEM", error))?;
        let chain = certificates(folder, CERTIFICATE, &present(folder, CERTIFICATE)?)?;
        let authorities = certificates(folder, AUTHORITIES, &present(folder, AUTHORITIES)?)?;
        let validity = chain
            .first()
            .and_then(|der| Validity::of(der).ok())
            .ok_or_else(|| content(folder, CERTIFICATE, "a certificate", "other bytes"))?;
        check_own(
            folder,
            &pair_of(folder, &pem)?,
            chain.first(),
            &node.node_id,
        )?;
        let identity = Self {
            node,
            key,
            chain,
            authorities,
            validity,
        };
        identity.check_signed(folder)?;
        Ok(identity)
    }

    /// Those whom the node trusts have signed the certificate: no gateway would take another one. Whether it has ended
    /// is another matter.
    fn check_signed(&self, folder: &Path) -> Result<(), IdentityError> {
        let within = self.now().min(self.validity.ends);
        let expected = "a certificate that the authorities beside it have signed";
        tls::vouched(&self.chain, &self.authorities, within)
            .map_err(|error| content(folder, CERTIFICATE, expected, error))
    }

    /// The node's id.
    pub(crate) fn node_id(&self) -> &NodeId {
        &self.node.node_id
    }

    /// Where gateways can be reached.
    pub(crate) fn gateways(&self) -> &[String] {
        &self.node.gateways
    }

    /// The private key.
    pub(crate) fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// The node's certificate first, then what signed it.
    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Whom to trust.
    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    /// When the certificate starts: a moment that has certainly passed.
    pub(crate) fn starts(&self) -> UnixTime {
        let starts = u64::try_from(self.validity.starts).unwrap_or(0);
        UnixTime::since_unix_epoch(Duration::from_secs(starts))
    }

    /// From when to when the certificate is good.
    pub(crate) fn validity(&self) -> Validity {
        self.validity
    }

    /// The time by which it is judged, in seconds since 1970: a clock that shows less than the certificate's start is
    /// wrong.
    pub(crate) fn now(&self) -> i64 {
        clock::wall().unix().max(self.validity.starts)
    }

    /// Where the node joined, if that is known.
    pub(crate) fn control(&self) -> Option<&Url> {
        self.node.control.as_ref()
    }
}

/// What is left of an identity that cannot be loaded: enough to ask control for the rest.
pub(crate) struct Remains {
    /// The node's key.
    pub(crate) key: KeyPair,
    /// Whose it is.
    pub(crate) node_id: NodeId,
    /// Where control answered when the node joined.
    pub(crate) control: Option<Url>,
}

/// What is left in the folder. None without the key, or where no file says any more whose it is.
pub(crate) fn remains(folder: &Path) -> Option<Remains> {
    bytes(folder, KEY).ok()??;
    let key = key_or_new(folder).ok()?;
    if let Some(node) = joined(folder).ok().flatten() {
        return Some(Remains {
            key,
            node_id: node.node_id,
            control: node.control,
        });
    }
    let pem = present(folder, CERTIFICATE).ok()?;
    let chain = certificates(folder, CERTIFICATE, &pem).ok()?;
    Some(Remains {
        key,
        node_id: certificate::holder(chain.first()?).ok()?,
        control: None,
    })
}

/// The id of the node that this folder belongs to, if it has joined.
pub(crate) fn node_id(folder: &Path) -> Result<Option<NodeId>, IdentityError> {
    Ok(joined(folder)?.map(|node| node.node_id))
}

/// The folder's key, made and written first where there is none: an answer that gets lost on its way must find the
/// same key when it is asked for again.
pub(crate) fn key_or_new(folder: &Path) -> Result<KeyPair, IdentityError> {
    if let Some(pem) = bytes(folder, KEY)? {
        return pair_of(folder, &pem);
    }
    let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|error| content(folder, KEY, "a new key", error))?;
    durable::create_folder(folder, 0o700).map_err(|cause| file(folder.to_owned(), cause))?;
    write(folder, KEY, key.serialize_pem().as_bytes(), Mode::Private)?;
    Ok(key)
}

fn pair_of(folder: &Path, pem: &[u8]) -> Result<KeyPair, IdentityError> {
    let wrong =
        |found: &dyn ToString| content(folder, KEY, "a P-256 key in PEM", found.to_string());
    let pem = str::from_utf8(pem).map_err(|error| wrong(&error))?;
    KeyPair::from_pem_and_sign_algo(pem, &rcgen::PKCS_ECDSA_P256_SHA256)
        .map_err(|error| wrong(&error))
}

/// Keeps what control answered, if it fits the key and itself.
pub(crate) fn save(
    folder: &Path,
    key: &KeyPair,
    membership: &Membership,
    control: Option<&Url>,
) -> Result<(), IdentityError> {
    let offered = Offered::read(folder, membership)?;
    check_own(folder, key, offered.chain.first(), &membership.node_id)?;
    if membership.gateways.is_empty() {
        return Err(content(folder, NODE, "a gateway's address", "none"));
    }
    let node = NodeFile {
        node_id: membership.node_id.clone(),
        gateways: membership.gateways.clone(),
        control: control.cloned(),
    };
    let node = serde_json::to_vec_pretty(&node)
        .map_err(|error| content(folder, NODE, "what JSON can hold", error))?;
    write(
        folder,
        AUTHORITIES,
        membership.authorities.as_bytes(),
        Mode::Readable,
    )?;
    write(
        folder,
        CERTIFICATE,
        membership.certificate.as_bytes(),
        Mode::Readable,
    )?;
    write(folder, NODE, &node, Mode::Readable)
}

/// Certificates in DER as the folder keeps them.
pub(crate) fn pem_of(ders: &[CertificateDer<'_>]) -> String {
    ders.iter()
        .map(|der| pem::encode(&pem::Pem::new("CERTIFICATE", der.to_vec())))
        .collect()
}

/// The certificate is for this key, and names the node: a mix-up on the way would otherwise show only when the first
/// gateway refuses.
fn check_own(
    folder: &Path,
    key: &KeyPair,
    own: Option<&CertificateDer<'_>>,
    node_id: &NodeId,
) -> Result<(), IdentityError> {
    let wrong =
        |expected, found: &dyn ToString| content(folder, CERTIFICATE, expected, found.to_string());
    let own = own.ok_or_else(|| wrong("a certificate", &"none"))?;
    let found = certificate::public_key(own).map_err(|error| wrong("a certificate", &error))?;
    if found != key.subject_public_key_info() {
        let expected = "a certificate for this node's key";
        return Err(wrong(expected, &"one for another key"));
    }
    let expected = "a certificate that names this node";
    let named: NodeId = certificate::holder(own).map_err(|error| wrong(expected, &error))?;
    if named != *node_id {
        return Err(wrong(expected, &named));
    }
    Ok(())
}

fn joined(folder: &Path) -> Result<Option<NodeFile>, IdentityError> {
    bytes(folder, NODE)?
        .map(|json| {
            serde_json::from_slice(&json)
                .map_err(|error| content(folder, NODE, "the node's id and gateways", error))
        })
        .transpose()
}

fn certificates(
    folder: &Path,
    name: &str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| content(folder, name, "certificates in PEM", error))?;
    if found.is_empty() {
        return Err(content(folder, name, "a certificate in PEM", "none"));
    }
    Ok(found)
}

fn present(folder: &Path, name: &str) -> Result<Vec<u8>, IdentityError> {
    bytes(folder, name)?.ok_or_else(|| content(folder, name, "a file", "none"))
}

fn bytes(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, IdentityError> {
    let path = folder.join(name);
    durable::read_unlinked(&path, STATE_FILE_BYTES_MAX).map_err(|cause| file(path, cause))
}

fn write(folder: &Path, name: &str, bytes: &[u8], mode: Mode) -> Result<(), IdentityError> {
    let path = folder.join(name);
    // What could not be read again must not take the place of what can.
    if bytes.len() as u64 > STATE_FILE_BYTES_MAX {
        let cause = io::ErrorKind::FileTooLarge.into();
        return Err(file(path, cause));
    }
    durable::replace_file(&path, bytes, mode).map_err(|cause| file(path, cause))
}

fn file(path: PathBuf, cause: io::Error) -> IdentityError {
    IdentityError::File { path, cause }
}

fn content(
    folder: &Path,
    name: &str,
    expected: &'static str,
    found: impl ToString,
) -> IdentityError {
    IdentityError::Content {
        path: folder.join(name),
        expected,
        found: found.to_string(),
    }
}
