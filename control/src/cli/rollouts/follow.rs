//! The state of a rollout, again and again.
//!
//! Takes a client and a rollout, gives its states as they come. How they are got is known here alone: events say when to
//! look again; where there are none, or none any more, it looks often, and asks for events from where they broke off.

use std::time::Duration;

use bc_protocol::id::RolloutId;
use tokio::time::{sleep, timeout};

use crate::{
    api::{
        event::WatchEvents,
        rollout::{OneRollout, Rollout},
    },
    cli::{
        client::{CallError, Client, EventStream},
        limits::{LOOK_EVERY, POLL_EVERY, WATCH_PATIENCE},
        print::Answer,
    },
    clock::Stopwatch,
};

/// A look that takes long is one at a large rollout: so many times as long it is left alone.
const REST_AFTER_LOOK: u32 = 4;

/// Follows one rollout.
#[derive(Debug)]
pub(super) struct Follow<'a> {
    client: &'a Client,
    request: OneRollout,
    rest: Duration,
    events: Events,
}

/// What tells that something has changed.
#[derive(Debug)]
enum Events {
    /// Nobody has been asked yet.
    Unasked,
    /// They come.
    Told(Box<EventStream>),
    /// There are none, and whoever looks, looks often, until it is time to ask for those behind this one again.
    None { last: Option<u64>, since: Stopwatch },
}

impl<'a> Follow<'a> {
    /// Follows `rollout` from now on.
    pub(super) fn new(client: &'a Client, rollout: RolloutId) -> Self {
        Self {
            client,
            request: OneRollout {
                tenant_id: client.tenant.clone(),
                rollout_id: rollout,
            },
            rest: Duration::ZERO,
            events: Events::Unasked,
        }
    }

    /// Waits until it is worth looking again: never sooner than `rest` after the last look.
    async fn wait(&mut self) {
        sleep(self.rest).await;
        match &mut self.events {
            // The first look is at once; who waits for a second wants to be told.
            Events::Unasked => self.events = self.listen(None).await,
            Events::None { last, since } if since.elapsed() >= LOOK_EVERY => {
                let last = *last;
                self.events = self.listen(last).await;
            }
            Events::None { .. } => {}
            Events::Told(stream) => {
                tokio::select! {
                    event = stream.next() => match event {
                        Ok(Some(_)) => {}
                        Ok(None) | Err(_) => self.events = none(stream.last()),
                    },
                    () = sleep(LOOK_EVERY) => {}
                }
            }
        }
    }

    async fn listen(&self, last: Option<u64>) -> Events {
        let request = WatchEvents {
            tenant_id: self.client.tenant.clone(),
            after: None,
            types: vec!["rollout.*".to_owned(), "node.*".to_owned()],
            subject: None,
        };
        match timeout(LOOK_EVERY, self.client.watch(&request, last)).await {
            Ok(Ok(stream)) => Events::Told(Box::new(stream)),
            Ok(Err(_)) | Err(_) => none(last),
        }
    }

    /// The next state. A control that does not answer for a while is waited for, and `silent` is told the first time.
    pub(super) async fn next(
        &mut self,
        mut silent: impl FnMut(&CallError),
    ) -> Result<Answer<Rollout>, CallError> {
        let client = self.client;
        let mut last = None;
        let answered = async {
            loop {
                self.wait().await;
                match self.ask().await {
                    Err(error) if error.is_passing() => {
                        if last.is_none() {
                            silent(&error);
                        }
                        last = Some(error);
                    }
                    answer => return answer,
                }
            }
        };
        let answer = timeout(WATCH_PATIENCE, answered).await;
        match (answer, last) {
            (Ok(answer), _) => answer,
            (Err(_), Some(error)) => Err(error),
            (Err(_), None) => Err(client.silent(WATCH_PATIENCE)),
        }
    }

    async fn ask(&mut self) -> Result<Answer<Rollout>, CallError> {
        let look = Stopwatch::start();
        let answer = self.client.call("rollouts/get", &self.request).await;
        self.rest = POLL_EVERY.max(look.elapsed() * REST_AFTER_LOOK);
        answer
    }
}

/// No events for a while.
fn none(last: Option<u64>) -> Events {
    Events::None {
        last,
        since: Stopwatch::start(),
    }
}
