//! Where keys are agreed upon.
//!
//! Takes the arithmetic of handshakes, some tenths of a millisecond each, and gives its results. Usually it is done at once by
//! whoever asks, which costs least. While many connections linger before their session, it goes to threads of its own that
//! every other thread of the gateway interrupts: those who have a session, or ask for it, wait behind none of it.

use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
};

use tokio::sync::oneshot;
use tracing::warn;

use crate::priority;

/// Whoever does it, and where.
#[derive(Debug, Default)]
pub(crate) struct Keying {
    queue: Arc<Queue>,
    begun: OnceLock<bool>,
}

/// Where it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// By whoever asks.
    Here,
    /// By threads that give way.
    Aside,
}

/// What waits for those threads. It is bounded by the places for handshakes.
#[derive(Default)]
struct Queue {
    waits: Mutex<Waits>,
    more: Condvar,
}

#[derive(Default)]
struct Waits {
    work: VecDeque<Work>,
    closed: bool,
}

type Work = Box<dyn FnOnce() + Send>;

impl Keying {
    /// Has this done to somebody, and gives both back.
    pub(crate) async fn does<T, R>(
        &self,
        place: Where,
        mut whom: T,
        what: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> io::Result<(T, R)>
    where
        T: Send + 'static,
        R: Send + 'static,
    {
        if place == Where::Here || !self.has_threads() {
            let done = what(&mut whom);
            return Ok((whom, done));
        }
        let (tell, told) = oneshot::channel();
        self.queue.push(Box::new(move || {
            let done = what(&mut whom);
            // Whoever asked may have left.
            drop(tell.send((whom, done)));
        }));
        told.await.map_err(io::Error::other)
    }

    /// Begins them with the first use.
    fn has_threads(&self) -> bool {
        *self.begun.get_or_init(|| {
            let count = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let begun = (0..count).filter(|_| {
                let queue = Arc::clone(&self.queue);
                let thread = thread::Builder::new().name("keying".to_owned());
                let begun = thread.spawn(move || {
                    if let Err(error) = priority::give_way() {
                        warn!(%error, "handshakes do not give way");
                    }
                    while let Some(work) = queue.pop() {
                        // Whoever asked hears that there is no answer, and the next one is served all the same.
                        drop(catch_unwind(AssertUnwindSafe(work)));
                    }
                });
                begun.is_ok()
            });
            begun.count() > 0
        })
    }
}

impl Drop for Keying {
    fn drop(&mut self) {
        self.queue.waits().closed = true;
        self.queue.more.notify_all();
    }
}

impl Queue {
    fn push(&self, work: Work) {
        self.waits().work.push_back(work);
        self.more.notify_one();
    }

    /// Nothing once it is closed.
    fn pop(&self) -> Option<Work> {
        let idle = |waits: &mut Waits| waits.work.is_empty() && !waits.closed;
        let waits = self.more.wait_while(self.waits(), idle);
        waits
            .unwrap_or_else(PoisonError::into_inner)
            .work
            .pop_front()
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        // No code panics in between.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread's nice value, by its own word.
    fn niceness() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let behind_name = stat.rsplit_once(") ").unwrap().1;
        behind_name.split(' ').nth(16).unwrap().to_owned()
    }

    #[tokio::test]
    async fn what_is_done_aside_gives_way() {
        let keying = Keying::default();
        let here = keying.does(Where::Here, 1, |whom| (*whom, niceness()));
        assert_eq!(here.await.unwrap(), (1, (1, niceness())));
        let aside = keying.does(Where::Aside, 1, |whom| {
            *whom += 1;
            niceness()
        });
        assert_eq!(aside.await.unwrap(), (2, priority::NICE.to_string()));
    }

    #[tokio::test]
    async fn who_leaves_keeps_nobody_from_work() {
        let keying = Keying::default();
        let (tell, told) = std::sync::mpsc::channel();
        let left = keying.does(Where::Aside, (), move |()| tell.send(()).is_ok());
        // Asked, and gone: it is done all the same, and nobody minds.
        let mut left = Box::pin(left);
        let asked = std::future::poll_fn(|cx| std::task::Poll::Ready(left.as_mut().poll(cx)));
        drop(asked.await);
        drop(left);
        told.recv().unwrap();
        let after = keying.does(Where::Aside, 5, |whom| *whom);
        assert_eq!(after.await.unwrap(), (5, 5));
    }
}
