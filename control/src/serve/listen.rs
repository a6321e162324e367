//! The addresses and certificates of the service.
//!
//! Takes the configuration, gives sockets that are bound and a certificate that is read, or the reason why not: before
//! anything else begins. TLS 1.3 only.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use axum_server::{Address, Handle, Server, tls_rustls::RustlsConfig};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use thiserror::Error;

use super::bounded::Bounded;
use crate::{
    config::{Config, Tls},
    metrics::Metrics,
};

/// Why the service cannot listen.
#[derive(Debug, Error)]
pub(crate) enum ListenError {
    /// The address is taken, or not ours.
    #[error("cannot listen at {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// A file of the certificate cannot be read, or holds something else.
    #[error("expected {expected} in {}, found none that can be read", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// Why.
        source: rustls_pki_types::pem::Error,
    },
    /// Certificate and key do not belong together.
    #[error("expected a certificate and its key in {}, found a pair that cannot be used", path.display())]
    Pair {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// Reads the API's certificate, if it has one.
pub(super) fn tls(config: &Config) -> Result<Option<Arc<rustls::ServerConfig>>, ListenError> {
    config.tls.as_ref().map(shown).transpose()
}

/// What is shown with a certificate.
pub(super) fn shown(tls: &Tls) -> Result<Arc<rustls::ServerConfig>, ListenError> {
    let certificates = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|source| pem(&tls.certificate, "certificates", source))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|source| pem(&tls.key, "a private key", source))?;
    let pair = |source| ListenError::Pair {
        path: tls.certificate.clone(),
        source,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(pair)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(pair)?;
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}

fn pem(path: &Path, expected: &'static str, source: rustls_pki_types::pem::Error) -> ListenError {
    ListenError::Pem {
        path: path.to_owned(),
        expected,
        source,
    }
}

/// A bound socket and what others call it.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) socket: TcpListener,
    pub(super) address: SocketAddr,
    /// Without a slash at its end.
    pub(super) url: String,
}

impl Bound {
    /// Takes the API's address.
    pub(super) fn api(config: &Config) -> Result<Self, ListenError> {
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        Self::bind(config.listen, config.base_url.as_ref(), scheme, "")
    }

    /// Takes the address that gateways link to.
    pub(super) fn link(config: &Config) -> Result<Self, ListenError> {
        Self::bind(config.link_listen, config.link_url.as_ref(), "wss", "/link")
    }

    fn bind(
        wanted: SocketAddr,
        url: Option<&url::Url>,
        scheme: &str,
        path: &str,
    ) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind {
            address: wanted,
            source,
        };
        let socket = TcpListener::bind(wanted).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let address = socket.local_addr().map_err(failed)?;
        let url = match url {
            Some(url) => url.as_str().trim_end_matches('/').to_owned(),
            None => format!("{scheme}://{address}{path}"),
        };
        Ok(Self {
            socket,
            address,
            url,
        })
    }
}

/// From accepting a connection to the head of its first request. One that says nothing costs a descriptor until then.
const FIRST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// From one request to the head of the next on the same connection: callers keep theirs open for a while.
const NEXT_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Serves the API until the handle stops it.
pub(super) async fn serve_api(
    socket: TcpListener,
    tls: Option<RustlsConfig>,
    router: Router,
    (handle, metrics): (Handle<SocketAddr>, Arc<Metrics>),
) -> io::Result<()> {
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    match tls {
        None => {
            let server = axum_server::from_tcp(socket)?.handle(handle);
            let server = server.map(|acceptor| Bounded::new(acceptor, metrics));
            impatient(server).serve(service).await
        }
        Some(tls) => {
            let server = axum_server::from_tcp_rustls(socket, tls)?.handle(handle);
            let server = server.map(|acceptor| Bounded::new(acceptor, metrics));
            impatient(server).serve(service).await
        }
    }
}

/// Whoever opens connections and says nothing must not use up the descriptors. Requests have deadlines of their own.
fn impatient<A: Address, Acceptor>(server: Server<A, Acceptor>) -> Server<A, Acceptor> {
    let mut server = server.first_request_timeout(FIRST_HEAD_TIMEOUT);
    let builder = server.http_builder();
    builder.http1().header_read_timeout(NEXT_HEAD_TIMEOUT);
    // Where one connection carries many requests, a peer that answers no ping is gone.
    builder.http2().keep_alive_interval(NEXT_HEAD_TIMEOUT);
    server
}
