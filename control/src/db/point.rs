//! Where a test may hold somebody's work: before any of its statements, or before its COMMIT.
//!
//! Takes the number of the statement, says when the work has come there, and lets it go on when it is told to. Nothing of
//! it is in a program that is shipped.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use tokio::sync::Notify;

tokio::task_local! {
    static STOP: Stop;
}

/// A place in somebody's work.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<Place>);

#[derive(Debug)]
struct Place {
    before: usize,
    seen: AtomicUsize,
    reached: Notify,
    goes_on: Notify,
}

impl Stop {
    /// Before the statement of that number, from 0.
    pub(crate) fn before(statement: usize) -> Self {
        Self(Arc::new(Place {
            before: statement,
            seen: AtomicUsize::new(0),
            reached: Notify::new(),
            goes_on: Notify::new(),
        }))
    }

    /// Does the work, which is held there.
    pub(crate) async fn within<T>(self, work: impl Future<Output = T>) -> T {
        STOP.scope(self, work).await
    }

    /// Resolves when the work is held.
    pub(crate) async fn reached(&self) {
        self.0.reached.notified().await;
    }

    /// Lets the work go on.
    pub(crate) fn go_on(&self) {
        self.0.goes_on.notify_one();
    }
}

/// Called before every statement and every COMMIT.
pub(super) async fn pass_by() {
    let Ok(Stop(place)) = STOP.try_with(Stop::clone) else {
        return;
    };
    if place.seen.fetch_add(1, SeqCst) == place.before {
        place.reached.notify_one();
        place.goes_on.notified().await;
    }
}
