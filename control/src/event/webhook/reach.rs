//! Where webhooks may go.
//!
//! Takes an address as a tenant writes it, gives a client that reaches it, or why nothing may be sent there. A name is
//! resolved by the client itself and judged then: what was judged is what is connected to, whatever the name means a
//! moment later. Internal networks are out of reach but for those that the operator has named; so is whatever is not
//! encrypted.

use std::{
    error::Error,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::version::TLS13;
use rustls_platform_verifier::BuilderVerifierExt as _;
use thiserror::Error;
use url::{Host, Url};

/// A receiver that takes longer does its work before it answers; it gets the same again.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

const URL_CHARS_MAX: usize = 2048;

/// The networks that webhooks may reach although they are internal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    allowed: Arc<[IpNet]>,
}

/// Why nothing may be sent somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum UrlError {
    /// It is no address.
    #[error(
        "expected an https address of at most {URL_CHARS_MAX} characters with a host and no user, found another text"
    )]
    Form,
    /// It would be readable on its way.
    #[error(
        "expected https, found an address that is not encrypted; http goes only to networks of webhooks.allow_networks in control.toml"
    )]
    Plain,
    /// It is an address of somebody's own network.
    #[error(
        "expected a public address, found one of an internal network, which webhooks.allow_networks in control.toml admits"
    )]
    Internal,
}

impl Reach {
    /// With these internal networks.
    pub(crate) fn new(allowed: Vec<IpNet>) -> Self {
        Self {
            allowed: allowed.into(),
        }
    }

    /// Reads an address. A name is judged when it is resolved.
    pub(super) fn check(&self, text: &str) -> Result<Url, UrlError> {
        let url: Url = text.parse().map_err(|_| UrlError::Form)?;
        let plain = text.len() <= URL_CHARS_MAX
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none();
        let Some(host) = url.host().filter(|_| plain) else {
            return Err(UrlError::Form);
        };
        let guarded = self.guarded(&url)?;
        match host {
            Host::Ipv4(ip) => guarded.admits(ip.into())?,
            Host::Ipv6(ip) => guarded.admits(ip.into())?,
            Host::Domain(_) => {}
        }
        Ok(url)
    }

    /// What addresses of this scheme are held to.
    fn guarded(&self, url: &Url) -> Result<Guarded, UrlError> {
        let way = match url.scheme() {
            "https" => Way::Encrypted,
            "http" if !self.allowed.is_empty() => Way::Plain,
            "http" => return Err(UrlError::Plain),
            _ => return Err(UrlError::Form),
        };
        Ok(Guarded {
            way,
            reach: self.clone(),
        })
    }
}

/// How a message travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Anywhere public, and to the networks that the operator has named.
    Encrypted,
    /// To those networks only.
    Plain,
}

/// Names of one scheme, resolved and judged.
#[derive(Clone, Debug)]
struct Guarded {
    way: Way,
    reach: Reach,
}

impl Guarded {
    fn admits(&self, ip: IpAddr) -> Result<(), UrlError> {
        let ip = ip.to_canonical();
        let allowed = self
            .reach
            .allowed
            .iter()
            .any(|network| network.contains(&ip));
        if allowed {
            return Ok(());
        }
        match self.way {
            Way::Encrypted if is_public(ip) => Ok(()),
            Way::Encrypted => Err(UrlError::Internal),
            Way::Plain => Err(UrlError::Plain),
        }
    }
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let guarded = self.clone();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let mut refused: Option<UrlError> = None;
            let mut admitted: Vec<SocketAddr> = Vec::new();
            for address in found {
                match guarded.admits(address.ip()) {
                    Ok(()) => admitted.push(address),
                    Err(error) => refused = Some(error),
                }
            }
            match (admitted.is_empty(), refused) {
                (true, Some(error)) => Err(Box::<dyn Error + Send + Sync>::from(error)),
                (true, None) | (false, _) => Ok(Box::new(admitted.into_iter()) as Addrs),
            }
        })
    }
}

/// Clients that reach what they may.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    reach: Reach,
    encrypted: reqwest::Client,
    plain: reqwest::Client,
}

