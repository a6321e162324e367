//! Calls to control.
//!
//! Takes a method and its request, gives the answer or why there is none. Never follows a redirect, which would hand
//! the token to somebody else, and never waits for ever.

mod error;
mod look;
mod stream;
mod tls;
mod upload;

use std::time::Duration;

use bc_protocol::id::TenantId;
use reqwest::{
    Response, StatusCode,
    header::{AUTHORIZATION, HeaderValue, InvalidHeaderValue, LOCATION},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use url::Url;

use super::{
    limits::{ANSWER_BYTES_MAX, ANSWER_TRIES_MAX, CALL_TIMEOUT, CONNECT_TIMEOUT},
    print::Answer,
    secret::Secret,
};
use crate::api::error::{ErrorBody, ErrorObject};
pub(super) use error::{CallError, Refusal};
pub(super) use look::Look;
pub(super) use stream::{EventStream, Told};
pub(super) use tls::{Roots, tls};

/// A control, and who calls it.
#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    authorization: HeaderValue,
    /// Whose things the calls are about.
    pub tenant: TenantId,
}

/// Why a client cannot be made from the settings.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientError {
    #[error("expected a token of visible ASCII characters")]
    Token(#[source] InvalidHeaderValue),
    #[error("expected certificates in PEM")]
    Certificates(#[source] rustls_pki_types::pem::Error),
    #[error("expected at least one certificate in PEM, found none")]
    NoCertificates,
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("cannot set up HTTP")]
    Http(#[source] reqwest::Error),
}

impl Client {
    /// A client for the control at `base`, which speaks to no other.
    pub(super) fn new(
        base: Url,
        tenant: TenantId,
        token: &Secret,
        roots: &Roots,
    ) -> Result<Self, ClientError> {
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
            .map_err(ClientError::Token)?;
        authorization.set_sensitive(true);
        let mut http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls(&base, roots)?)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .user_agent(concat!("better-compute/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            // A proxy has its own loopback.
            http = http.no_proxy();
        }
        Ok(Self {
            http: http.build().map_err(ClientError::Http)?,
            base,
            authorization,
            tenant,
        })
    }

    /// Calls `method`, such as `rollouts/get`.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: &impl Serialize,
    ) -> Result<Answer<T>, CallError> {
        let response = self
            .http
            .post(self.address(method))
            .header(AUTHORIZATION, self.authorization.clone())
            .json(request)
            .send()
            .await
            .map_err(|source| self.no_answer(source))?;
        let status = response.status();
        let request = request_id(&response);
        let location = header(&response, LOCATION.as_str());
        let body = self.body(response).await?;
        if status.is_success() {
            return self.understood(status, &body);
        }
        Err(match serde_json::from_slice::<Value>(&body) {
            Ok(raw) => self.refused(method, status, request, raw),
            Err(_) => self.foreign(status, location, &body),
        })
    }

    /// Calls a method that has its effect once, however often it is called: where an answer is lost, it is asked for
    /// again.
    pub(super) async fn call_until_answered<T: DeserializeOwned>(
        &self,
        method: &'static str,
        request: &impl Serialize,
    ) -> Result<Answer<T>, CallError> {
        for _ in 1..ANSWER_TRIES_MAX {
            match self.call(method, request).await {
                Err(CallError::Lost { .. } | CallError::Silent { .. }) => {}
                answer => return answer,
            }
        }
        self.call(method, request).await
    }

    /// Where control is.
    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// The error of a control that has been asked again and again.
    pub(super) fn silent(&self, within: Duration) -> CallError {
        CallError::Silent {
            base: self.base.clone(),
            within,
        }
    }

    /// Where a method is called.
    pub(super) fn address(&self, method: &str) -> Url {
        let mut address = self.base.clone();
        let path = self.base.path().trim_end_matches('/');
        address.set_path(&format!("{path}/api/compute/{method}"));
        address
    }

    async fn body(&self, mut response: Response) -> Result<Vec<u8>, CallError> {
        let mut body = Vec::new();
        while let Some(chunk) = response
            .chunk()
            .await
            .map_err(|source| self.no_answer(source))?
        {
            if body.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
                return Err(CallError::TooLong {
                    base: self.base.clone(),
                });
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }

    fn understood<T: DeserializeOwned>(
        &self,
        status: StatusCode,
        body: &[u8],
    ) -> Result<Answer<T>, CallError> {
        let raw: Value =
            serde_json::from_slice(body).map_err(|_| self.foreign(status, None, body))?;
        let value = T::deserialize(&raw).map_err(|source| CallError::Misunderstood {
            base: self.base.clone(),
            source,
        })?;
        Ok(Answer { value, raw })
    }

    fn refused(
        &self,
        method: &'static str,
        status: StatusCode,
        request: Option<String>,
        raw: Value,
    ) -> CallError {
        match serde_json::from_value::<ErrorBody>(raw.clone()) {
            Ok(body) => CallError::Refused {
                refusal: Box::new(Refusal {
                    method,
                    request: request.or_else(|| in_details(&body.error)),
                    object: body.error,
                    raw,
                }),
            },
            Err(_) => self.foreign(status, None, raw.to_string().as_bytes()),
        }
    }

    fn no_answer(&self, source: reqwest::Error) -> CallError {
        let base = self.base.clone();
        let source = source.without_url();
        if source.is_connect() {
            CallError::NotReached { base, source }
        } else if source.is_timeout() {
            CallError::Silent {
                base,
                within: CALL_TIMEOUT,
            }
        } else {
            CallError::Lost { base, source }
        }
    }

    fn foreign(&self, status: StatusCode, location: Option<String>, body: &[u8]) -> CallError {
        let base = self.base.clone();
        match (status, location) {
            (
                StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
                _,
            ) => CallError::Gateway { base, status },
            (status, Some(to)) if status.is_redirection() => CallError::Redirected { base, to },
            (status, _) => CallError::Foreign {
                base,
                status,
                found: excerpt(body),
            },
        }
    }
}

/// Whether an address is on this machine.
pub(super) fn is_loopback(base: &Url) -> bool {
    match base.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn request_id(response: &Response) -> Option<String> {
    header(response, "x-request-id")
}

fn header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?.to_str().ok()?;
    Some(value.to_owned())
}

fn in_details(error: &ErrorObject) -> Option<String> {
    let id = error.details.get("requestId")?.as_str()?;
    Some(id.to_owned())
}

/// The beginning of what somebody else sent.
fn excerpt(body: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 120;
    let shown = body.get(..SHOWN_BYTES_MAX).unwrap_or(body);
    let text = String::from_utf8_lossy(shown);
    let text = text.trim();
    if text.is_empty() {
        "an empty body".to_owned()
    } else {
        format!("\"{text}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(base: &str) -> Client {
        Client::new(
            base.parse().unwrap(),
            "root".parse().unwrap(),
            &Secret::new("t"),
            &Roots::System,
        )
        .unwrap()
    }

    #[test]
    fn a_base_with_a_path_keeps_it() {
        for (base, address) in [
            (
                "http://127.0.0.1:1",
                "http://127.0.0.1:1/api/compute/pools/list",
            ),
            (
                "http://127.0.0.1:1/fleet/",
                "http://127.0.0.1:1/fleet/api/compute/pools/list",
            ),
        ] {
            assert_eq!(client(base).address("pools/list").as_str(), address);
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (base, loopback) in [
            ("http://127.0.0.1:1", true),
            ("http://127.9.9.9", true),
            ("http://localhost", true),
            ("http://[::1]:1", true),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
            ("http://[::2]", false),
        ] {
            assert_eq!(is_loopback(&base.parse().unwrap()), loopback, "{base}");
        }
    }

    #[test]
    fn a_token_that_no_header_can_carry_is_refused() {
        let refused = Client::new(
            "http://127.0.0.1:1".parse().unwrap(),
            "root".parse().unwrap(),
            &Secret::new("a\nb"),
            &Roots::System,
        );
        assert!(matches!(refused, Err(ClientError::Token(_))));
    }

    #[test]
    fn the_client_shows_no_token_in_a_debug_print() {
        let client = Client::new(
            "http://127.0.0.1:1".parse().unwrap(),
            "root".parse().unwrap(),
            &Secret::new("hush"),
            &Roots::System,
        );
        assert!(!format!("{client:?}").contains("hush"));
    }
}
