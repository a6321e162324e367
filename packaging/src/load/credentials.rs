//! Who a simulated node is, and how it shows it.
//!
//! Minted nodes share one key, so that ten thousand of them are made in a second; nodes that join have a key each, as
//! real ones do. Minted ones also take a server's word for who it is: each stands for a machine with processors of its
//! own, what they spend is taken from the server that is looked at, and it is the same for every server.

use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::KeyPair;
use rustls::{
    ClientConfig, DigitallySignedStruct, PeerIncompatible, RootCertStore, SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::Deserialize;

use super::{
    authority::{Authority, Pair, node_id},
    plan::Source,
};

/// Makes nodes.
pub(super) enum Maker {
    /// Anybody.
    Minting {
        authority: Box<Authority>,
        key: Box<KeyPair>,
        signer: Arc<dyn rustls::sign::SigningKey>,
        base: Box<ClientConfig>,
    },
    /// Whoever joins.
    Joining {
        client: reqwest::Client,
        control: String,
        token: String,
    },
}

/// One node's way in.
pub(super) struct Credentials {
    pub(super) tls: Arc<ClientConfig>,
    /// What control named, `HOST:PORT` each; nothing where nobody was asked.
    pub(super) gateways: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Joined {
    certificate: String,
    authorities: String,
    gateways: Vec<String>,
}

impl Maker {
    pub(super) fn new(source: &Source) -> Result<Self> {
        match source {
            Source::Minted(pair) => Self::minting(pair),
            Source::Joined { control, token } => Ok(Self::Joining {
                client: client()?,
                control: control.trim_end_matches('/').to_owned(),
                token: token.trim().to_owned(),
            }),
        }
    }

    fn minting(pair: &Pair) -> Result<Self> {
        let key = KeyPair::generate()?;
        let signer = ring::sign::any_supported_type(&private(&key)?)?;
        Ok(Self::Minting {
            authority: Box::new(Authority::from_pair(pair.clone())?),
            key: Box::new(key),
            signer,
            base: Box::new(credulous()?),
        })
    }

    /// The node of that number.
    pub(super) async fn make(&self, number: usize) -> Result<Credentials> {
        match self {
            Self::Minting {
                authority,
                key,
                signer,
                base,
            } => {
                let chain = vec![authority.node(&node_id(number), key)?.into()];
                let shown = CertifiedKey::new(chain, Arc::clone(signer));
                let mut tls = ClientConfig::clone(base);
                tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
                Ok(Credentials {
                    tls: Arc::new(tls),
                    gateways: Vec::new(),
                })
            }
            Self::Joining {
                client,
                control,
                token,
            } => join(client, control, token).await,
        }
    }
}

async fn join(client: &reqwest::Client, control: &str, token: &str) -> Result<Credentials> {
    let key = KeyPair::generate()?;
    let csr = rcgen::CertificateParams::default()
        .serialize_request(&key)?
        .pem()?;
    let labels = serde_json::json!({ "cpu.arch": std::env::consts::ARCH });
    let joined: Joined = client
        .post(format!("{control}/api/compute/nodes/join"))
        .bearer_auth(token)
        .json(&serde_json::json!({ "csr": csr, "labels": labels }))
        .send()
        .await?
        .error_for_status()
        .context("join")?
        .json()
        .await?;
    let mut tls = anonymous(&joined.authorities)?;
    let chain = CertificateDer::pem_slice_iter(joined.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()?;
    let signer = ring::sign::any_supported_type(&private(&key)?)?;
    let shown = CertifiedKey::new(chain, signer);
    tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
    let gateways = joined.gateways.iter().map(|url| authority_of(url));
    Ok(Credentials {
        gateways: gateways.collect::<Result<_>>()?,
        tls: Arc::new(tls),
    })
}

/// `HOST:PORT` of a gateway's URL.
fn authority_of(url: &str) -> Result<String> {
    let rest = url
        .strip_prefix("wss://")
        .with_context(|| format!("expected a gateway's wss:// URL, found {url}"))?;
    let authority = rest.split('/').next().unwrap_or(rest);
    Ok(match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        Some(_) | None => format!("{authority}:443"),
    })
}

/// Trusts these authorities and shows nothing.
fn anonymous(authorities: &str) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        roots.add(authority?)?;
    }
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.resumption = Resumption::disabled();
    Ok(tls)
}

/// Believes whoever is there, and shows nothing.
fn credulous() -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut tls = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Credulous(provider)))
        .with_no_client_auth();
    tls.resumption = Resumption::disabled();
    Ok(tls)
}

/// Verifies nothing.
#[derive(Debug)]
struct Credulous(Arc<CryptoProvider>);

impl ServerCertVerifier for Credulous {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn private(key: &KeyPair) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|error| anyhow::anyhow!("the node's own key: {error}"))
}

fn client() -> Result<reqwest::Client> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    Ok(reqwest::Client::builder()
        .tls_backend_preconfigured(config)
        .build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_without_a_port_is_at_443() {
        for (url, authority) in [
            ("wss://gateway.example/session", "gateway.example:443"),
            ("wss://gateway.example:8443/session", "gateway.example:8443"),
            ("wss://127.0.0.1:9", "127.0.0.1:9"),
        ] {
            assert_eq!(authority_of(url).unwrap(), authority);
        }
        assert!(authority_of("https://gateway.example").is_err());
    }
}
