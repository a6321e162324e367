//! An authority of one's own: for a gateway without control, and for brokers of others.
//!
//! It vouches for nodes that nobody has joined, so it is good for loopback alone.

use std::{fs, net::IpAddr, path::Path};

use anyhow::{Context, Result};
use bc_protocol::id::{GatewayId, NodeId};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use serde::{Deserialize, Serialize};

use crate::fleet::replace;

/// A certificate and its key, PEM.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// Its key, PKCS#8.
    pub key: String,
}

/// Signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    own: Pair,
}

impl Authority {
    /// A new one.
    pub fn new() -> Result<Self> {
        let params = describing_itself();
        let key = KeyPair::generate()?;
        let own = Pair {
            certificate: params.self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        };
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, own })
    }

    /// The same again, in another process.
    pub fn from_pair(own: Pair) -> Result<Self> {
        let params = describing_itself();
        let key = KeyPair::from_pem(&own.key)?;
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, own })
    }

    /// Its certificate and key.
    pub fn own(&self) -> &Pair {
        &self.own
    }

    /// A certificate of a server on loopback, or of whoever else serves both ways.
    pub fn server(&self, name: &str) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ];
        let loopback = SanType::IpAddress(IpAddr::from([127, 0, 0, 1]));
        params.subject_alt_names = vec![loopback, uri(name)?];
        let key = KeyPair::generate()?;
        Ok(Pair {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// A node's certificate over a key, DER.
    pub fn node(&self, id: &NodeId, key: &KeyPair) -> Result<Vec<u8>> {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.subject_alt_names = vec![uri(&format!("urn:bettercompute:node:{id}"))?];
        Ok(params.signed_by(key, &self.issuer)?.der().to_vec())
    }

    /// The state folder of a gateway that has enrolled, so that it needs nobody to enrol with.
    pub fn enrol(&self, state: &Path, link: &str) -> Result<()> {
        let id = GatewayId::derived(&[b"load"]);
        let pair = self.server(&format!("urn:bettercompute:gateway:{id}"))?;
        fs::create_dir_all(state).with_context(|| format!("make {}", state.display()))?;
        let enrolment = serde_json::json!({ "gatewayId": id, "linkUrl": link });
        replace(&state.join("gateway.key"), &pair.key)?;
        replace(&state.join("gateway.pem"), &pair.certificate)?;
        replace(&state.join("authorities.pem"), &self.own.certificate)?;
        replace(&state.join("enrolment.json"), &enrolment.to_string())
    }
}

/// The id of a minted node.
pub fn node_id(number: usize) -> NodeId {
    NodeId::derived(&[b"load", &number.to_be_bytes()])
}

/// What the authority says of itself. Its name is nobody else's: a certificate whose subject and issuer have one name looks
/// as if it had signed itself.
fn describing_itself() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .distinguished_name
        .push(DnType::CommonName, "load authority");
    params
}

fn uri(name: &str) -> Result<SanType> {
    Ok(SanType::URI(name.try_into()?))
}
