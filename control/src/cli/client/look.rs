//! What control says of itself, to whoever asks.

use reqwest::header::DATE;
use serde_json::Value;

use super::{CallError, Client, header};
use crate::clock::Moment;

/// An answer of `/version` or `/readyz`, whatever its status.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Look {
    /// The answer.
    pub body: Value,
    /// The time on the other side, to the second.
    pub date: Option<Moment>,
}

impl Client {
    /// Looks at a page that wants no token.
    pub(in crate::cli) async fn look(&self, page: &str) -> Result<Look, CallError> {
        let mut address = self.base.clone();
        let path = self.base.path().trim_end_matches('/');
        address.set_path(&format!("{path}/{page}"));
        let response = self.http.get(address).send().await;
        let response = response.map_err(|source| self.no_answer(source))?;
        let status = response.status();
        let date = header(&response, DATE.as_str());
        let body = self.body(response).await?;
        let body = serde_json::from_slice(&body).map_err(|_| self.foreign(status, None, &body))?;
        Ok(Look {
            body,
            date: date.and_then(|date| Moment::from_http_date(&date)),
        })
    }
}
