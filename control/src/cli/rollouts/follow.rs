//! The state of a rollout, again and again.
//!
//! Takes a client and a rollout, gives its states as they come. How they are got is known here alone.

use bc_protocol::id::RolloutId;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::{
    api::rollout::{OneRollout, Rollout},
    cli::{
        client::{CallError, Client},
        limits::{POLL_EVERY, WATCH_PATIENCE},
        print::Answer,
    },
};

/// Follows one rollout.
#[derive(Debug)]
pub(super) struct Follow<'a> {
    client: &'a Client,
    request: OneRollout,
    pace: Interval,
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
                self.pace.tick().await;
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
