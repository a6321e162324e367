//! The way to control: name, connection, TLS, certificate.
//!
//! Takes settings, gives findings. Sends no token, and nothing but a TLS handshake.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rustls_pki_types::ServerName;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use url::Url;
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _};

use super::Findings;
use crate::{
    cli::{
        client::{is_loopback, tls},
        limits::CONNECT_TIMEOUT,
        online,
        settings::Settings,
        sheet::second,
    },
    clock::Moment,
};

/// A certificate that nobody has renewed by then is one that nobody renews.
const EXPIRY_NOTICE: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// What reqwest asks for a way around.
const PROXIES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Goes the way; false where it ends before control.
pub(super) async fn look(settings: &Settings, to: &mut Findings) -> bool {
    let url = &settings.url.value;
    let (at, origin) = (url.as_str(), &settings.url.origin);
    to.good("address", format!("control at {at} ({origin})"));
    let proxy = PROXIES.into_iter().find(|name| is_set(name));
    if let Some(proxy) = proxy.filter(|_| !is_loopback(url)) {
        let hint = "NO_PROXY names hosts that are reached without";
        to.note("proxy", format!("{proxy} may stand in the way"), hint);
        return true;
    }
    let Some(addresses) = name(url, to).await else {
        return false;
    };
    let Some(stream) = connection(&addresses, to).await else {
        return false;
    };
    match url.scheme() {
        "https" => encryption(settings, stream, to).await,
        _ => true,
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

async fn name(url: &Url, to: &mut Findings) -> Option<Vec<SocketAddr>> {
    const CHECK: &str = "name";
    let port = url.port_or_known_default().unwrap_or(443);
    let host = match url.host()? {
        url::Host::Ipv4(address) => return Some(vec![(address, port).into()]),
        url::Host::Ipv6(address) => return Some(vec![(address, port).into()]),
        url::Host::Domain(host) => host,
    };
    let found = match timeout(CONNECT_TIMEOUT, lookup_host((host, port))).await {
        Ok(Ok(addresses)) => Ok(addresses.collect::<Vec<_>>()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("no answer".to_owned()),
    };
    match found {
        Ok(addresses) if !addresses.is_empty() => {
            let list: Vec<String> = addresses.iter().map(|one| one.ip().to_string()).collect();
            to.good(CHECK, format!("{host} is {}", list.join(", ")));
            Some(addresses)
        }
        Ok(_) => {
            to.wrong(CHECK, format!("{host} has no address"), NAME_MEND);
            None
        }
        Err(error) => {
            to.wrong(CHECK, format!("{host} is not known: {error}"), NAME_MEND);
            None
        }
    }
}

const NAME_MEND: &str = "look at the address, or mend this machine's name servers (/etc/resolv.conf); \
                         `better-compute config show` says where the address comes from";

async fn connection(addresses: &[SocketAddr], to: &mut Findings) -> Option<TcpStream> {
    const CHECK: &str = "connection";
    let mut failed = Vec::new();
    for address in addresses {
        let error = match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                to.good(CHECK, format!("{address} accepts it"));
                return Some(stream);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer".to_owned(),
        };
        failed.push(format!("{address}: {error}"));
    }
    let mend = "start control there (its log says where it listens), or let a firewall on the way pass this port";
    to.wrong(CHECK, failed.join("; "), mend);
    None
}

async fn encryption(settings: &Settings, stream: TcpStream, to: &mut Findings) -> bool {
    const CHECK: &str = "tls";
    let url = &settings.url.value;
    let config = online::roots(settings).and_then(|roots| Ok(tls(url, &roots)?));
    let config = match config {
        Ok(config) => config,
        Err(failure) => {
            to.failed(CHECK, &failure);
            return false;
        }
    };
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        to.wrong(CHECK, format!("{host} is no name"), NAME_MEND);
        return false;
    };
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(Ok(stream)) => {
            to.good(CHECK, "TLS 1.3, and the certificate is trusted");
            certificate(&stream, to);
            true
        }
        Ok(Err(error)) => {
            let error = error.to_string();
            to.wrong(CHECK, error.clone(), tls_mend(&error));
            false
        }
        Err(_) => {
            let mend =
                "something that is no TLS server listens there: look at the address and its port";
            to.wrong(CHECK, "no answer to the handshake", mend);
            false
        }
    }
}

fn tls_mend(error: &str) -> &'static str {
    if error.contains("UnknownIssuer") {
        "if that is control's certificate, name its issuer with --ca-file"
    } else if error.contains("Expired") || error.contains("not valid yet") {
        "renew control's certificate, or set the clock of whichever machine is wrong"
    } else if error.contains("NotValidForName") || error.contains("not valid for name") {
        "use the name that the certificate is for, or have one made for this name"
    } else {
        "control speaks TLS 1.3 only: look at the address, its port, and what lies between"
    }
}

fn certificate(stream: &TlsStream<TcpStream>, to: &mut Findings) {
    const CHECK: &str = "certificate";
    let (_, session) = stream.get_ref();
    let Some(first) = session.peer_certificates().and_then(|chain| chain.first()) else {
        return;
    };
    let Ok((_, parsed)) = X509Certificate::from_der(first) else {
        return to.note(CHECK, "it cannot be read", "look at it with openssl");
    };
    let end = Moment::from_millis(parsed.validity().not_after.timestamp().saturating_mul(1000));
    let found = format!("good until {}", second(end));
    if end <= Moment::now().plus(EXPIRY_NOTICE) {
        to.note(CHECK, found, "renew it, and send control a SIGHUP");
    } else {
        to.good(CHECK, found);
    }
}
