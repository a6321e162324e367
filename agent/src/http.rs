//! One request to one server, for joining and for downloads.
//!
//! Takes an address and headers, gives the answer's head with a body that is still to be read. Https always; http where
//! the owner's configuration allows it. Follows no redirect: whoever asked decides.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::{ServerName, UnixTime};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::{
    config::PlainHttp,
    tls::{self, TlsError},
};

/// Bytes of an answer's head, and of what hyper reads ahead of its consumer.
const READ_AHEAD_BYTES_MAX: usize = 64 << 10;

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

/// Which addresses a server may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Any.
    Anywhere,
    /// This machine's own.
    Loopback,
    /// Any that lead out: a server elsewhere has no business sending us to ourselves or to our neighbours' metadata.
    Outward,
}

impl Reach {
    fn admits(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Anywhere => true,
            Self::Loopback => address.is_loopback(),
            Self::Outward => {
                let link_local = match address {
                    IpAddr::V4(v4) => v4.is_link_local(),
                    IpAddr::V6(v6) => v6.is_unicast_link_local(),
                };
                !(address.is_loopback() || address.is_unspecified() || link_local)
            }
        }
    }
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

    /// Sends one request. `tls` is what [`Web::tls_for`] gave for this server.
    pub(crate) async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        tls: Option<Arc<ClientConfig>>,
        patience: Patience,
    ) -> Result<Exchange, HttpError> {
        let connecting = Box::pin(self.connect());
        let stream = timeout(patience.connect, connecting)
            .await
            .map_err(|_| self.overdue("a connection", patience.connect))??;
        let peer = stream
            .peer_addr()
            .map_err(|cause| self.unreachable(cause))?
            .ip();
        let (response, driver) = match (self.scheme, tls) {
            (Scheme::Http, _) => self.exchange(stream, request, patience).await?,
            (Scheme::Https, Some(tls)) => {
                let handshake = TlsConnector::from(tls).connect(self.name()?, stream);
                let stream = timeout(patience.connect, Box::pin(handshake))
                    .await
                    .map_err(|_| self.overdue("a TLS handshake", patience.connect))?
                    .map_err(|cause| self.unreachable(cause))?;
                self.exchange(stream, request, patience).await?
            }
            (Scheme::Https, None) => {
                let cause = io::Error::other("no TLS was set up");
                return Err(self.unreachable(cause));
            }
        };
        Ok(Exchange {
            response,
            peer,
            _driver: driver,
        })
    }

    async fn exchange<S>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
        patience: Patience,
    ) -> Result<(Response<Incoming>, Driver), HttpError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
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

    async fn connect(&self) -> Result<TcpStream, HttpError> {
        let addresses: Vec<SocketAddr> = match &self.host {
            Host::Domain(name) => lookup_host((name.as_str(), self.port))
                .await
                .map_err(|cause| self.unreachable(cause))?
                .collect(),
            Host::Ipv4(address) => vec![SocketAddr::from((*address, self.port))],
            Host::Ipv6(address) => vec![SocketAddr::from((*address, self.port))],
        };
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            if !self.reach.admits(address.ip()) {
                let forbidden = format!("{} is not an address to go to", address.ip());
                failure = io::Error::new(io::ErrorKind::PermissionDenied, forbidden);
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = error,
            }
        }
        Err(self.unreachable(failure))
    }

    fn name(&self) -> Result<ServerName<'static>, HttpError> {
        match &self.host {
            Host::Domain(name) => {
                ServerName::try_from(name.clone()).map_err(|_| HttpError::Address {
                    expected: "a host name",
                    found: name.clone(),
                })
            }
            Host::Ipv4(address) => Ok(ServerName::from(IpAddr::V4(*address))),
            Host::Ipv6(address) => Ok(ServerName::from(IpAddr::V6(*address))),
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
mod tests {
    use super::*;

    fn server(url: &str, plain: PlainHttp) -> Result<Server, HttpError> {
        Server::of(&url.parse().unwrap(), plain, Reach::Anywhere)
    }

    #[test]
    fn only_https_leaves_the_machine() {
        for (url, loopback, anywhere) in [
            ("https://example.org/x", true, true),
            ("http://127.0.0.1:8080/x", true, true),
            ("http://[::1]/x", true, true),
            ("http://localhost/x", true, true),
            ("http://example.org/x", false, true),
            ("http://127.0.0.1.example.org/x", false, true),
            ("ftp://127.0.0.1/x", false, false),
            ("file:///etc/shadow", false, false),
            ("data:text/plain,x", false, false),
            ("https://me@example.org/x", false, false),
            ("https://me:pass@example.org/x", false, false),
            ("https://:pass@example.org/x", false, false),
        ] {
            assert_eq!(server(url, PlainHttp::Loopback).is_ok(), loopback, "{url}");
            assert_eq!(server(url, PlainHttp::Anywhere).is_ok(), anywhere, "{url}");
        }
    }

    #[test]
    fn http_to_this_machine_stays_on_it() {
        let local = server("http://localhost/x", PlainHttp::Loopback).unwrap();
        assert_eq!(local.reach, Reach::Loopback);
        let far = server("https://localhost/x", PlainHttp::Loopback).unwrap();
        assert_eq!(far.reach, Reach::Anywhere);
    }

    #[test]
    fn where_a_reach_ends() {
        for (address, loopback, outward) in [
            ("127.0.0.1", true, false),
            ("127.9.9.9", true, false),
            ("::1", true, false),
            ("::ffff:127.0.0.1", true, false),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("fe80::1", false, false),
            ("0.0.0.0", false, false),
            ("::", false, false),
            ("10.0.0.1", false, true),
            ("2001:db8::1", false, true),
        ] {
            let ip = address.parse().unwrap();
            assert!(Reach::Anywhere.admits(ip), "{address}");
            assert_eq!(Reach::Loopback.admits(ip), loopback, "{address}");
            assert_eq!(Reach::Outward.admits(ip), outward, "{address}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = "https://me:secret@example.org/x?y".parse().unwrap();
        let text = shown(&url);
        assert!(!text.contains("secret") && !text.contains("me:"), "{text}");
        let text = server(url.as_str(), PlainHttp::Anywhere)
            .unwrap_err()
            .to_string();
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn a_request_names_what_the_address_does() {
        let url = "http://localhost:81/a/b?c=d#e".parse().unwrap();
        assert_eq!(target(&url), "/a/b?c=d");
        assert_eq!(authority(&url), "localhost:81");
    }
}
