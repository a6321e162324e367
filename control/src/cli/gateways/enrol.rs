//! `gateways enrol`.

use clap::Args;
use url::Url;

use crate::{
    api::gateway::{EnrolGateway, NewGateway},
    cli::{dry::DryRun, exit::Exit, failure::Failure, issued::Destination, online::Online},
};

/// Make a one-use token with which a gateway enrols
///
/// The gateway's certificate will be for the host of its address. The global flag --url, which says where control
/// listens, is --api-url behind this command.
#[derive(Debug, Args)]
pub(in crate::cli) struct Enrol {
    /// What people call the gateway
    #[arg(value_name = "NAME")]
    name: String,
    /// Where nodes reach it, such as wss://gateway.example:8443/session; control's own address is --api-url here
    #[arg(long, value_name = "SESSIONS", value_parser = session_url)]
    url: Url,
    #[command(flatten)]
    destination: Destination,
    #[command(flatten)]
    dry_run: DryRun,
}

impl Enrol {
    pub(super) async fn run(self, online: &Online) -> Result<Exit, Failure> {
        let request = EnrolGateway {
            tenant_id: online.client.tenant.clone(),
            name: self.name,
            url: self.url.into(),
        };
        if self.dry_run.is_wanted() {
            return DryRun::show(online, "gateways/enrol", &request);
        }
        let destination = self.destination.prepare()?;
        let answer = online
            .client
            .call::<NewGateway>("gateways/enrol", &request)
            .await?;
        destination.hand_over(&online.printer, answer)?;
        Ok(Exit::Done)
    }
}

/// Why a text is no address of a gateway.
#[derive(Debug, thiserror::Error)]
#[error("expected an address like wss://gateway.example/session")]
struct NoSessionUrl;

fn session_url(text: &str) -> Result<Url, NoSessionUrl> {
    let url = Url::parse(text).map_err(|_| NoSessionUrl)?;
    let plain = url.scheme() == "wss"
        && url.has_host()
        && url.path() == "/session"
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if plain { Ok(url) } else { Err(NoSessionUrl) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_encrypted_and_have_one_path() {
        for text in ["wss://g.example/session", "wss://127.0.0.1:8443/session"] {
            assert!(session_url(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "g.example",
            "ws://g.example/session",
            "https://g.example/session",
            "wss://g.example",
            "wss://g.example/session?x",
            "wss://u@g.example/session",
        ] {
            assert!(session_url(text).is_err(), "{text}");
        }
    }
}
