//! A TCP connection to a host that may have many addresses.
//!
//! Takes a host and the addresses that it may have, gives the first connection that stands. One address that swallows
//! everything costs a few seconds, not the others their turn.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use url::Host;

/// How long one address may take to answer: a second resend of the first packet, and some.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(4);

/// Addresses of one host that are tried.
const ADDRESSES_MAX: usize = 8;

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
    pub(crate) fn admits(self, address: IpAddr) -> bool {
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

/// Connects. The caller bounds the time that all of it may take.
pub(crate) async fn tcp(host: &Host<String>, port: u16, reach: Reach) -> io::Result<TcpStream> {
    let addresses: Vec<SocketAddr> = match host {
        Host::Domain(name) => lookup_host((name.as_str(), port))
            .await?
            .take(ADDRESSES_MAX)
            .collect(),
        Host::Ipv4(address) => vec![SocketAddr::from((*address, port))],
        Host::Ipv6(address) => vec![SocketAddr::from((*address, port))],
    };
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match one(address, reach).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn one(address: SocketAddr, reach: Reach) -> io::Result<TcpStream> {
    if !reach.admits(address.ip()) {
        let forbidden = format!("{} is not an address to go to", address.ip());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, forbidden));
    }
    match timeout(ADDRESS_PATIENCE, TcpStream::connect(address)).await {
        Ok(connected) => connected,
        Err(_) => {
            let silent = format!("{address} does not answer");
            Err(io::Error::new(io::ErrorKind::TimedOut, silent))
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

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

    #[tokio::test]
    async fn an_address_out_of_reach_is_not_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for host in [
            Host::Ipv4([127, 0, 0, 1].into()),
            Host::Domain("localhost".to_owned()),
        ] {
            let refused = tcp(&host, port, Reach::Outward).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{host}");
            tcp(&host, port, Reach::Loopback).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_name_without_an_address() {
        let host = Host::Domain("nowhere.invalid".to_owned());
        assert!(tcp(&host, 1, Reach::Anywhere).await.is_err());
    }
}
