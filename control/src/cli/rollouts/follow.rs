//! The state of a rollout, again and again.
//!
//! Takes a client and a rollout, gives its states as they come. How they are got is known here alone: events say when to
//! look again, and where there are none, or none any more, it looks often.

use bc_protocol::id::RolloutId;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep, timeout};

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
};

/// Follows one rollout.
#[derive(Debug)]
pub(super) struct Follow<'a> {
    client: &'a Client,
    request: OneRollout,
    pace: Interval,
    events: Events,
}

/// What tells that something has changed.
#[derive(Debug)]
enum Events {
    /// Nobody has been asked yet.
    Unasked,
    /// They come.
    Told(Box<EventStream>),
    /// There are none: whoever looks, looks often.
    None,
}

impl<'a> Follow<'a> {
    /// Follows `rollout` from now on.
    pub(super) fn new(client: &'a Client, rollout: RolloutId) -> Self {
        let mut pace = interval(POLL_EVERY);
        // A server that answers slowly is not asked faster for that.
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            client,
            request: OneRollout {
                tenant_id: client.tenant.clone(),
                rollout_id: rollout,
            },
            pace,
            events: Events::Unasked,
        }
    }

    /// Waits until it is worth looking again.
    async fn wait(&mut self) {
        self.pace.tick().await;
        let stream = match &mut self.events {
            Events::Unasked => {
                // The first look is at once; who waits for a second wants to be told.
                self.events = self.listen().await;
                return;
            }
            Events::Told(stream) => stream,
            Events::None => return,
        };
        tokio::select! {
            event = stream.next() => match event {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => self.events = Events::None,
            },
            () = sleep(LOOK_EVERY) => {}
        }
    }

    async fn listen(&self) -> Events {
        let request = WatchEvents {
            tenant_id: self.client.tenant.clone(),
            after: None,
            types: vec!["rollout.*".to_owned(), "node.*".to_owned()],
            subject: None,
        };
        match timeout(LOOK_EVERY, self.client.watch(&request)).await {
            Ok(Ok(stream)) => Events::Told(Box::new(stream)),
            Ok(Err(_)) | Err(_) => Events::None,
        }
    }

    /// The next state. A control that does not answer for a while is waited for, and `silent` is told the first time.
    pub(super) async fn next(
        &mut self,
        mut silent: impl FnMut(&CallError),
    ) -> Result<Answer<Rollout>, CallError> {
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
            (Err(_), None) => Err(self.client.silent(WATCH_PATIENCE)),
        }
    }

    async fn ask(&self) -> Result<Answer<Rollout>, CallError> {
        self.client.call("rollouts/get", &self.request).await
    }
}
