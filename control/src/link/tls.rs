//! TLS for links: 1.3 only, and only who shows a certificate of this control's authority comes in.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{VerifierBuilderError, WebPkiClientVerifier},
    version::TLS13,
};
use thiserror::Error;
use url::Url;

use crate::{
    clock::Moment,
    fleet::authority::{Authority, AuthorityError},
};

/// Why links cannot be taken.
#[derive(Debug, Error)]
pub(crate) enum LinkTlsError {
    /// Nobody can be let in for an address without a host.
    #[error("expected a link_url with a host, found {found}")]
    Url {
        /// What is configured.
        found: String,
    },
    /// The authority signs no certificate for it.
    #[error("the link's certificate cannot be made")]
    Authority(#[from] AuthorityError),
    /// The certificate does not serve.
    #[error("the link's certificate cannot be used")]
    Certificate(#[from] rustls::Error),
    /// Clients cannot be verified.
    #[error("the link's clients cannot be verified")]
    Verifier(#[from] VerifierBuilderError),
}

/// For the server that gateways find at `link_url`.
pub(crate) fn server(
    authority: &Authority,
    link_url: &str,
    now: Moment,
) -> Result<Arc<ServerConfig>, LinkTlsError> {
    let url = Url::parse(link_url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    let host = host.ok_or_else(|| LinkTlsError::Url {
        found: link_url.to_owned(),
    })?;
    let identity = authority.issue_link_server(host, now)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority.root().clone())?;
    let provider = Arc::new(ring::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![identity.certificate], identity.key)?;
    // A ticket would let a gateway in without showing its certificate again.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
