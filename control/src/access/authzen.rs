//! Decisions of another service, by the OpenID AuthZEN evaluation API.
//!
//! Takes a question, asks it of the service, gives its yes; everything else is a no: a refusal, another status, an
//! answer that cannot be read, none in time. Keeps no decision for the next question.
//!
//! The subject carries its tenant and what its token says, the resource its tenant. The fleet exists in the root tenant
//! only: that is no question of anybody's policy, and is not asked.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use reqwest::{
    StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
};
use rustls::version::TLS13;
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use url::Url;

use super::{
    action::{Action, ROOT_TENANT},
    decide::{Decide, Denied, Question, Resource},
};
use crate::config::DecisionService;

/// A decision is one word; what comes with it is a few sentences.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The service that decides.
#[derive(Debug)]
pub(crate) struct AuthZen {
    http: reqwest::Client,
    evaluation: Url,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

/// Why the service cannot be asked at all.
#[derive(Debug, Error)]
pub(crate) enum AuthZenError {
    /// The token's file.
    #[error("access.authzen_token_file: cannot read {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The token itself.
    #[error(
        "access.authzen_token_file: expected visible ASCII characters in {}",
        path.display()
    )]
    Token {
        /// The file.
        path: PathBuf,
    },
    /// TLS.
    #[error("cannot set up TLS for the decision service")]
    Tls(#[from] rustls::Error),
    /// The client.
    #[error("cannot set up HTTP for the decision service")]
    Http(#[from] reqwest::Error),
}

impl AuthZen {
    /// Gets ready to ask; asks nothing yet.
    pub(crate) fn new(service: &DecisionService) -> Result<Self, AuthZenError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_platform_verifier()?
            .with_no_client_auth();
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            // A redirect would hand the question, and the token, to somebody else.
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .timeout(service.timeout)
            .user_agent(concat!("better-compute/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let mut evaluation = service.url.clone();
        let path = service.url.path().trim_end_matches('/');
        evaluation.set_path(&format!("{path}/access/v1/evaluation"));
        Ok(Self {
            http,
            evaluation,
            authorization: service.token_file.clone().map(authorization).transpose()?,
            timeout: service.timeout,
        })
    }

    async fn ask(&self, question: &Evaluation<'_>) -> Result<bool, NoAnswer> {
        let mut request = self.http.post(self.evaluation.clone()).json(question);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let mut answer = request.send().await?;
        if answer.status() != StatusCode::OK {
            return Err(NoAnswer::Status(answer.status()));
        }
        let kind = answer.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            return Err(NoAnswer::Kind(kind.chars().take(100).collect()));
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await? {
            if body.len() + piece.len() > ANSWER_BYTES_MAX {
                return Err(NoAnswer::TooLong);
            }
            body.extend_from_slice(&piece);
        }
        // Serde would read a list as the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(NoAnswer::NoObject);
        }
        let answer: Answer = serde_json::from_slice(&body)?;
        Ok(answer.decision)
    }
}

fn authorization(path: PathBuf) -> Result<HeaderValue, AuthZenError> {
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(AuthZenError::TokenFile { path, source }),
    };
    let mut value = HeaderValue::from_str(&format!("Bearer {}", text.trim()))
        .map_err(|_| AuthZenError::Token { path })?;
    value.set_sensitive(true);
    Ok(value)
}

impl Decide for AuthZen {
    fn decide<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Result<(), Denied>> {
        Box::pin(async move {
            let subject = question.subject;
            if question.resource == Resource::Fleet && subject.tenant.as_str() != ROOT_TENANT {
                return Err(Denied::Tenant {
                    resource: question.resource.to_string(),
                    tenant: subject.tenant.clone(),
                });
            }
            // The client's own time-out begins with the request; this one covers whatever comes before it too.
            let asked = Evaluation::of(&question);
            let answer = tokio::time::timeout(self.timeout, self.ask(&asked)).await;
            match answer.unwrap_or(Err(NoAnswer::Late)) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Denied::Permission {
                    wanted: question.action,
                    resource: question.resource.to_string(),
                    subject: subject.name.clone(),
                }),
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        error,
                        "the decision service gave no decision, which is a no"
                    );
                    Err(Denied::Undecided)
                }
            }
        })
    }
}

/// Why there is no decision.
#[derive(Debug, Error)]
enum NoAnswer {
    #[error("the request failed")]
    Http(#[from] reqwest::Error),
    #[error("expected status 200, found {0}")]
    Status(StatusCode),
    #[error("expected at most {ANSWER_BYTES_MAX} bytes, found more")]
    TooLong,
    #[error("expected the type application/json, found {0:?}")]
    Kind(String),
    #[error("expected an object with a decision, found something else")]
    NoObject,
    #[error("expected an object with a decision, found another")]
    Form(#[from] serde_json::Error),
    #[error("expected an answer in time, found none")]
    Late,
}

/// The one field of an answer that counts.
#[derive(Deserialize)]
struct Answer {
    decision: bool,
}

#[derive(Debug, Serialize)]
struct Evaluation<'a> {
    subject: Party<'a, SubjectProperties<'a>>,
    action: Named<'a>,
    resource: Party<'a, ResourceProperties<'a>>,
}

#[derive(Debug, Serialize)]
struct Party<'a, P> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: &'a str,
    properties: P,
}

#[derive(Debug, Serialize)]
struct Named<'a> {
    name: &'a str,
}

#[derive(Debug, Serialize)]
struct SubjectProperties<'a> {
    tenant: &'a str,
    permissions: Vec<&'static str>,
}

#[derive(Debug, Serialize)]
struct ResourceProperties<'a> {
    tenant: &'a str,
}

impl<'a> Evaluation<'a> {
    fn of(question: &Question<'a>) -> Self {
        let subject = question.subject;
        let (kind, id, tenant) = match question.resource {
            Resource::Fleet => ("compute-fleet", "global", ROOT_TENANT),
            Resource::Pool(tenant, Some(pool)) => ("compute-pool", pool.as_str(), tenant.as_str()),
            // Every pool of the tenant: no id is spelled like that.
            Resource::Pool(tenant, None) => ("compute-pool", "*", tenant.as_str()),
            Resource::Tenant(tenant) => ("compute-tenant", tenant.as_str(), tenant.as_str()),
        };
        Self {
            subject: Party {
                kind: "user",
                id: &subject.name,
                properties: SubjectProperties {
                    tenant: subject.tenant.as_str(),
                    permissions: subject.permissions.iter().map(|held| held.word()).collect(),
                },
            },
            action: Named {
                name: Action::word(question.action),
            },
            resource: Party {
                kind,
                id,
                properties: ResourceProperties { tenant },
            },
        }
    }
}

#[cfg(test)]
mod tests;
