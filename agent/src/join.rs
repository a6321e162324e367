//! How a machine becomes a node of a fleet, and stays one when its certificate has ended.
//!
//! Takes control's address and a join token, leaves an identity. The key is on disk before the first request, so a
//! join whose answer got lost is simply tried again: control knows the key and spends no second use. Never shows the
//! token, and never sends the key.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bc_protocol::id::NodeId;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    Request, StatusCode,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT},
};
use rcgen::{CertificateParams, CertificateSigningRequest, DistinguishedName, KeyPair};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::{
    dial::Reach,
    durable,
    http::{self, HttpError, Patience, Server, Web},
    identity::{self, Identity, IdentityError, Membership},
    labels,
    updater::host::with_causes,
};

/// Bytes of a token's file: a token has about 80.
const TOKEN_BYTES_MAX: u64 = 1 << 10;

/// Bytes of control's answer: two certificates and some addresses.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// Until control's head is here. It signs one certificate and commits one row.
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(15),
    head: Duration::from_secs(30),
};

/// From the answer's head to its end.
const BODY_DEADLINE: Duration = Duration::from_secs(15);

/// What a join needs.
#[derive(Debug)]
pub(crate) struct Join<'a> {
    /// Where control's API is.
    pub(crate) control: &'a Url,
    /// The file with the token in its bearer form.
    pub(crate) token_file: &'a Path,
    /// The folder that will hold the identity.
    pub(crate) identity: &'a Path,
    /// The owner's labels.
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// How control may be spoken to.
    pub(crate) web: &'a Web,
}

/// How a join ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The machine is a node now.
    Now(NodeId),
    /// It has been one before; nothing was asked.
    Already(NodeId),
    /// It has been one before, and control has given what was damaged.
    Mended(NodeId),
}

/// Why a machine is no node.
#[derive(Debug, Error)]
pub(crate) enum JoinError {
    /// The token's file cannot be read.
    #[error("the join token in {} cannot be read", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// It holds something else.
    #[error("expected a join token, bcjt_ID.SECRET, in {}, found other text", .0.display())]
    Token(PathBuf),
    /// The identity's folder.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// There is no runtime, or no certificate request.
    #[error("{what} cannot be made: {found}")]
    Setup {
        /// What.
        what: &'static str,
        /// Why.
        found: String,
    },
    /// Control gave no answer.
    #[error(transparent)]
    NotReached(#[from] HttpError),
    /// Control's answer stopped in the middle.
    #[error("expected control's answer to end, found {0}")]
    Cut(String),
    /// Control said no.
    #[error("control refused: {code}: {message}")]
    Refused {
        /// The API's word.
        code: String,
        /// The API's sentence.
        message: String,
    },
    /// Something answered that is not control.
    #[error("expected control's API at {url}, found an answer with status {status}")]
    NotControl {
        /// The address.
        url: String,
        /// The status.
        status: StatusCode,
    },
}

/// Joins, unless the machine has joined.
pub(crate) fn run(join: &Join<'_>) -> Result<Joined, JoinError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| setup("a runtime", error))?;
    match Identity::load(join.identity) {
        Ok(identity) => return Ok(Joined::Already(identity.node_id().clone())),
        // Nothing there, or a join that was not answered.
        Err(IdentityError::Absent(_)) => {}
        Err(damaged) => {
            tracing::warn!(error = %with_causes(&damaged), "the identity is damaged");
            let mended = mend(join.identity, Some(join.control), join.web);
            if let Some(node_id) = runtime.block_on(mended)? {
                return Ok(Joined::Mended(node_id));
            }
        }
    }
    let token = token_of(join.token_file)?;
    let key = identity::key_or_new(join.identity)?;
    let membership = runtime.block_on(ask(join, token, &key))?;
    identity::save(join.identity, &key, &membership, Some(join.control))?;
    Ok(Joined::Now(membership.node_id))
}

#[derive(Serialize)]
struct Body<'a> {
    csr: &'a str,
    labels: &'a BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: String,
    message: String,
}

async fn ask(join: &Join<'_>, token: HeaderValue, key: &KeyPair) -> Result<Membership, JoinError> {
    let body = serde_json::to_vec(&Body {
        csr: &pem_request_of(key)?,
        labels: &labels::current(join.labels),
    });
    let url = address(join.control, "nodes/join");
    post(&url, join.web, Some(token), body).await
}

