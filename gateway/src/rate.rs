//! How much one connection may send.
//!
//! [`Bucket`] is the rule and pure: it takes amounts and the time, and says whether they fit. [`Metered`] puts it on a
//! socket, below TLS, so that it counts whatever a peer can make the gateway work on.

use std::{
    io,
    num::NonZeroU32,
    os::fd::AsFd,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use nix::{
    libc, setsockopt_impl,
    sys::socket::{setsockopt, sockopt::SetStruct},
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{clock, tls::Patience};

/// An allowance that refills steadily up to a burst.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    per_second: NonZeroU32,
    burst: NonZeroU32,
    /// What is left, in thousandths, so that a refill of a millisecond is exact.
    left_milli: u64,
    refilled_at: Instant,
}

/// More than the allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected at most {per_second} a second after a burst of {burst}, found more")]
pub(crate) struct TooFast {
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn full(per_second: NonZeroU32, burst: NonZeroU32, now: Instant) -> Self {
        Self {
            per_second,
            burst,
            left_milli: u64::from(burst.get()) * 1000,
            refilled_at: now,
        }
    }

    /// Takes an amount out, or says that it is too much.
    pub(crate) fn take(&mut self, amount: u64, now: Instant) -> Result<(), TooFast> {
        let passed = now.saturating_duration_since(self.refilled_at).as_millis();
        if let Ok(passed @ 1..) = u64::try_from(passed) {
            let refill = passed.saturating_mul(u64::from(self.per_second.get()));
            let full = u64::from(self.burst.get()) * 1000;
            self.left_milli = self.left_milli.saturating_add(refill).min(full);
            // Not `now`: the part of a millisecond that was not paid out yet must not be lost.
            self.refilled_at += Duration::from_millis(passed);
        }
        let left = amount
            .checked_mul(1000)
            .and_then(|amount| self.left_milli.checked_sub(amount));
        match left {
            Some(left) => {
                self.left_milli = left;
                Ok(())
            }
            None => Err(TooFast {
                per_second: self.per_second,
                burst: self.burst,
            }),
        }
    }
}

/// A socket whose reads are counted; one that sends too much fails.
pub(crate) struct Metered<S> {
    socket: S,
    bucket: Bucket,
}

impl<S> Metered<S> {
    /// Counts from here on.
    pub(crate) fn new(socket: S, bucket: Bucket) -> Self {
        Self { socket, bucket }
    }
}

/// How many bytes have to have come before anybody is woken.
#[derive(Clone, Copy, Debug)]
struct LowWater;

setsockopt_impl!(
    LowWater,
    libc::SOL_SOCKET,
    libc::SO_RCVLOWAT,
    libc::c_int,
    SetStruct<libc::c_int>
);

/// Nobody is woken before so many bytes have come on this socket, or the end; nor on those that it accepts.
pub(crate) fn wake_for(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    Ok(setsockopt(socket, LowWater, &bytes)?)
}

impl Patience for Metered<TcpStream> {
    fn wake_for(&self, bytes: usize) -> io::Result<()> {
        wake_for(&self.socket, bytes)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, into);
        let read = u64::try_from(into.filled().len() - before).unwrap_or(u64::MAX);
        match polled {
            Poll::Ready(Ok(())) => match self.bucket.take(read, clock::now()) {
                Ok(()) => Poll::Ready(Ok(())),
                Err(too_fast) => Poll::Ready(Err(io::Error::other(too_fast))),
            },
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(of: u32) -> NonZeroU32 {
        NonZeroU32::new(of).unwrap()
    }

    #[test]
    fn a_burst_then_the_steady_rate() {
        let start = clock::now();
        let mut bucket = Bucket::full(number(10), number(3), start);
        for _ in 0..3 {
            bucket.take(1, start).unwrap();
        }
        assert!(bucket.take(1, start).is_err());
        assert!(bucket.take(1, start + Duration::from_millis(99)).is_err());
        bucket.take(1, start + Duration::from_millis(100)).unwrap();
        assert!(bucket.take(1, start + Duration::from_millis(100)).is_err());
    }

    proptest! {
        /// Over any span nobody gets more than the burst and the rate, whatever the pattern.
        #[test]
        fn never_more_than_burst_and_rate(takes: Vec<(u8, u16)>) {
            let start = clock::now();
            let mut bucket = Bucket::full(number(50), number(100), start);
            let (mut now, mut taken) = (start, 0);
            for (amount, wait_ms) in takes {
                now += Duration::from_millis(u64::from(wait_ms));
                if bucket.take(u64::from(amount), now).is_ok() {
                    taken += u128::from(amount);
                }
                let allowed = 100_000 + (now - start).as_millis() * 50;
                prop_assert!(taken * 1000 <= allowed);
            }
        }
    }
}
