//! A bound on connections and on their patience.
//!
//! Takes what another acceptor accepts, gives it on while there is a place, and with a deadline for every write: a peer
//! that does not read must not hold a place for ever.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum_server::accept::Accept;
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};

use crate::metrics::Metrics;

/// Connections at once: callers, watchers and downloads. Enough for a wave, few enough for the descriptors.
const CONNECTIONS_MAX: usize = 4096;

/// For the peer to take anything at all of what is to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// An acceptor with so many places.
#[derive(Clone, Debug)]
pub(super) struct Bounded<A> {
    inner: A,
    places: Arc<Semaphore>,
    metrics: Arc<Metrics>,
}

impl<A> Bounded<A> {
    pub(super) fn new(inner: A, metrics: Arc<Metrics>) -> Self {
        Self {
            inner,
            places: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            metrics,
        }
    }
}

impl<A, I, S> Accept<I, S> for Bounded<A>
where
    A: Accept<I, S>,
    A::Future: Send + 'static,
    A::Stream: Send + 'static,
    A::Service: Send + 'static,
{
    type Stream = Held<A::Stream>;
    type Service = A::Service;
    type Future = BoxFuture<'static, io::Result<(Self::Stream, Self::Service)>>;

    fn accept(&self, stream: I, service: S) -> Self::Future {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            self.metrics.connections_refused.inc();
            tracing::warn!(max = CONNECTIONS_MAX, "too many connections");
            let full = io::Error::new(io::ErrorKind::ConnectionRefused, "too many connections");
            return Box::pin(std::future::ready(Err(full)));
        };
        let open = Open::new(&self.metrics, place);
        let accepted = self.inner.accept(stream, service);
        Box::pin(async move {
            let (stream, service) = accepted.await?;
            Ok((Held::new(stream, open, WRITE_TIMEOUT), service))
        })
    }
}

/// One connection's place, and its share of the count.
#[derive(Debug)]
struct Open {
    metrics: Arc<Metrics>,
    _place: OwnedSemaphorePermit,
}

impl Open {
    fn new(metrics: &Arc<Metrics>, place: OwnedSemaphorePermit) -> Self {
        metrics.connections.inc();
        Self {
            metrics: Arc::clone(metrics),
            _place: place,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.connections.dec();
    }
}

/// A stream that holds its place, and gives up on a peer that does not read.
#[derive(Debug)]
pub(super) struct Held<T> {
    inner: T,
    patience: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
    _open: Open,
}

impl<T> Held<T> {
    fn new(inner: T, open: Open, patience: Duration) -> Self {
        Self {
            inner,
            patience,
            stalled: None,
            _open: open,
        }
    }

    fn in_time<R>(
        &mut self,
        context: &mut Context<'_>,
        poll: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let patience = self.patience;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Held<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Held<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.in_time(context, poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(context);
        self.in_time(context, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(context);
        self.in_time(context, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(context, bytes);
        self.in_time(context, poll)
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc, time::Duration};

    use axum_server::accept::{Accept as _, DefaultAcceptor};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{Bounded, CONNECTIONS_MAX};
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn a_peer_that_does_not_read_loses_its_place() {
        let metrics = Arc::new(Metrics::new());
        let bounded = Bounded::new(DefaultAcceptor, Arc::clone(&metrics));
        let (near, mut far) = tokio::io::duplex(16);
        let (mut held, ()) = bounded.accept(near, ()).await.unwrap();
        held.patience = Duration::from_millis(20);
        held.write_all(&[0; 16]).await.unwrap();
        let stuck = held.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
        // One that reads again is waited for again.
        far.read_exact(&mut [0; 16]).await.unwrap();
        held.write_all(&[0; 16]).await.unwrap();
        assert!(held.stalled.is_none());
        assert_eq!(metrics.connections.get(), 1);
        drop(held);
        assert_eq!(metrics.connections.get(), 0);
    }

    #[tokio::test]
    async fn there_are_so_many_places_and_no_more() {
        let metrics = Arc::new(Metrics::new());
        let bounded = Bounded::new(DefaultAcceptor, Arc::clone(&metrics));
        let mut all = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            all.push(bounded.accept(tokio::io::empty(), ()).await.unwrap());
        }
        assert!(bounded.accept(tokio::io::empty(), ()).await.is_err());
        assert_eq!(metrics.connections_refused.get(), 1);
        all.pop();
        bounded.accept(tokio::io::empty(), ()).await.unwrap();
    }
}
