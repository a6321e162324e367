//! What operators ask of either control, and what they are answered.

use std::time::Duration;

use anyhow::{Context, Result};
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// How long an operator waits for an answer. A control that stands still gives none.
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Answer {
    /// It was done.
    Done(Value),
    /// It was not, for a reason.
    Refused(Value),
    /// It may have been done or not, or may be later; with what was heard of it.
    Unknown(String),
}

/// An operator's call of a rollout, for the books.
#[derive(Clone, Debug)]
pub(super) struct Said {
    /// `pause`, `resume` or `abort`.
    pub(super) method: &'static str,
    pub(super) rollout: String,
    /// In milliseconds since 1970, by the clock that the database has too.
    pub(super) sent_at: i64,
    pub(super) answered_at: i64,
    pub(super) outcome: Outcome,
}

/// See [`Answer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Refused,
    Unknown,
}

/// Somebody with the first administrator's token.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    client: reqwest::Client,
    urls: [String; 2],
    token: String,
}

impl Caller {
    pub(super) fn new(urls: [String; 2], token: String) -> Result<Self> {
        let client = crate::simulated::client()?;
        Ok(Self {
            client,
            urls,
            token,
        })
    }

    /// Calls one of the controls.
    pub(super) async fn call(&self, control: usize, method: &str, body: Value) -> Answer {
        self.try_call(control, method, body)
            .await
            .unwrap_or_else(|error| Answer::Unknown(format!("{error:#}")))
    }

    async fn try_call(&self, control: usize, method: &str, mut body: Value) -> Result<Answer> {
        let [one, two] = &self.urls;
        let url = if control == 0 { one } else { two };
        if let Some(body) = body.as_object_mut() {
            body.insert("tenantId".to_owned(), "root".into());
        }
        let request = self
            .client
            .post(format!("{url}/api/compute/{method}"))
            .bearer_auth(&self.token)
            .timeout(PATIENCE)
            .json(&body);
        let answer = request.send().await?;
        let status = answer.status();
        let body: Value = answer.json().await?;
        Ok(if status.is_success() {
            Answer::Done(body)
        } else if status.is_server_error() {
            Answer::Unknown(body.to_string())
        } else {
            Answer::Refused(body)
        })
    }

    /// Calls whichever control answers, until one does.
    pub(super) async fn insist(&self, method: &str, body: Value) -> Result<Value> {
        let mut heard = String::new();
        for turn in 0..60 {
            match self.call(turn % 2, method, body.clone()).await {
                Answer::Done(value) => return Ok(value),
                Answer::Refused(error) => anyhow::bail!("{method} was refused: {error}"),
                Answer::Unknown(why) => heard = why,
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        anyhow::bail!("{method} was never answered, last with {heard}")
    }

    /// An operator's call of a rollout, with its entry for the books.
    pub(super) async fn operate(
        &self,
        control: usize,
        method: &'static str,
        (rollout, mut more): (&str, Value),
    ) -> Said {
        if let Some(more) = more.as_object_mut() {
            more.insert("rolloutId".to_owned(), rollout.into());
        }
        let sent_at = wall_ms();
        let answer = self
            .call(control, &format!("rollouts/{method}"), more)
            .await;
        Said {
            method,
            rollout: rollout.to_owned(),
            sent_at,
            answered_at: wall_ms(),
            outcome: match answer {
                Answer::Done(_) => Outcome::Done,
                Answer::Refused(_) => Outcome::Refused,
                Answer::Unknown(_) => Outcome::Unknown,
            },
        }
    }

    /// As many equal creates at once, over both controls. I28: equal answers, by the id.
    pub(super) async fn create(&self, request: &Value, times: usize) -> Result<String> {
        let calls =
            (0..times).map(|number| self.call(number % 2, "rollouts/create", request.clone()));
        let answers = futures_util::future::join_all(calls).await;
        let id = |rollout: &Value| Some(rollout.get("id")?.as_str()?.to_owned());
        let mut ids = Vec::new();
        for answer in answers {
            match answer {
                Answer::Done(rollout) => ids.extend(id(&rollout)),
                Answer::Refused(error) => anyhow::bail!("I28: equal creates, one refused: {error}"),
                Answer::Unknown(_) => {}
            }
        }
        let again = self.insist("rollouts/create", request.clone()).await?;
        let again = id(&again).context("a rollout without an id")?;
        ids.retain(|id| *id != again);
        anyhow::ensure!(ids.is_empty(), "I28: {again} and {ids:?} of one key");
        Ok(again)
    }

    /// Where the events of the root tenant are watched.
    pub(super) fn watch(&self, control: usize, last: i64) -> reqwest::RequestBuilder {
        let [one, two] = &self.urls;
        let url = if control == 0 { one } else { two };
        self.client
            .post(format!("{url}/api/compute/events/watch"))
            .bearer_auth(&self.token)
            .header("Last-Event-ID", last.to_string())
            .json(&json!({ "tenantId": "root" }))
    }
}

/// The clock that people and databases read.
fn wall_ms() -> i64 {
    // It cannot fail for this clock; and a campaign that reads zero has everything answered too early.
    clock_gettime(ClockId::CLOCK_REALTIME)
        .map_or(0, |time| time.tv_sec() * 1000 + time.tv_nsec() / 1_000_000)
}