/// Why there are no clients.
#[derive(Debug, Error)]
pub(crate) enum ClientsError {
    /// TLS.
    #[error("cannot set up TLS for webhooks")]
    Tls(#[from] rustls::Error),
    /// HTTP.
    #[error("cannot set up HTTP for webhooks")]
    Http(#[from] reqwest::Error),
}

impl Clients {
    pub(super) fn new(reach: &Reach) -> Result<Self, ClientsError> {
        Ok(Self {
            reach: reach.clone(),
            encrypted: client(Guarded {
                way: Way::Encrypted,
                reach: reach.clone(),
            })?,
            plain: client(Guarded {
                way: Way::Plain,
                reach: reach.clone(),
            })?,
        })
    }

    /// The client for an address, which is judged again: the configuration may be another than when it was made.
    pub(super) fn reach(&self, url: &str) -> Result<(&reqwest::Client, Url), UrlError> {
        let url = self.reach.check(url)?;
        match url.scheme() {
            "https" => Ok((&self.encrypted, url)),
            _ => Ok((&self.plain, url)),
        }
    }
}

fn client(guarded: Guarded) -> Result<reqwest::Client, ClientsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_platform_verifier()?
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .dns_resolver(Arc::new(guarded))
        // Where it leads is not where the tenant said, and nobody has judged it.
        .redirect(reqwest::redirect::Policy::none())
        // A proxy would resolve the name by itself.
        .no_proxy()
        .timeout(ANSWER_TIMEOUT)
        // A connection that is kept would outlive the judgement of its address.
        .pool_max_idle_per_host(0)
        .user_agent(concat!("better-compute/", env!("CARGO_PKG_VERSION")))
        .build()?;
    Ok(client)
}

/// Whether an address is everybody's: not this machine's, not of somebody's own network, not of no network at all.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = match (a, b, c) {
        // This network, shared by carriers, protocol assignments, benchmarks, reserved.
        (0, _, _) | (100, 64..=127, _) | (192, 0, 0) | (198, 18..=19, _) | (240.., _, _) => true,
        // Relays for the old tunnels of IPv6.
        (192, 88, 99) => true,
        _ => false,
    };
    !(special
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip.is_multicast()
        || ip.is_unspecified())
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    // Only the global unicast space, without what stands for an address of IPv4, documentation and assignments.
    let global = a & 0xe000 == 0x2000;
    let tunnel = a == 0x2002 || (a == 0x2001 && b < 0x0200);
    let documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    global && !tunnel && !documentation
}

#[cfg(test)]
mod tests {
    use super::{Clients, Reach, UrlError, is_public};

    #[test]
    fn only_what_is_everybodys_is_public() {
        for ip in [
            "8.8.8.8",
            "93.184.215.14",
            "172.32.0.1",
            "2606:2800:21f::1",
            "2a00:1450::5",
        ] {
            assert!(is_public(ip.parse().unwrap()), "{ip}");
        }
        for ip in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "0.1.2.3",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fec0::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "::7f00:1",
        ] {
            assert!(!is_public(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn an_address_is_public_and_encrypted_or_it_is_none() {
        let reach = Reach::default();
        for (url, found) in [
            ("https://example.com/hook?x=1", Ok(())),
            ("https://8.8.8.8:8443/", Ok(())),
            ("http://example.com/", Err(UrlError::Plain)),
            ("ftp://example.com/", Err(UrlError::Form)),
            ("https://user@example.com/", Err(UrlError::Form)),
            ("https://example.com/#x", Err(UrlError::Form)),
            ("example.com", Err(UrlError::Form)),
            ("https://127.0.0.1/", Err(UrlError::Internal)),
            ("https://2130706433/", Err(UrlError::Internal)),
            ("https://0x7f.1/", Err(UrlError::Internal)),
            ("https://[::ffff:10.0.0.1]/", Err(UrlError::Internal)),
            ("https://[::1]/", Err(UrlError::Internal)),
        ] {
            assert_eq!(reach.check(url).map(drop), found, "{url}");
        }
        let own = Reach::new(vec!["10.1.0.0/16".parse().unwrap()]);
        for (url, found) in [
            ("http://10.1.2.3/", Ok(())),
            ("https://10.1.2.3/", Ok(())),
            ("https://10.2.0.1/", Err(UrlError::Internal)),
            ("http://10.2.0.1/", Err(UrlError::Plain)),
            ("http://8.8.8.8/", Err(UrlError::Plain)),
            // A name is judged when it is resolved.
            ("http://receiver.internal/", Ok(())),
        ] {
            assert_eq!(own.check(url).map(drop), found, "{url}");
        }
    }

    #[tokio::test]
    async fn a_name_of_an_internal_address_is_judged_when_it_is_resolved() {
        let clients = Clients::new(&Reach::default()).unwrap();
        let (client, url) = clients.reach("https://localhost:1/").unwrap();
        let error = client.post(url).send().await.unwrap_err();
        let mut causes = String::new();
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            causes.push_str(&error.to_string());
            cause = error.source();
        }
        assert!(causes.contains(&UrlError::Internal.to_string()), "{causes}");
    }
}
