//! What the allocator keeps.
//!
//! Takes how often connections have come and gone, says when a burst of that is over; then memory that nobody uses goes
//! back to the system. The C library returns by itself only what lies at the end of its heaps, so that one session that
//! stays would keep what ten thousand have left.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};
use tracing::debug;

use crate::{
    clock,
    gateway::Gateway,
    limits::{BURST_MOVES_MIN, QUIET_MOVES_MAX},
};

/// From one look to the next. It takes two of them to see that it is quiet.
const LOOK: Duration = Duration::from_millis(500);

/// Looks again and again, and gives back what a burst has left.
pub(crate) async fn watch(gateway: Arc<Gateway>) {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut burst = Burst::default();
    loop {
        looks.tick().await;
        if burst.is_over(gateway.door.moves()) {
            // Small things that outlive the burst hold the pages that they lie in.
            gateway.admission().forget(clock::now());
            // It goes through all there is: tens of milliseconds after ten thousand sessions.
            drop(spawn_blocking(give_back).await);
        }
    }
}

/// How much has moved since memory was given back.
#[derive(Debug, Default)]
struct Burst {
    given_back_at: u64,
    last: u64,
}

impl Burst {
    /// Whether much has moved and little moves now. `moves` only grows.
    fn is_over(&mut self, moves: u64) -> bool {
        let lately = moves.saturating_sub(self.last);
        self.last = moves;
        let over = moves.saturating_sub(self.given_back_at) >= BURST_MOVES_MIN
            && lately <= QUIET_MOVES_MAX;
        if over {
            self.given_back_at = moves;
        }
        over
    }
}

#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "the C library's allocator is asked for something that no safe name exists for"
)]
fn give_back() {
    // SAFETY: it takes the allocator's own locks, and returns pages in which nothing is allocated.
    let given = unsafe { nix::libc::malloc_trim(0) };
    debug!(given, "memory that nobody uses was given back");
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {
    debug!("this allocator gives memory back by itself, or not at all");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_over_once_and_only_when_it_is_quiet() {
        let mut burst = Burst::default();
        let many = BURST_MOVES_MIN;
        assert!(!burst.is_over(QUIET_MOVES_MAX), "little has moved");
        assert!(!burst.is_over(many + QUIET_MOVES_MAX), "it goes on");
        assert!(burst.is_over(many + QUIET_MOVES_MAX + 1));
        assert!(!burst.is_over(many + QUIET_MOVES_MAX + 1), "nothing since");
        assert!(!burst.is_over(3 * many));
        assert!(burst.is_over(3 * many));
    }
}
