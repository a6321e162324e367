//! A watcher of events who is cut off again and again, and goes on where he stopped, at whichever control answers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::calls::Caller;

/// Heartbeats come every fifteen seconds; a control that stands still sends none.
const SILENCE_MAX: Duration = Duration::from_secs(20);

/// The positions that came, in the order in which they came.
#[derive(Debug)]
pub(super) struct Watcher {
    seen: Arc<Mutex<Vec<i64>>>,
    task: AbortHandle,
}

impl Watcher {
    /// Watches what comes behind a position.
    pub(super) fn start(caller: Caller, behind: i64) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(watch(caller, Arc::clone(&seen), behind)).abort_handle();
        Self { seen, task }
    }

    /// What has come so far.
    pub(super) fn seen(&self) -> Vec<i64> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(caller: Caller, seen: Arc<Mutex<Vec<i64>>>, mut last: i64) {
    for turn in 0_usize.. {
        // That it ends is what this is about.
        follow(&caller, turn % 2, (&seen, &mut last)).await.ok();
        sleep(Duration::from_millis(100)).await;
    }
}

async fn follow(
    caller: &Caller,
    control: usize,
    (seen, last): (&Mutex<Vec<i64>>, &mut i64),
) -> Result<()> {
    let asked = caller.watch(control, *last).send();
    let mut answer = timeout(SILENCE_MAX, asked).await??.error_for_status()?;
    let mut text = Vec::new();
    loop {
        let chunk = timeout(SILENCE_MAX, answer.chunk()).await??;
        text.extend_from_slice(&chunk.context("it ended")?);
        // Only whole lines are read; an event whose end is missing comes again.
        while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            if let Some(position) = position(&String::from_utf8(event)?) {
                *last = position;
                seen.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(position);
            }
        }
    }
}

/// The id of an event; heartbeats have none.
fn position(event: &str) -> Option<i64> {
    let id = event.lines().find_map(|line| line.strip_prefix("id:"))?;
    id.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn events_have_a_position_and_heartbeats_have_none() {
        assert_eq!(position("id: 7\nevent: x\ndata: {}\n\n"), Some(7));
        assert_eq!(position(": heartbeat\n\n"), None);
    }
}
