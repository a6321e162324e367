//! What a peer says first.
//!
//! Takes a socket, waits for the first record, and only then begins a handshake: whoever drips here costs the gateway
//! what has come of that record, and not so much as a wake-up a byte.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::secured::{READ_BYTES, RECORD_BYTES_MAX, Secured};
use crate::keying::{Keying, Where};

/// The kind of record that a handshake begins with.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Its kind, version and length.
const RECORD_HEAD_BYTES: usize = 5;

/// A socket that can be told when it is worth being looked at.
pub(crate) trait Patience {
    /// Nobody is woken before so many bytes have come, or the end.
    fn wake_for(&self, bytes: usize) -> io::Result<()>;
}

/// A peer that has said all it takes to answer, or something that no answer will make better.
pub(crate) struct Greeting<S> {
    socket: S,
    come: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Patience> Greeting<S> {
    /// Bytes that a socket is to wake for at first: less says nothing about a record.
    pub(crate) const BYTES_MIN: usize = RECORD_HEAD_BYTES;

    /// Waits for a first record on a socket that is told so. Gives none if the peer leaves before it has said a word: balancers and monitors do, to see
    /// whether anybody is there.
    pub(crate) async fn hear(socket: S) -> io::Result<Option<Self>> {
        let mut greeting = Self {
            socket,
            come: Vec::new(),
        };
        while let Some(missing) = greeting.missing() {
            if !greeting.come.is_empty() {
                greeting.socket.wake_for(missing)?;
            }
            let more = std::future::poll_fn(|cx| greeting.poll_more(cx)).await;
            match more {
                Err(error) if greeting.come.is_empty() && has_left(&error) => return Ok(None),
                other => other?,
            }
        }
        greeting.socket.wake_for(1)?;
        Ok(Some(greeting))
    }

    /// The whole handshake: both ends know who the other is.
    pub(crate) async fn answer(
        self,
        config: Arc<ServerConfig>,
        keying: &Keying,
        place: Where,
    ) -> io::Result<Secured<S>>
    where
        S: Send + 'static,
    {
        let begun = Secured::begun(self.socket, self.come, config)?;
        begun.agree(keying, place).await
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut scratch = [0; READ_BYTES];
        let mut read = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut self.socket).poll_read(cx, &mut read))?;
        if read.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        self.come.extend_from_slice(read.filled());
        Poll::Ready(Ok(()))
    }

    /// Bytes that are missing at least; nothing if there is enough to answer.
    fn missing(&self) -> Option<usize> {
        let missing = match self.come.as_slice() {
            [HANDSHAKE_RECORD, _, _, high, low, rest @ ..] => {
                let wanted = usize::from(u16::from_be_bytes([*high, *low]));
                // More than a record may have is refused as soon as it is looked at.
                wanted.min(RECORD_BYTES_MAX).saturating_sub(rest.len())
            }
            [HANDSHAKE_RECORD, head @ ..] => RECORD_HEAD_BYTES - 1 - head.len(),
            [] => RECORD_HEAD_BYTES,
            [..] => 0,
        };
        (missing > 0).then_some(missing)
    }
}

/// Whether the peer is gone, in whatever manner.
fn has_left(error: &io::Error) -> bool {
    let gone = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
    gone.contains(&error.kind())
}
