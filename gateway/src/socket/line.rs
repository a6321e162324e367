//! WebSocket messages over one stream.
//!
//! Takes a stream whose upgrade is done, gives messages and takes others. What has come of the next message is all that it
//! keeps; it writes a whole message before the next.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use super::frames::{Decoder, Fault, Heard, Saying, encode};
use crate::upgrade::Upgraded;

/// Bytes that are read at once. They are on the stack.
const READ_BYTES: usize = 4 << 10;

/// One connection.
pub(crate) struct Line<S> {
    stream: S,
    decoder: Decoder,
    /// Came together with the end of the last message.
    unread: Vec<u8>,
    peer: Peer,
}

/// Whether the peer has more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Speaks,
    Closes,
}

/// Why nothing more is heard.
#[derive(Debug)]
pub(crate) enum Unheard {
    /// The stream ended.
    End,
    /// The peer sends what it must not.
    Fault(Fault),
    /// The stream broke.
    Broken(io::Error),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// A connection whose messages have at most that many bytes.
    pub(crate) fn new(upgraded: Upgraded<S>, message_max: usize) -> Self {
        Self {
            stream: upgraded.stream,
            decoder: Decoder::new(message_max),
            unread: upgraded.early,
            peer: Peer::Speaks,
        }
    }

    /// The next message. Nothing is lost if the wait is given up.
    pub(crate) async fn next(&mut self) -> Result<Heard, Unheard> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Sends a message to its end.
    pub(crate) async fn send(&mut self, saying: Saying, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&encode(saying, payload)).await?;
        self.stream.flush().await
    }

    /// Says that nothing more comes, hears the peer out, and closes.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        self.send(Saying::Close, &[]).await?;
        // What is on its way must not turn the close into a reset, which would take the last words with it.
        while self.peer == Peer::Speaks {
            match self.next().await {
                Ok(Heard::Message(_) | Heard::Ping(_) | Heard::Pong | Heard::Close) => {}
                Err(Unheard::End | Unheard::Fault(_)) => return Ok(()),
                Err(Unheard::Broken(error)) => return Err(error),
            }
        }
        self.stream.shutdown().await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, Unheard>> {
        loop {
            if !self.unread.is_empty() {
                let unread = std::mem::take(&mut self.unread);
                if let Some(heard) = self.take(&unread)? {
                    return Poll::Ready(Ok(heard));
                }
            }
            let mut scratch = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut scratch);
            let stream = Pin::new(&mut self.stream);
            ready!(stream.poll_read(cx, &mut read)).map_err(Unheard::Broken)?;
            if read.filled().is_empty() {
                return Poll::Ready(Err(Unheard::End));
            }
            if let Some(heard) = self.take(read.filled())? {
                return Poll::Ready(Ok(heard));
            }
        }
    }

    /// Keeps what comes behind the message.
    fn take(&mut self, bytes: &[u8]) -> Result<Option<Heard>, Unheard> {
        let (taken, heard) = self.decoder.take(bytes).map_err(Unheard::Fault)?;
        self.unread = bytes.get(taken..).unwrap_or_default().to_vec();
        if heard == Some(Heard::Close) {
            self.peer = Peer::Closes;
        }
        Ok(heard)
    }
}
