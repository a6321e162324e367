//! Bytes on their way.
//!
//! Takes what is to leave, or to be read, and gives the rest of it again and again. Keeps no room for what has gone.

use std::io;

use rustls::unbuffered::{EncodeError, EncryptError};

/// Bytes on their way, from a certain point on.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) bytes: Vec<u8>,
    done: usize,
}

/// Why nothing was appended.
pub(super) enum Room {
    /// It needs this much.
    Needed(usize),
    Never(io::Error),
}

impl From<EncodeError> for Room {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::InsufficientSize(size) => Self::Needed(size.required_size),
            EncodeError::AlreadyEncoded => Self::Never(io::Error::other(error)),
        }
    }
}

impl From<EncryptError> for Room {
    fn from(error: EncryptError) -> Self {
        match error {
            EncryptError::InsufficientSize(size) => Self::Needed(size.required_size),
            EncryptError::EncryptExhausted => Self::Never(io::Error::other(error)),
        }
    }
}

impl Pending {
    /// None, with room for so many.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(bytes),
            done: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn rest(&self) -> &[u8] {
        self.bytes.get(self.done..).unwrap_or_default()
    }

    /// The room goes with the last byte.
    pub(super) fn advance(&mut self, by: usize) {
        self.done += by;
        if self.done >= self.bytes.len() {
            *self = Self::default();
        }
    }

    pub(super) fn reserve(&mut self, bytes: usize) {
        self.bytes.reserve_exact(bytes);
    }

    /// Has something written behind what is there, with as much room as it asks for.
    pub(super) fn append(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, Room>,
    ) -> io::Result<()> {
        let from = self.bytes.len();
        let mut room = self.bytes.capacity() - from;
        loop {
            self.bytes.resize(from + room, 0);
            match write(self.bytes.get_mut(from..).unwrap_or_default()) {
                Ok(written) => {
                    self.bytes.truncate(from + written);
                    return Ok(());
                }
                Err(Room::Needed(needed)) if needed > room => room = needed,
                Err(Room::Needed(_)) => {
                    self.bytes.truncate(from);
                    return Err(io::Error::other("expected to have asked for enough room"));
                }
                Err(Room::Never(error)) => {
                    self.bytes.truncate(from);
                    return Err(error);
                }
            }
        }
    }
}