/// Has control give anew what is damaged of an identity whose key is left: the key says who asks. None where nothing
/// says any more whose key it is, or where control is.
pub(crate) async fn mend(
    folder: &Path,
    control: Option<&Url>,
    web: &Web,
) -> Result<Option<NodeId>, JoinError> {
    let Some(remains) = identity::remains(folder) else {
        return Ok(None);
    };
    let Some(control) = control.or(remains.control.as_ref()) else {
        return Ok(None);
    };
    let membership = renew(control, web, &remains.node_id, &remains.key).await?;
    identity::save(folder, &remains.key, &membership, Some(control))?;
    tracing::info!(node = %membership.node_id, "control has given the identity anew");
    Ok(Some(membership.node_id))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RenewBody<'a> {
    node_id: &'a NodeId,
    csr: &'a str,
}

/// Asks control for a new certificate. The key says who asks; no token does.
pub(crate) async fn renew(
    control: &Url,
    web: &Web,
    node_id: &NodeId,
    key: &KeyPair,
) -> Result<Membership, JoinError> {
    let csr = &pem_request_of(key)?;
    let body = serde_json::to_vec(&RenewBody { node_id, csr });
    post(&address(control, "nodes/renew"), web, None, body).await
}

async fn post(
    url: &Url,
    web: &Web,
    token: Option<HeaderValue>,
    body: serde_json::Result<Vec<u8>>,
) -> Result<Membership, JoinError> {
    let body = body.map_err(|error| setup("the request", error))?;
    let server = Server::of(url, web.plain_http, Reach::Anywhere)?;
    let tls = web.tls_for(&server).map_err(HttpError::from)?;
    let mut request = Request::post(http::target(url)).header(HOST, http::authority(url));
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, "bcd")
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| setup("the request", error))?;
    let mut exchange = server.ask(request, tls, PATIENCE).await?;
    let status = exchange.response.status();
    let answer = read(exchange.response.body_mut()).await?;
    understood(url, status, &answer)
}

fn understood(url: &Url, status: StatusCode, answer: &[u8]) -> Result<Membership, JoinError> {
    let not_control = || JoinError::NotControl {
        url: http::shown(url),
        status,
    };
    if status.is_success() {
        return serde_json::from_slice(answer).map_err(|_| not_control());
    }
    let refusal: ErrorBody = serde_json::from_slice(answer).map_err(|_| not_control())?;
    Err(JoinError::Refused {
        code: refusal.error.code,
        message: refusal.error.message,
    })
}

async fn read(body: &mut Incoming) -> Result<Bytes, JoinError> {
    let whole = timeout(
        BODY_DEADLINE,
        Limited::new(body, ANSWER_BYTES_MAX).collect(),
    )
    .await
    .map_err(|_| JoinError::Cut(format!("silence for {} s", BODY_DEADLINE.as_secs())))?;
    match whole {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(JoinError::Cut(format!(
            "more than {ANSWER_BYTES_MAX} bytes"
        ))),
        Err(error) => Err(JoinError::Cut(error.to_string())),
    }
}

fn token_of(path: &Path) -> Result<HeaderValue, JoinError> {
    let bytes =
        durable::read_bounded(path, TOKEN_BYTES_MAX).map_err(|cause| JoinError::TokenFile {
            path: path.to_owned(),
            cause,
        })?;
    let token = str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
    let has_form = token
        .strip_prefix("bcjt_")
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(id, secret)| !id.is_empty() && !secret.is_empty());
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    match header {
        Ok(mut header) if has_form => {
            header.set_sensitive(true);
            Ok(header)
        }
        Ok(_) | Err(_) => Err(JoinError::Token(path.to_owned())),
    }
}

/// The certificate request: the key and nothing else. Who the node is, control says.
pub(crate) fn request_of(key: &KeyPair) -> Result<CertificateSigningRequest, JoinError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .serialize_request(key)
        .map_err(|error| setup("a certificate request", error))
}

fn pem_request_of(key: &KeyPair) -> Result<String, JoinError> {
    request_of(key)?
        .pem()
        .map_err(|error| setup("a certificate request", error))
}

fn address(control: &Url, method: &str) -> Url {
    let mut url = control.clone();
    let path = format!(
        "{}/api/compute/{method}",
        control.path().trim_end_matches('/')
    );
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

fn setup(what: &'static str, error: impl ToString) -> JoinError {
    JoinError::Setup {
        what,
        found: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
