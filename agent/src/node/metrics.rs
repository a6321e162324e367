//! What a node shows to a Prometheus on its own machine, where its owner wants it.
//!
//! Takes what the node knows of itself, and gives it to who connects, one after the other. Never listens but on loopback,
//! and a node that cannot show itself lives as well.

use std::{
    fmt::{self, Write as _},
    io,
    net::SocketAddr,
    time::Duration,
};

use bc_protocol::{session::Outcome, version::Version};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::update::{UpdateState, Updates};

/// How long whoever asks may take, since others wait; and how long to wait where nobody can be let in.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes of a request: what a scraper sends, ten times.
const REQUEST_BYTES_MAX: u64 = 4096;

/// An address that only this machine can reach.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().ok();
    address
        .filter(|address| address.ip().is_loopback())
        .ok_or_else(|| "expected a loopback address such as 127.0.0.1:9464".to_owned())
}

/// Shows the node until it ends.
pub(super) async fn show(listen: SocketAddr, version: Version, updates: Updates) {
    let listener = match TcpListener::bind(listen).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(%listen, %error, "the node shows no metrics");
            return;
        }
    };
    let state = updates.state();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let text = text(&version, &state.borrow(), updates.is_connected());
                if let Ok(Err(error)) = timeout(PATIENCE, answer(stream, &text)).await {
                    tracing::debug!(%error, "metrics were not taken");
                }
            }
            Err(error) => {
                tracing::debug!(%error, "nobody can ask for metrics");
                sleep(PATIENCE).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, text: &str) -> io::Result<()> {
    let mut request = Vec::new();
    let mut head = (&mut stream).take(REQUEST_BYTES_MAX);
    while !request.ends_with(b"\r\n\r\n") {
        if head.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let (status, text) = if request.starts_with(b"GET /metrics ") {
        ("200 OK", text)
    } else {
        ("404 Not Found", "expected GET /metrics\n")
    };
    let length = text.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// As Prometheus reads it.
fn text(version: &Version, state: &UpdateState, connected: bool) -> String {
    let mut text = String::new();
    let last = state.last_attempt.as_ref();
    let failed = last.is_some_and(|last| last.is_final && last.outcome != Outcome::Confirmed);
    let written = [
        (
            "session_connected",
            "Whether a gateway has welcomed the node.",
            connected.into(),
        ),
        (
            "running_sequence",
            "The sequence of the release that runs.",
            state.sequence.get(),
        ),
        (
            "release_floor",
            "The sequence of the newest release that the node has confirmed.",
            state.floor.sequence().get(),
        ),
        (
            "trial",
            "Whether the binary that runs is on trial.",
            state.trial.is_some().into(),
        ),
        (
            "last_attempt_failed",
            "Whether the last attempt ended without its release.",
            failed.into(),
        ),
        (
            "held",
            "Whether the owner holds updates.",
            state.held.is_some().into(),
        ),
        (
            "spec_generation",
            "The newest desired state that the node has seen.",
            state.observed_generation,
        ),
    ];
    let mut all = build(&mut text, version);
    for (name, about, value) in written {
        all = all.and_then(|()| gauge(&mut text, name, about, value));
    }
    if all.is_err() {
        tracing::debug!("metrics cannot be written down");
    }
    text
}

fn build(text: &mut String, version: &Version) -> fmt::Result {
    writeln!(
        text,
        "# HELP bcd_build_info Which build runs.\n# TYPE bcd_build_info gauge"
    )?;
    writeln!(text, "bcd_build_info{{version=\"{version}\"}} 1")
}

fn gauge(text: &mut String, name: &str, about: &str, value: u64) -> fmt::Result {
    writeln!(
        text,
        "# HELP bcd_{name} {about}\n# TYPE bcd_{name} gauge\nbcd_{name} {value}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_but_this_machine_can_ask() {
        assert!(loopback("127.0.0.1:9464").is_ok() && loopback("[::1]:9464").is_ok());
        for elsewhere in [
            "0.0.0.0:9464",
            "[::]:9464",
            "10.0.0.1:9464",
            "9464",
            "localhost:9464",
        ] {
            loopback(elsewhere).unwrap_err();
        }
    }
}
