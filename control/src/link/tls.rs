//! TLS for links: 1.3 only, and only who shows a certificate of this control's authority comes in. The server's own
//! certificate is made anew in time: a process may outlive it.

use std::sync::{Arc, Mutex, PoisonError};

use bc_protocol::certificate::{HolderError, Validity};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier},
    sign::CertifiedKey,
    version::TLS13,
};
use thiserror::Error;
use url::Url;

use crate::{
    clock::Moment,
    fleet::authority::{Authority, AuthorityError},
    metrics::{Metrics, Work},
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
    /// The certificate cannot be read.
    #[error("the link's certificate cannot be read")]
    Unreadable(#[from] HolderError),
    /// The certificate does not serve.
    #[error("the link's certificate cannot be used")]
    Certificate(#[from] rustls::Error),
    /// Clients cannot be verified.
    #[error("the link's clients cannot be verified")]
    Verifier(#[from] VerifierBuilderError),
}

/// For the server that gateways find at `link_url`.
pub(crate) fn server(
    authority: &Arc<Authority>,
    link_url: &str,
    (metrics, now): (&Arc<Metrics>, Moment),
) -> Result<Arc<ServerConfig>, LinkTlsError> {
    let url = Url::parse(link_url).ok();
    let host = url.as_ref().and_then(Url::host_str);
    let host = host.ok_or_else(|| LinkTlsError::Url {
        found: link_url.to_owned(),
    })?;
    let own = Own {
        current: Mutex::new(Current::issue(authority, host, now)?),
        authority: Arc::clone(authority),
        host: host.to_owned(),
        metrics: Arc::clone(metrics),
    };
    let mut roots = RootCertStore::empty();
    roots.add(authority.root().clone())?;
    let provider = Arc::new(ring::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(own));
    // A ticket would let a gateway in without showing its certificate again.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// The server's own certificate.
struct Own {
    authority: Arc<Authority>,
    host: String,
    current: Mutex<Current>,
    metrics: Arc<Metrics>,
}

struct Current {
    shown: Arc<CertifiedKey>,
    renew_at: Moment,
}

impl Current {
    fn issue(authority: &Authority, host: &str, now: Moment) -> Result<Self, LinkTlsError> {
        let identity = authority.issue_link_server(host, now)?;
        let renew_at = Validity::of(&identity.certificate)?.renew_at();
        let chain = vec![identity.certificate];
        let shown = CertifiedKey::from_der(chain, identity.key, &ring::default_provider())?;
        Ok(Self {
            shown: Arc::new(shown),
            renew_at: Moment::from_millis(renew_at.saturating_mul(1000)),
        })
    }
}

impl Own {
    fn shown(&self, now: Moment) -> Arc<CertifiedKey> {
        // No code panics in between.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.renew_at <= now {
            match Current::issue(&self.authority, &self.host, now) {
                Ok(fresh) => *current = fresh,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(error, "the link's certificate cannot be renewed");
                    self.metrics.has_failed(&Work::CERTIFICATE);
                }
            }
        }
        Arc::clone(&current.shown)
    }
}

impl ResolvesServerCert for Own {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.shown(Moment::now()))
    }
}

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Own")
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::authority::Lifetimes;

    #[test]
    fn the_servers_own_certificate_is_made_anew_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let now = Moment::from_millis(1_790_000_000_000);
        let authority = Authority::open(dir.path(), Lifetimes::default(), now).unwrap();
        let own = Own {
            current: Mutex::new(Current::issue(&authority, "c.example", now).unwrap()),
            authority: Arc::new(authority),
            host: "c.example".to_owned(),
            metrics: Arc::default(),
        };
        let day = |days: u64| now.plus(Duration::from_secs(days * 86_400));
        let first = own.shown(now);
        assert!(Arc::ptr_eq(&first, &own.shown(day(59))));
        let second = own.shown(day(61));
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&second, &own.shown(day(62))));
    }
}
