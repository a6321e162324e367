//! WebSocket frames as a server reads and writes them (RFC 6455), without extensions.
//!
//! Takes bytes as they come, in pieces of any size, gives messages; the way back is one frame a message. It keeps what has
//! come of a message and nothing else: no buffer is left when a message is whole. Heads are read and written by
//! tungstenite's code. Pure.

use std::io::Cursor;

use thiserror::Error;
use tokio_tungstenite::tungstenite::protocol::frame::{
    FrameHeader,
    coding::{Control, Data, OpCode},
};

/// Bytes of the longest head.
const HEAD_BYTES_MAX: usize = 14;

/// Bytes of a control frame's payload.
const CONTROL_BYTES_MAX: usize = 125;

/// Reads frames of one connection.
pub(crate) struct Decoder {
    message_max: usize,
    head: [u8; HEAD_BYTES_MAX],
    head_len: u8,
    frame: Option<Frame>,
    /// Whether the message's last frame has yet to come.
    unfinished: bool,
    message: Vec<u8>,
    control: Vec<u8>,
}

struct Frame {
    kind: Kind,
    /// Whether it is its message's last.
    last: bool,
    left: usize,
    mask: [u8; 4],
    /// Which byte of the mask is next.
    turn: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Data,
    Ping,
    Pong,
    Close,
}

/// What a peer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// A message.
    Message(Vec<u8>),
    /// A question whether anybody is there; the same bytes are the answer.
    Ping(Vec<u8>),
    /// The answer to such a question.
    Pong,
    /// It says nothing more.
    Close,
}

/// What the gateway says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saying {
    /// A message.
    Message,
    /// Is anybody there?
    Ping,
    /// The answer.
    Pong,
    /// Nothing more is said.
    Close,
}

/// What no peer may send.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    /// A message that is too long.
    #[error("expected a message of at most {max} bytes, found {found}")]
    TooLong {
        /// At least.
        found: usize,
        /// The bound.
        max: usize,
    },
    /// Text; the protocol has binary messages only.
    #[error("expected a binary message, found text")]
    Text,
    /// Something that is no frame.
    #[error("expected {expected}, found {found}")]
    Frame {
        /// What could have come.
        expected: &'static str,
        /// What came.
        found: String,
    },
}

impl Decoder {
    /// For messages of at most that many bytes.
    pub(crate) fn new(message_max: usize) -> Self {
        Self {
            message_max,
            head: [0; HEAD_BYTES_MAX],
            head_len: 0,
            frame: None,
            unfinished: false,
            message: Vec::new(),
            control: Vec::new(),
        }
    }

    /// Takes bytes up to the end of a message; gives how many, and the message if it is whole.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Heard>), Fault> {
        let mut taken = 0;
        loop {
            let rest = bytes.get(taken..).unwrap_or_default();
            let Some(frame) = &mut self.frame else {
                let (head, frame) = self.begin(rest)?;
                taken += head;
                match frame {
                    Some(frame) => self.frame = Some(frame),
                    None => return Ok((taken, None)),
                }
                continue;
            };
            let now = rest.get(..frame.left).unwrap_or(rest);
            let into = match frame.kind {
                Kind::Data => &mut self.message,
                Kind::Ping | Kind::Pong | Kind::Close => &mut self.control,
            };
            let mask = frame.mask.iter().cycle().skip(frame.turn);
            into.extend(now.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
            frame.turn = (frame.turn + now.len()) % frame.mask.len();
            frame.left -= now.len();
            taken += now.len();
            if frame.left > 0 {
                return Ok((taken, None));
            }
            let (kind, last) = (frame.kind, frame.last);
            self.frame = None;
            if let Some(heard) = self.finish(kind, last) {
                return Ok((taken, Some(heard)));
            }
        }
    }

