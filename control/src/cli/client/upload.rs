//! Files on their way to control.

use std::time::Duration;

use bc_protocol::digest::Sha256;
use reqwest::{
    Body,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, ETAG},
};
use serde_json::Value;
use tokio_util::io::ReaderStream;

use super::{CallError, Client};

/// A binary of half a gigabyte over a thin line. Control sends away who stalls.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(75 * 60);

impl Client {
    /// The text that control serves beside its API.
    pub(in crate::cli) async fn page(
        &self,
        name: &str,
        query: Option<&str>,
    ) -> Result<String, CallError> {
        let mut address = self.base.clone();
        let path = self.base.path().trim_end_matches('/');
        address.set_path(&format!("{path}/{name}"));
        address.set_query(query);
        let asked = self.http.get(address).send().await;
        let answer = asked.map_err(|source| self.no_answer(source))?;
        let (status, request) = (answer.status(), super::request_id(&answer));
        let body = self.body(answer).await?;
        if status.is_success() {
            return Ok(String::from_utf8_lossy(&body).into_owned());
        }
        Err(match serde_json::from_slice::<Value>(&body) {
            Ok(raw) => self.refused("install.sh", status, request, raw),
            Err(_) => self.foreign(status, None, &body),
        })
    }

    /// Whether control serves a file of this digest there. Where it does not say so, it does not.
    pub(in crate::cli) async fn has(&self, path: &str, digest: &Sha256) -> Result<bool, CallError> {
        let asked = self.http.head(self.address(path)).send().await;
        let answer = asked.map_err(|source| self.no_answer(source))?;
        let tag = answer.headers().get(ETAG).and_then(|tag| tag.to_str().ok());
        let wanted = format!("\"{digest}\"");
        Ok(answer.status().is_success() && tag == Some(wanted.as_str()))
    }

    /// Sends a file.
    pub(in crate::cli) async fn put(
        &self,
        path: &str,
        file: tokio::fs::File,
        size: u64,
    ) -> Result<(), CallError> {
        let sent = self
            .http
            .put(self.address(path))
            .timeout(UPLOAD_TIMEOUT)
            .header(AUTHORIZATION, self.authorization.clone())
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, size)
            .body(Body::wrap_stream(ReaderStream::new(file)))
            .send()
            .await;
        let answer = sent.map_err(|source| self.no_answer(source))?;
        let status = answer.status();
        let request = super::request_id(&answer);
        let body = self.body(answer).await?;
        match serde_json::from_slice::<Value>(&body) {
            Ok(_) if status.is_success() => Ok(()),
            Ok(raw) => Err(self.refused("downloads/put", status, request, raw)),
            Err(_) => Err(self.foreign(status, None, &body)),
        }
    }
}
