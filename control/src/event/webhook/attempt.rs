//! One attempt to deliver one event.
//!
//! Takes what was handed out, sends it once, gives how it went and what follows. A status of 200 to 299 is the only
//! yes. Of the answer nothing but the status is read.

use std::{error::Error, time::Duration};

use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::json;

use super::{
    queue::{Taken, Went},
    reach::{ANSWER_TIMEOUT, Clients, UrlError},
};
use crate::{api::event::DeliveryState, clock::Moment};

/// From an attempt that failed to the next: about two days altogether.
const WAITS: [Duration; 12] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(60 * 60),
    Duration::from_secs(2 * 60 * 60),
    Duration::from_secs(4 * 60 * 60),
    Duration::from_secs(8 * 60 * 60),
    Duration::from_secs(12 * 60 * 60),
    Duration::from_secs(24 * 60 * 60),
];

/// What is told of a failure.
const ERROR_CHARS_MAX: usize = 300;

/// Sends it.
pub(super) async fn send(clients: &Clients, taken: &Taken, now: Moment) -> Went {
    let answer = match message(clients, taken, now) {
        Ok(request) => request.send().await.map_err(|error| why(&error)),
        Err(error) => Err(error.to_string()),
    };
    let (status, error) = match answer {
        Ok(answer) if answer.status().is_success() => {
            return Went {
                state: DeliveryState::Delivered,
                due_at: now,
                status: Some(answer.status().as_u16().into()),
                error: None,
            };
        }
        Ok(answer) => {
            let status = answer.status().as_u16();
            let error = format!("expected a status of 200 to 299, found {status}");
            (Some(status.into()), error)
        }
        Err(error) => (None, error),
    };
    let (state, due_at) = match wait_after(taken.attempt) {
        Some(wait) => (DeliveryState::Pending, now.plus(wait)),
        None => (DeliveryState::Failed, now),
    };
    Went {
        state,
        due_at,
        status,
        error: Some(error.chars().take(ERROR_CHARS_MAX).collect()),
    }
}

fn message(
    clients: &Clients,
    taken: &Taken,
    now: Moment,
) -> Result<reqwest::RequestBuilder, UrlError> {
    let (client, url) = clients.reach(&taken.url)?;
    let event = &taken.event;
    let body = json!({ "type": event.kind, "timestamp": event.at, "data": event }).to_string();
    let at = now.millis().div_euclid(1000);
    let signature = taken.secret.sign(event.id.as_str(), at, body.as_bytes());
    Ok(client
        .post(url)
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(HeaderName::from_static("webhook-id"), event.id.as_str())
        .header(HeaderName::from_static("webhook-timestamp"), at)
        .header(HeaderName::from_static("webhook-signature"), signature)
        .body(body))
}

/// How long to wait after an attempt that failed; nothing after the last.
fn wait_after(attempt: u32) -> Option<Duration> {
    let before = usize::try_from(attempt)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    WAITS.get(before).copied()
}

/// Why nothing came back: the last cause alone, for what stands before it says no more than that it failed.
fn why(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        let seconds = ANSWER_TIMEOUT.as_secs();
        return format!("expected an answer within {seconds} seconds, found none");
    }
    without_manual(&last(error).to_string()).to_owned()
}

/// Some causes end with the address of a library's manual, which tells nothing to whoever owns the webhook.
fn without_manual(cause: &str) -> &str {
    cause
        .split_once(": https://docs.rs/")
        .map_or(cause, |(cause, _)| cause)
}

fn last<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{WAITS, wait_after, without_manual};

    #[test]
    fn a_cause_leads_to_no_manual() {
        let cause = "peer closed connection without sending TLS close_notify: https://docs.rs/rustls/latest/rustls/manual/x.html";
        let expected = "peer closed connection without sending TLS close_notify";
        assert_eq!(without_manual(cause), expected);
        assert_eq!(
            without_manual("connection refused: x"),
            "connection refused: x"
        );
    }

    #[test]
    fn it_waits_longer_each_time_and_ends() {
        assert_eq!(wait_after(1), Some(WAITS[0]));
        assert_eq!(wait_after(12), Some(WAITS[11]));
        assert_eq!((wait_after(13), wait_after(u32::MAX)), (None, None));
        assert!(WAITS.is_sorted());
    }
}
