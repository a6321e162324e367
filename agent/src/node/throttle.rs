//! A connection that is read no faster than a node can afford.
//!
//! Takes a stream, gives the same bytes at a bounded rate. It sits below everything that makes words of bytes, so it bounds
//! what those layers never tell anybody of. It holds nothing back from who says as much as a gateway has to say, and costs
//! no timer as long as nobody says more.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep_until};

use super::limits::{SESSION_BYTES_AT_ONCE_MAX, SESSION_BYTES_PER_SECOND};
use crate::clock;

/// A stream, and what was read of it.
pub(crate) struct Throttled<S> {
    stream: S,
    /// The moment at which all that was read would have come, had it come evenly.
    even_at: Instant,
    /// Until when nothing more is read.
    rest: Option<Pin<Box<Sleep>>>,
}

impl<S> Throttled<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            even_at: clock::instant(),
            rest: None,
        }
    }

    fn took(&mut self, bytes: usize) {
        let now = clock::instant();
        self.even_at = self.even_at.max(now) + time_of(u32::try_from(bytes).unwrap_or(u32::MAX));
        let ahead = self.even_at.saturating_duration_since(now);
        let wait = ahead.saturating_sub(time_of(SESSION_BYTES_AT_ONCE_MAX));
        if wait > Duration::ZERO {
            self.rest = Some(Box::pin(sleep_until((now + wait).into())));
        }
    }
}

/// How long that many bytes take.
fn time_of(bytes: u32) -> Duration {
    Duration::from_secs(bytes.into()) / SESSION_BYTES_PER_SECOND
}

impl<S: AsyncRead + Unpin> AsyncRead for Throttled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(rest) = &mut self.rest {
            ready!(rest.as_mut().poll(context));
            self.rest = None;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        self.took(buffer.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Throttled<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_flood_is_read_at_its_rate_and_nothing_of_it_is_lost() {
        let (mut gateway, node) = duplex(1 << 20);
        let flood =
            tokio::spawn(async move { while gateway.write_all(&[7; 4096]).await.is_ok() {} });
        let mut node = Throttled::new(node);
        let began = clock::instant();
        let (mut buffer, mut read) = (vec![0; 4096], 0);
        while read < SESSION_BYTES_AT_ONCE_MAX + SESSION_BYTES_PER_SECOND / 2 {
            node.read_exact(&mut buffer).await.unwrap();
            read += 4096;
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
        let took = clock::instant().saturating_duration_since(began);
        // However slow the machine is: never more than this.
        let due = time_of(read - SESSION_BYTES_AT_ONCE_MAX - 2 * 4096);
        assert!(took >= due, "{took:?} {due:?}");
        drop(node);
        flood.await.unwrap();
    }
}
