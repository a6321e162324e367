//! How a new gateway gets its certificate.
//!
//! Takes a one-use token, gives control's answer, kept in the state folder. A lost answer costs nothing: the key is on
//! disk before the first try, and control knows a gateway by it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::id::GatewayId;
use reqwest::{Certificate, Client, StatusCode, redirect::Policy, tls};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tracing::warn;
use url::Url;

use crate::{
    backoff::Backoff,
    causes::with_causes,
    clock,
    config::Config,
    credentials::{Credentials, CredentialsError},
    identity::{Enrolled, Folder, Identity, IdentityError},
    limits::{ENROL_ANSWER_BYTES_MAX, ENROL_TIMEOUT},
};

const JOIN: &str = "/api/compute/gateways/join";

/// Why the gateway cannot enrol.
#[derive(Debug, Error)]
pub(crate) enum EnrolError {
    /// There is no token.
    #[error(
        "this gateway has no valid certificate: set enrol_token_file to a token of `better-compute gateways enrol`"
    )]
    NoToken,
    /// The token's file holds nothing.
    #[error("enrol_token_file: expected a token in {}, found nothing", path.display())]
    EmptyToken {
        /// Which file.
        path: PathBuf,
    },
    /// The authorities' file holds none.
    #[error("ca_file: expected certificates in {}, found none", path.display())]
    NoAuthority {
        /// Which file.
        path: PathBuf,
    },
    /// A file of the configuration cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Control's address or authority does not serve for a connection.
    #[error("cannot set up a connection to {control}")]
    Setup {
        /// Where.
        control: Url,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Control was not reached, or did not answer as control does. Worth another try.
    #[error("expected an answer from {control}, found none: {found}")]
    NotNow {
        /// Where.
        control: Url,
        /// What happened.
        found: String,
    },
    /// Control said no.
    #[error("control refuses this gateway: {code}: {message}")]
    Refused {
        /// Control's word for it.
        code: String,
        /// Control's sentence.
        message: String,
    },
    /// The state folder does not work.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

#[derive(Serialize)]
struct JoinGateway {
    csr: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct JoinedGateway {
    gateway_id: GatewayId,
    certificate: String,
    authorities: String,
    link_url: Url,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalError,
}

#[derive(Deserialize)]
struct RefusalError {
    code: String,
    message: String,
}

/// The gateway's identity; enrols first if it has none, and waits for a control that is not there. One whose
/// certificate ended while it was away enrols again: control knows it by its key.
pub(crate) async fn identity(folder: &Folder, config: &Config) -> Result<Identity, EnrolError> {
    if let Some(identity) = folder.load()? {
        if !has_ended(&identity) {
            return Ok(identity);
        }
        warn!("the certificate has ended: enrolling again with the same key and token");
    }
    let path = config
        .enrol_token_file
        .as_ref()
        .ok_or(EnrolError::NoToken)?;
    let token = read(path)?;
    let client = client(config)?;
    let mut backoff = Backoff::default();
    let enrolled = loop {
        match join(&client, config, token.trim(), folder.request()?).await {
            Ok(enrolled) => break enrolled,
            Err(error @ EnrolError::NotNow { .. }) => {
                let wait = backoff.after_failure(rand::random());
                warn!(%error, ?wait, "cannot enrol yet");
                tokio::time::sleep(wait).await;
            }
            Err(error) => return Err(error),
        }
    };
    folder.save(&enrolled)?;
    folder.load()?.ok_or(EnrolError::NoToken)
}

/// Enrols again, once, a gateway that runs and whose certificate has ended: control knows it by its key.
pub(crate) async fn again(config: &Config, credentials: &Credentials) -> Result<(), AgainError> {
    let path = config.enrol_token_file.as_ref();
    let token = read(path.ok_or(EnrolError::NoToken)?)?;
    let csr = credentials.folder().request().map_err(EnrolError::from)?;
    let enrolled = join(&client(config)?, config, token.trim(), csr).await?;
    Ok(credentials.enrolled(&enrolled)?)
}

/// Why a gateway that runs is not enrolled again.
#[derive(Debug, Error)]
pub(crate) enum AgainError {
    /// Control gives no certificate.
    #[error(transparent)]
    Enrol(#[from] EnrolError),
    /// The one that it gives does not serve.
    #[error("cannot use the certificate")]
    Credentials(#[from] CredentialsError),
}

/// Whether its time is over. One that cannot be read is no reason to enrol again: whoever uses it says what it is.
fn has_ended(identity: &Identity) -> bool {
    let now = i64::try_from(clock::unix_ms() / 1000).unwrap_or(i64::MAX);
    identity
        .validity()
        .is_ok_and(|validity| validity.has_ended(now))
}

/// The identity that a start would use, and nothing where it would enrol: then whether what that needs is there, as far as
/// it shows without asking control. It only looks.
pub(crate) fn check(config: &Config) -> Result<Option<(Folder, Identity)>, EnrolError> {
    client(config)?;
    let folder = Folder::at(&config.state_dir);
    match folder.load()? {
        Some(identity) if !has_ended(&identity) => return Ok(Some((folder, identity))),
        Some(_) | None => folder.check_key()?,
    }
    let path = config.enrol_token_file.as_ref();
    let path = path.ok_or(EnrolError::NoToken)?;
    if read(path)?.trim().is_empty() {
        return Err(EnrolError::EmptyToken { path: path.clone() });
    }
    Ok(None)
}

async fn join(
    client: &Client,
    config: &Config,
    token: &str,
    csr: String,
) -> Result<Enrolled, EnrolError> {
    let not_now = |found: String| EnrolError::NotNow {
        control: config.control.clone(),
        found,
    };
    let url = config
        .control
        .join(JOIN)
        .map_err(|error| setup(config, error))?;
    let sent = client
        .post(url)
        .bearer_auth(token)
        .json(&JoinGateway { csr })
        .send()
        .await;
    let mut response = sent.map_err(|error| not_now(with_causes(&error)))?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(piece) = response
        .chunk()
        .await
        .map_err(|error| not_now(with_causes(&error)))?
    {
        body.extend_from_slice(&piece);
        if body.len() > ENROL_ANSWER_BYTES_MAX {
            return Err(not_now(format!("more than {ENROL_ANSWER_BYTES_MAX} bytes")));
        }
    }
    if status != StatusCode::OK {
        return Err(refusal(status, &body).unwrap_or_else(|| not_now(status.to_string())));
    }
    let joined: JoinedGateway =
        serde_json::from_slice(&body).map_err(|error| not_now(error.to_string()))?;
    Ok(Enrolled {
        gateway: joined.gateway_id,
        link: joined.link_url,
        certificate: joined.certificate,
        authorities: joined.authorities,
    })
}

/// Control's own no. Anything else that is not a yes, such as a proxy's 502, is worth another try.
fn refusal(status: StatusCode, body: &[u8]) -> Option<EnrolError> {
    if !status.is_client_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let refusal: Refusal = serde_json::from_slice(body).ok()?;
    Some(EnrolError::Refused {
        code: refusal.error.code,
        message: refusal.error.message,
    })
}

fn client(config: &Config) -> Result<Client, EnrolError> {
    let mut builder = Client::builder()
        .redirect(Policy::none())
        .tls_version_min(tls::Version::TLS_1_3)
        .connect_timeout(Duration::from_secs(10))
        .timeout(ENROL_TIMEOUT);
    if config.control.scheme() == "http" {
        // Only this machine is allowed there, and a proxy is not it. Nor is there anybody to trust: without this the
        // system's authorities would have to be there.
        builder = builder.no_proxy().tls_certs_only([]);
    }
    if let Some(path) = &config.ca_file {
        let authorities = Certificate::from_pem_bundle(read(path)?.as_bytes());
        let authorities = authorities.map_err(|error| setup(config, error))?;
        if authorities.is_empty() {
            return Err(EnrolError::NoAuthority { path: path.clone() });
        }
        builder = builder.tls_certs_only(authorities);
    }
    builder.build().map_err(|error| setup(config, error))
}

fn read(path: &Path) -> Result<String, EnrolError> {
    std::fs::read_to_string(path).map_err(|source| EnrolError::File {
        path: path.to_owned(),
        source,
    })
}

fn setup(
    config: &Config,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> EnrolError {
    EnrolError::Setup {
        control: config.control.clone(),
        source: source.into(),
    }
}
