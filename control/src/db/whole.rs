//! Transactions begin whole.
//!
//! Whoever asks for a transaction may be told to stop before he has it: a request whose caller has left, a link that has
//! ended. A BEGIN that is under way by then still happens, and nobody would end what it began: its connection would go back
//! to the others inside an old transaction, and show its next users what was true when that began. So the beginning goes on
//! without the one who asked, and what it gives is rolled back.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::runtime::Handle;

type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that goes on by itself where it is dropped on the way.
pub(super) struct Whole<T: Send + 'static>(Option<Work<T>>);

impl<T: Send + 'static> Whole<T> {
    /// Of this work.
    pub(super) fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(work)))
    }
}

impl<T: Send + 'static> Future for Whole<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.0 else {
            // Nobody asks again for what he has.
            return Poll::Pending;
        };
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for Whole<T> {
    fn drop(&mut self) {
        // Without a runtime nothing goes on, and nobody uses the connection again.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            drop(runtime.spawn(work));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use crate::db::{query, query_scalar, tests::fresh};

    #[tokio::test]
    async fn a_reading_that_was_given_up_on_the_way_shows_nothing_old() {
        let (db, _dir) = fresh().await;
        for round in 0..20_i64 {
            for _ in 0..4 {
                drop(db.reader().begin().now_or_never());
            }
            let mut tx = db.begin().await.unwrap();
            query("INSERT INTO counters (name, value) VALUES ($1, -7)")
                .bind(round.to_string())
                .execute(&mut tx)
                .await
                .unwrap();
            tx.commit().await.unwrap();
            for _ in 0..8 {
                let count: i64 = query_scalar("SELECT count(*) FROM counters WHERE value = -7")
                    .fetch_one(db.reader())
                    .await
                    .unwrap();
                assert_eq!(count, round + 1);
            }
        }
    }
}
