//! One request to one server, for joining and for downloads.
//!
//! Takes an address and headers, gives the answer's head with a body that is still to be read. Https always; http where
//! the owner's configuration allows it. Follows no redirect: whoever asked decides.

use std::{io, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::UnixTime;
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::{
    config::PlainHttp,
    dial::{self, Reach},
    tls::{self, TlsError},
};

/// Bytes of an answer's head, and of what hyper reads ahead of its consumer: as many as make the way from one thread to
/// the other short beside the work.
const READ_AHEAD_BYTES_MAX: usize = 256 << 10;

/// Header lines of an answer.
const HEADERS_MAX: usize = 64;

/// What this node asks of servers outside its fleet.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    /// Where http is good enough.
    pub(crate) plain_http: PlainHttp,
    /// Further roots for https.
    pub(crate) ca_file: Option<PathBuf>,
    /// A moment that has certainly passed, for machines whose clock says otherwise.
    pub(crate) earliest: Option<UnixTime>,
}

impl Web {
    /// What `server` needs of TLS; nothing if it is spoken to without. It reads the machine's roots.
    pub(crate) fn tls_for(&self, server: &Server) -> Result<Option<Arc<ClientConfig>>, TlsError> {
        match server.scheme {
            Scheme::Http => Ok(None),
            Scheme::Https => tls::web(self.ca_file.as_deref(), self.earliest).map(Some),
        }
    }
}

/// How long the two halves of a request may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Until the line stands: name, TCP, TLS.
    pub(crate) connect: Duration,
    /// From there to the end of the answer's head.
    pub(crate) head: Duration,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    /// The address is not one to ask.
    #[error("expected {expected}, found {found}")]
    Address {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: String,
    },
    /// No server at the address, or none that this node believes.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// Host and port.
        server: String,
        /// What the system said.
        cause: io::Error,
    },
    /// It took too long.
    #[error("expected {what} from {server} within {} ms, found none", within.as_millis())]
    Overdue {
        /// What was waited for.
        what: &'static str,
        /// Host and port.
        server: String,
        /// How long.
        within: Duration,
    },
    /// The server does not speak HTTP as it should.
    #[error("{server} does not answer in HTTP: {cause}")]
    Protocol {
        /// Host and port.
        server: String,
        /// What hyper said.
        cause: hyper::Error,
    },
    /// There is no TLS on this side.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A server to ask, checked.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    host: Host<String>,
    port: u16,
    scheme: Scheme,
    reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

/// A connection, with TLS or without.
type Stream = Box<dyn Bytestream>;

trait Bytestream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Bytestream for S {}

/// An answer's head. The connection lives as long as this does.
pub(crate) struct Exchange {
    /// The head, and the body that is still to be read.
    pub(crate) response: Response<Incoming>,
    /// Where the answer came from.
    pub(crate) peer: IpAddr,
    _driver: Driver,
}

/// Moves the connection's bytes until nobody wants them.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    /// Checks an address: its scheme, that it has a host, that it carries no name and password.
    pub(crate) fn of(url: &Url, plain: PlainHttp, reach: Reach) -> Result<Self, HttpError> {
        let refused = |expected| HttpError::Address {
            expected,
            found: shown(url),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("an address without name and password"));
        }
        if !plain.admits(url) {
            return Err(refused("an https address, or http to this machine"));
        }
        let scheme = if url.scheme() == "https" {
            Scheme::Https
        } else {
            Scheme::Http
        };
        let host = url.host().map(|host| host.to_owned());
        let host = host.ok_or_else(|| refused("an address with a host"))?;
        let port = url
            .port_or_known_default()
            .ok_or_else(|| refused("an address with a port"))?;
        // What is allowed because it stays on this machine must stay there, whatever the name resolves to.
        let reach = match (scheme, plain, reach) {
            (Scheme::Http, PlainHttp::Loopback, Reach::Anywhere) => Reach::Loopback,
            (Scheme::Http | Scheme::Https, PlainHttp::Loopback | PlainHttp::Anywhere, reach) => {
                reach
            }
        };
        Ok(Self {
            host,
            port,
            scheme,
            reach,
        })
    }

    /// Whether it is spoken to by TLS.
    pub(crate) fn is_secured(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Sends one request. `tls` is what [`Web::tls_for`] gave for this server.
    pub(crate) async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        tls: Option<Arc<ClientConfig>>,
        patience: Patience,
    ) -> Result<Exchange, HttpError> {
        let opening = Box::pin(self.open(tls));
        let (stream, peer) = timeout(patience.connect, opening)
            .await
            .map_err(|_| self.overdue("a connection", patience.connect))??;
        let (response, driver) = self.exchange(stream, request, patience).await?;
        Ok(Exchange {
            response,
            peer,
            _driver: driver,
        })
    }

    async fn exchange(
        &self,
        stream: Stream,
        request: Request<Full<Bytes>>,
        patience: Patience,
    ) -> Result<(Response<Incoming>, Driver), HttpError> {
        let protocol = |cause| HttpError::Protocol {
            server: self.to_string(),
            cause,
        };
        let mut builder = http1::Builder::new();
        builder
            .max_buf_size(READ_AHEAD_BYTES_MAX)
            .max_headers(HEADERS_MAX);
        let (mut sender, connection) = builder
            .handshake(TokioIo::new(stream))
            .await
            .map_err(protocol)?;
        let driver = Driver(tokio::spawn(async move {
            // Its errors reach whoever reads the body.
            drop(connection.await);
        }));
        let response = timeout(patience.head, sender.send_request(request))
            .await
            .map_err(|_| self.overdue("an answer", patience.head))?
            .map_err(protocol)?;
        Ok((response, driver))
    }

    async fn open(&self, tls: Option<Arc<ClientConfig>>) -> Result<(Stream, IpAddr), HttpError> {
        let stream = dial::tcp(&self.host, self.port, self.reach)
            .await
            .map_err(|cause| self.unreachable(cause))?;
        let peer = stream
            .peer_addr()
            .map_err(|cause| self.unreachable(cause))?
            .ip();
        match (self.scheme, tls) {
            (Scheme::Http, _) => Ok((Box::new(stream), peer)),
            (Scheme::Https, Some(tls)) => {
                let name = tls::name_of(&self.host).map_err(|cause| self.unreachable(cause))?;
                let stream = TlsConnector::from(tls)
                    .connect(name, stream)
                    .await
                    .map_err(|cause| self.unreachable(cause))?;
                Ok((Box::new(stream), peer))
            }
            (Scheme::Https, None) => Err(self.unreachable(io::Error::other("no TLS was set up"))),
        }
    }

    fn unreachable(&self, cause: io::Error) -> HttpError {
        HttpError::Unreachable {
            server: self.to_string(),
            cause,
        }
    }

    fn overdue(&self, what: &'static str, within: Duration) -> HttpError {
        HttpError::Overdue {
            what,
            server: self.to_string(),
            within,
        }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// An address as it may stand in a log: without a password.
pub(crate) fn shown(url: &Url) -> String {
    if url.username().is_empty() && url.password().is_none() {
        return url.to_string();
    }
    let mut url = url.clone();
    // Fails only for addresses that cannot have either.
    if url.set_username("…").and(url.set_password(None)).is_err() {
        return url.scheme().to_owned();
    }
    url.to_string()
}

/// The path and query of an address, as a request line has them.
pub(crate) fn target(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// The host and port of an address, as a Host header has them.
pub(crate) fn authority(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}

#[cfg(test)]
mod tests;
