//! Who reads one moment takes no other connection meanwhile.
//!
//! There are few connections to read by, and one to write to SQLite by. Whoever holds one and waits for another may wait for
//! somebody who does the same, and then nobody goes on. So in builds for developers and tests a request, or a round of the
//! controller, stops at once where it takes a second; a shipped program knows nothing of this.

#[cfg(debug_assertions)]
use std::cell::Cell;

#[cfg(debug_assertions)]
tokio::task_local! {
    /// How many this work holds.
    static HOLDS: Cell<u32>;
}

/// Does work that takes one connection at a time.
pub(crate) async fn one_at_a_time<T>(work: impl Future<Output = T>) -> T {
    #[cfg(debug_assertions)]
    return HOLDS.scope(Cell::new(0), work).await;
    #[cfg(not(debug_assertions))]
    work.await
}

/// A connection that reads one moment, and is held. It is given back where this is dropped.
#[derive(Debug)]
pub(super) struct Held(());

impl Held {
    /// Says that one is taken, before it is waited for.
    pub(super) fn take() -> Self {
        may_take();
        #[cfg(debug_assertions)]
        count(|holds| holds.saturating_add(1));
        Self(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        count(|holds| holds.saturating_sub(1));
    }
}

/// Stops work that takes a connection while it holds one to read by.
pub(super) fn may_take() {
    #[cfg(debug_assertions)]
    assert_eq!(
        HOLDS.try_with(Cell::get).unwrap_or(0),
        0,
        "expected work that holds no connection to read by, found some that takes another"
    );
}

/// Work that nobody watches is not counted.
#[cfg(debug_assertions)]
fn count(change: impl Fn(u32) -> u32) {
    HOLDS.try_with(|holds| holds.set(change(holds.get()))).ok();
}

#[cfg(test)]
mod tests {
    use super::one_at_a_time;
    use crate::db::{query, tests::fresh};

    #[tokio::test]
    #[should_panic(expected = "takes another")]
    async fn who_reads_one_moment_takes_no_other_connection() {
        let (db, _dir) = fresh().await;
        one_at_a_time(async {
            let _reading = db.reader().begin().await.unwrap();
            drop(query("SELECT 1").fetch_all(db.reader()).await);
        })
        .await;
    }

    #[tokio::test]
    #[should_panic(expected = "takes another")]
    async fn nor_does_he_begin_to_write() {
        let (db, _dir) = fresh().await;
        one_at_a_time(async {
            let _reading = db.reader().begin().await.unwrap();
            drop(db.begin().await);
        })
        .await;
    }

    #[tokio::test]
    async fn who_gave_one_back_takes_the_next() {
        let (db, _dir) = fresh().await;
        one_at_a_time(async {
            drop(db.reader().begin().await.unwrap());
            query("SELECT 1").fetch_all(db.reader()).await.unwrap();
            let writing = db.begin().await.unwrap();
            query("SELECT 1").fetch_all(db.reader()).await.unwrap();
            writing.give_up().await.unwrap();
        })
        .await;
    }
}