    /// Reads a head, of which some bytes may have come before.
    fn begin(&mut self, bytes: &[u8]) -> Result<(usize, Option<Frame>), Fault> {
        let before = usize::from(self.head_len);
        let room = self.head.get_mut(before..).unwrap_or_default();
        let fresh = bytes.get(..room.len()).unwrap_or(bytes);
        room.iter_mut()
            .zip(fresh)
            .for_each(|(to, from)| *to = *from);
        let have = before + fresh.len();
        let mut head = Cursor::new(self.head.get(..have).unwrap_or_default());
        let parsed = FrameHeader::parse(&mut head).map_err(|error| Fault::Frame {
            expected: "a frame's head",
            found: error.to_string(),
        })?;
        let Some((header, bytes)) = parsed else {
            // It is shorter than the longest, or it would have been read.
            self.head_len = u8::try_from(have).unwrap_or(0);
            return Ok((fresh.len(), None));
        };
        let used = usize::try_from(head.position()).unwrap_or(have);
        self.head_len = 0;
        let frame = self.judge(&header, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok((used - before, Some(frame)))
    }

    fn judge(&mut self, header: &FrameHeader, bytes: usize) -> Result<Frame, Fault> {
        let fault = |expected, found: &str| Fault::Frame {
            expected,
            found: found.to_owned(),
        };
        let mask = header.mask.ok_or_else(|| fault("a masked frame", "none"))?;
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(fault("no extension", "a reserved bit"));
        }
        let kind = match header.opcode {
            OpCode::Data(Data::Text) => return Err(Fault::Text),
            OpCode::Data(Data::Binary) if self.unfinished => {
                return Err(fault("the rest of a message", "another message"));
            }
            OpCode::Data(Data::Continue) if !self.unfinished => {
                return Err(fault("a message's beginning", "a continuation"));
            }
            OpCode::Data(Data::Binary | Data::Continue) => Kind::Data,
            OpCode::Control(Control::Ping) => Kind::Ping,
            OpCode::Control(Control::Pong) => Kind::Pong,
            OpCode::Control(Control::Close) => Kind::Close,
            OpCode::Data(Data::Reserved(_)) | OpCode::Control(Control::Reserved(_)) => {
                return Err(fault("a known kind of frame", "a reserved one"));
            }
        };
        if kind == Kind::Data {
            let found = self.message.len().saturating_add(bytes);
            if found > self.message_max {
                let max = self.message_max;
                return Err(Fault::TooLong { found, max });
            }
            self.unfinished = true;
        } else if bytes > CONTROL_BYTES_MAX || !header.is_final {
            return Err(fault(
                "a control frame of at most 125 bytes in one",
                "another",
            ));
        }
        Ok(Frame {
            kind,
            last: header.is_final,
            left: bytes,
            mask,
            turn: 0,
        })
    }

    fn finish(&mut self, kind: Kind, last: bool) -> Option<Heard> {
        match kind {
            Kind::Data if !last => None,
            Kind::Data => {
                self.unfinished = false;
                Some(Heard::Message(std::mem::take(&mut self.message)))
            }
            Kind::Ping => Some(Heard::Ping(std::mem::take(&mut self.control))),
            Kind::Pong => {
                self.control = Vec::new();
                Some(Heard::Pong)
            }
            Kind::Close => {
                self.control = Vec::new();
                Some(Heard::Close)
            }
        }
    }
}

/// One frame with a whole message.
pub(crate) fn encode(saying: Saying, payload: &[u8]) -> Vec<u8> {
    let opcode = match saying {
        Saying::Message => OpCode::Data(Data::Binary),
        Saying::Ping => OpCode::Control(Control::Ping),
        Saying::Pong => OpCode::Control(Control::Pong),
        Saying::Close => OpCode::Control(Control::Close),
    };
    let header = FrameHeader {
        opcode,
        ..FrameHeader::default()
    };
    let length = payload.len() as u64;
    let mut frame = Vec::with_capacity(header.len(length) + payload.len());
    // A Vec takes whatever is written into it.
    drop(header.format(length, &mut frame));
    frame.extend_from_slice(payload);
    frame
}

#[cfg(test)]
mod tests;
