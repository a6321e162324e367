//! What a node says to its helper, said by somebody who shares no code with either.
//!
//! Takes an operation, perhaps with an open file, gives the answer's own words. One connection a request.

use std::{
    fmt,
    fs::File,
    io::{IoSlice, Read as _, Write as _},
    os::{fd::AsRawFd as _, unix::net::UnixStream},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, Result};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde::Deserialize;
use serde_json::{Value, json};

/// How long an answer may take. A helper that needs longer is a finding of its own.
const PATIENCE: Duration = Duration::from_secs(20);

/// The helper took a request and said nothing to it, for as long as anybody may be kept waiting.
#[derive(Debug)]
pub(in crate::faults) struct Silence {
    operation: &'static str,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operation = self.operation;
        write!(f, "I17: no answer to {operation} within {PATIENCE:?}")
    }
}

impl std::error::Error for Silence {}

/// What the helper said.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(in crate::faults) struct Answer {
    /// Its one word.
    #[serde(rename = "answer")]
    pub(in crate::faults) word: String,
    /// The reason, where a try has ended.
    #[serde(default)]
    pub(in crate::faults) code: String,
    #[serde(default)]
    pub(in crate::faults) message: String,
}

#[derive(Deserialize)]
struct Reply {
    answer: Answer,
}

/// What the helper is asked to do.
#[derive(Debug)]
pub(in crate::faults) struct Request<'a> {
    operation: &'static str,
    arguments: Value,
    binary: Option<&'a File>,
}

impl<'a> Request<'a> {
    pub(in crate::faults) fn status() -> Self {
        Self::of("update.status", json!({}))
    }

    /// A release, and the binary that it is to be.
    pub(in crate::faults) fn stage(section: &Value, binary: &'a File) -> Self {
        let arguments = json!({"section": section, "binary": "descriptor"});
        Self {
            binary: Some(binary),
            ..Self::of("update.stage", arguments)
        }
    }

    pub(in crate::faults) fn activate(section: &Value) -> Self {
        Self::of("update.activate", json!({"section": section}))
    }

    pub(in crate::faults) fn confirm(digest: &str) -> Self {
        Self::of("update.confirm", json!({"digest": digest}))
    }

    pub(in crate::faults) fn cancel(attempt: &str) -> Self {
        let attempt = json!({
            "id": attempt, "target": "1.0.0", "outcome": "cancelled", "final": true, "tries": 1, "code": "cancelled",
            "message": "given up", "exitStatus": null, "signal": null, "log": "", "excusedTries": 0,
        });
        Self::of("update.cancel", json!({"attempt": attempt}))
    }

    fn of(operation: &'static str, arguments: Value) -> Self {
        Self {
            operation,
            arguments,
            binary: None,
        }
    }

    /// Asks it of whoever listens at `socket`. None where the other end went away without an answer.
    pub(in crate::faults) fn ask(&self, socket: &Path) -> Result<Option<Answer>> {
        let text = json!({"version": 1, "operation": self.operation, "arguments": self.arguments});
        let text = text.to_string();
        let length = u32::try_from(text.len())?.to_be_bytes();
        let frame = [&length, text.as_bytes()].concat();
        let Ok(stream) = UnixStream::connect(socket) else {
            return Ok(None);
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // Where nobody reads to the end, it may still have been said why.
        self.send(&stream, &frame);
        self.answer(&stream)
    }

    /// As far as somebody reads.
    fn send(&self, mut stream: &UnixStream, frame: &[u8]) {
        let descriptors: Vec<_> = self.binary.iter().map(|file| file.as_raw_fd()).collect();
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let control = if descriptors.is_empty() {
            &[][..]
        } else {
            &rights
        };
        let flags = MsgFlags::MSG_NOSIGNAL;
        let pieces = [IoSlice::new(frame)];
        let sent = sendmsg::<()>(stream.as_raw_fd(), &pieces, control, flags, None);
        let rest = sent.ok().and_then(|sent| frame.get(sent..));
        if let Some(rest) = rest {
            drop(stream.write_all(rest));
        }
    }

    fn answer(&self, mut stream: &UnixStream) -> Result<Option<Answer>> {
        let mut length = [0; 4];
        match stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let operation = self.operation;
                return Err(Silence { operation }.into());
            }
            Err(_) => return Ok(None),
        }
        let mut reply = vec![0; usize::try_from(u32::from_be_bytes(length))?.min(1 << 20)];
        if stream.read_exact(&mut reply).is_err() {
            return Ok(None);
        }
        let reply: Reply = serde_json::from_slice(&reply).context("an answer of the helper")?;
        Ok(Some(reply.answer))
    }
}
