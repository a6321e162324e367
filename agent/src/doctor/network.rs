//! What can be reached from here.

use std::{
    collections::BTreeSet,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request,
    header::{DATE, HOST},
};
use tokio::{net::lookup_host, time::timeout};
use url::{Host, Url};

use super::Finding;
use crate::{
    clock,
    dial::Reach,
    http::{self, HttpError, Patience, Server, Web},
    identity::Identity,
    node::{session::Ending, socket},
    tls,
};

/// For a name, or a server, to answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// Seconds that two clocks may differ.
const CLOCK_SECONDS_MAX: i64 = 300;

/// Every name that this node has to look up.
pub(super) async fn names(control: Option<&Url>, gateways: &[String]) -> Vec<Finding> {
    const CHECK: &str = "dns";
    let gateways = gateways.iter().filter_map(|url| url.parse::<Url>().ok());
    let names: BTreeSet<String> = control
        .cloned()
        .into_iter()
        .chain(gateways)
        .filter_map(|url| match url.host() {
            Some(Host::Domain(name)) => Some(name.to_owned()),
            Some(Host::Ipv4(_) | Host::Ipv6(_)) | None => None,
        })
        .collect();
    if names.is_empty() {
        return vec![Finding::good(CHECK, "no name has to be looked up")];
    }
    let mut findings = Vec::new();
    for name in names {
        let looked_up = timeout(PATIENCE, lookup_host((name.as_str(), 443))).await;
        let found = match looked_up {
            Ok(Ok(addresses)) => match addresses.count() {
                0 => Err("no address".to_owned()),
                count => Ok(count),
            },
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
        };
        findings.push(match found {
            Ok(count) => Finding::good(CHECK, format!("{name} has {count} addresses")),
            Err(problem) => Finding::wrong(
                CHECK,
                format!("{name}: {problem}"),
                "mend the name servers of this machine (/etc/resolv.conf), or the name in the configuration",
            ),
        });
    }
    findings
}

/// Control, and this machine's clock beside control's.
pub(super) async fn control(control: Option<&Url>, web: &Web) -> Vec<Finding> {
    const CHECK: &str = "control";
    let Some(control) = control else {
        let found =
            "no address of control is known; it is needed to join, and after a long absence";
        return vec![Finding::good(CHECK, found)];
    };
    match ask(control, web).await {
        Ok(date) => {
            let reached = Finding::good(CHECK, format!("{} answers", http::shown(control)));
            vec![reached, clocks(date)]
        }
        Err(error) => vec![Finding::wrong(
            CHECK,
            error,
            "check the address, the firewall between here and there, and ca_file; sessions go on without it",
        )],
    }
}

/// Control's time, if it says one.
async fn ask(control: &Url, web: &Web) -> Result<Option<i64>, HttpError> {
    let mut url = control.clone();
    url.set_path(&format!("{}/healthz", control.path().trim_end_matches('/')));
    let server = Server::of(&url, web.plain_http, Reach::Anywhere)?;
    let tls = web.tls_for(&server)?;
    let request = Request::get(http::target(&url))
        .header(HOST, http::authority(&url))
        .body(Full::new(Bytes::new()))
        .map_err(|error| HttpError::Address {
            expected: "an address that a request can carry",
            found: error.to_string(),
        })?;
    let patience = Patience {
        connect: PATIENCE,
        head: PATIENCE,
    };
    let exchange = server.ask(request, tls, patience).await?;
    let date = exchange.response.headers().get(DATE);
    let date = date.and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    let since = date.and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    Ok(since.and_then(|since| since.as_secs().try_into().ok()))
}

fn clocks(theirs: Option<i64>) -> Finding {
    const CHECK: &str = "clock";
    let ours = clock::system();
    let Some(theirs) = theirs else {
        return Finding::good(
            CHECK,
            format!("{ours}; control says no time to compare with"),
        );
    };
    let apart = ours.unix().saturating_sub(theirs);
    if apart.abs() > CLOCK_SECONDS_MAX {
        let word = if apart > 0 { "ahead of" } else { "behind" };
        return Finding::wrong(
            CHECK,
            format!("{ours}, {} s {word} control's", apart.abs()),
            "set this machine's clock and keep it right (timedatectl set-ntp true)",
        );
    }
    Finding::good(
        CHECK,
        format!("{ours}, within {} s of control's", apart.abs()),
    )
}

/// Every gateway, up to where a session would begin.
pub(super) async fn gateways(identity: &Identity, gateways: &[String]) -> Vec<Finding> {
    const CHECK: &str = "gateway";
    if gateways.is_empty() {
        let mend =
            "name one in the configuration (gateways), or enrol one at control and join anew";
        return vec![Finding::wrong(CHECK, "no gateway is known", mend)];
    }
    let tls = match tls::session(identity) {
        Ok(tls) => tls,
        Err(error) => {
            let mend = "the files in identity/ do not fit each other: join this node anew";
            return vec![Finding::wrong("tls", error, mend)];
        }
    };
    let mut findings = vec![Finding::good(
        "tls",
        "certificate, key and authorities fit each other",
    )];
    for gateway in gateways {
        let opening = socket::open(gateway.clone(), tls.clone());
        let problem = match timeout(PATIENCE, opening).await {
            Ok(Ok(_socket)) => {
                let found = format!("{gateway} lets this node in");
                findings.push(Finding::good(CHECK, found));
                continue;
            }
            // It is there and lets nodes in: this one has asked often, or many others have.
            Ok(Err(Ending::Refused {
                status: status @ (429 | 503),
                ..
            })) => {
                let found = format!("{gateway} is there, and says not now ({status})");
                findings.push(Finding::good(CHECK, found));
                continue;
            }
            Ok(Err(ending)) => ending.to_string(),
            Err(_) => format!("no answer in {} s", PATIENCE.as_secs()),
        };
        findings.push(Finding::wrong(
            CHECK,
            format!("{gateway}: {problem}"),
            "check the firewall between here and there, and that the gateway runs; where it refuses this node's \
             certificate, look at identity and clock above, and whether the node was removed",
        ));
    }
    findings
}
