//! Server-sent events, read from a connection.
//!
//! Takes bytes as they come, gives events one by one, in the order in which they were sent. Keeps no more than one event
//! that has not come whole. Comments are signs of life and nothing else.

use std::time::Duration;

use reqwest::{Response, header::AUTHORIZATION};
use serde_json::Value;
use tokio::time::timeout;

use super::{CallError, Client};
use crate::{
    api::event::WatchEvents,
    cli::limits::{EVENT_BYTES_MAX, STREAM_SILENCE_MAX},
};

/// As browsers send it, too.
const LAST_EVENT_ID: &str = "last-event-id";

/// Events as they come.
#[derive(Debug)]
pub(in crate::cli) struct EventStream {
    client: Client,
    response: Response,
    buffer: Vec<u8>,
    last: Option<u64>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Told {
    /// Its position: where a later watch goes on.
    id: Option<u64>,
    /// The event's object.
    pub data: Value,
}

impl Client {
    /// Watches events from behind the last that was seen on, or else as the request says.
    pub(in crate::cli) async fn watch(
        &self,
        request: &WatchEvents,
        last: Option<u64>,
    ) -> Result<EventStream, CallError> {
        const METHOD: &str = "events/watch";
        let mut asked = self
            .http
            .post(self.address(METHOD))
            .header(AUTHORIZATION, self.authorization.clone());
        if let Some(last) = last {
            asked = asked.header(LAST_EVENT_ID, last);
        }
        let asked = asked
            // It lasts as long as somebody watches; silence is what ends it.
            .timeout(Duration::from_secs(365 * 24 * 60 * 60))
            .json(request)
            .send();
        let response = match timeout(STREAM_SILENCE_MAX, asked).await {
            Ok(answer) => answer.map_err(|source| self.no_answer(source))?,
            Err(_) => return Err(self.silent(STREAM_SILENCE_MAX)),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(EventStream {
                client: self.clone(),
                response,
                buffer: Vec::new(),
                last,
            });
        }
        let request = super::request_id(&response);
        let body = self.body(response).await?;
        Err(match serde_json::from_slice::<Value>(&body) {
            Ok(raw) => self.refused(METHOD, status, request, raw),
            Err(_) => self.foreign(status, None, &body),
        })
    }
}

impl EventStream {
    /// The last event that was seen: where another stream goes on.
    pub(in crate::cli) fn last(&self) -> Option<u64> {
        self.last
    }

    /// The next event; nothing where the server has ended the stream.
    pub(in crate::cli) async fn next(&mut self) -> Result<Option<Told>, CallError> {
        loop {
            while let Some(block) = next_block(&mut self.buffer) {
                if let Some(told) = told(&block) {
                    self.last = told.id.or(self.last);
                    return Ok(Some(told));
                }
            }
            if self.buffer.len() > EVENT_BYTES_MAX {
                return Err(CallError::TooLong {
                    base: self.client.base.clone(),
                });
            }
            match timeout(STREAM_SILENCE_MAX, self.response.chunk()).await {
                Ok(Ok(Some(piece))) => self.buffer.extend_from_slice(&piece),
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(source)) => return Err(self.client.no_answer(source)),
                Err(_) => return Err(self.client.silent(STREAM_SILENCE_MAX)),
            }
        }
    }
}

/// Takes what stands before the first empty line.
fn next_block(buffer: &mut Vec<u8>) -> Option<String> {
    let end = buffer.windows(2).position(|two| two == b"\n\n")?;
    let rest = buffer.split_off(end + 2);
    let block = std::mem::replace(buffer, rest);
    Some(String::from_utf8_lossy(&block).into_owned())
}

/// The event of a block; nothing where it is a comment, or of another kind.
fn told(block: &str) -> Option<Told> {
    let mut id = None;
    let mut data = String::new();
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => id = value.parse().ok(),
            "data" => {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(value);
            }
            _ => {}
        }
    }
    let data = serde_json::from_str(&data).ok()?;
    Some(Told { id, data })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{next_block, told};

    #[test]
    fn events_come_whole_however_they_are_cut() {
        let sent =
            ": heartbeat\n\nid: 7\nevent: x.y\ndata: {\"a\":\ndata: 1}\n\nid: 8\ndata: 2\n\nid: 9";
        for cut in 0..sent.len() {
            let (one, two) = sent.as_bytes().split_at(cut);
            let mut buffer = Vec::new();
            let mut found = Vec::new();
            for piece in [one, two] {
                buffer.extend_from_slice(piece);
                while let Some(block) = next_block(&mut buffer) {
                    found.extend(told(&block));
                }
            }
            let found: Vec<_> = found.into_iter().map(|told| (told.id, told.data)).collect();
            assert_eq!(
                found,
                [(Some(7), json!({ "a": 1 })), (Some(8), json!(2))],
                "{cut}"
            );
            assert_eq!(buffer, b"id: 9");
        }
    }
}
