//! How a simulated node comes to its certificate.

use std::sync::Arc;

use anyhow::{Context, Result};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde::Deserialize;

/// What a node is after it has joined.
pub(super) struct Joined {
    pub(super) id: String,
    pub(super) gateways: Vec<String>,
    pub(super) tls: Arc<ClientConfig>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    node_id: String,
    certificate: String,
    authorities: String,
    gateways: Vec<String>,
}

/// Joins with a token's bearer form.
pub(super) async fn join(control: &str, token: &str) -> Result<Joined> {
    let key = rcgen::KeyPair::generate()?;
    let csr = rcgen::CertificateParams::default()
        .serialize_request(&key)?
        .pem()?;
    let request =
        serde_json::json!({ "csr": csr, "labels": { "cpu.arch": std::env::consts::ARCH } });
    let answer: Answer = client()?
        .post(format!("{control}/api/compute/nodes/join"))
        .bearer_auth(token)
        .json(&request)
        .send()
        .await?
        .error_for_status()
        .context("join")?
        .json()
        .await?;
    Ok(Joined {
        tls: Arc::new(tls(&answer.certificate, &answer.authorities, &key)?),
        id: answer.node_id,
        gateways: answer.gateways,
    })
}

/// For plain HTTP to this machine: nobody is trusted.
pub(crate) fn client() -> Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .build()?)
}

fn tls(certificate: &str, authorities: &str, key: &rcgen::KeyPair) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority?)?;
    }
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|error| anyhow::anyhow!("the node's own key: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    Ok(config)
}
