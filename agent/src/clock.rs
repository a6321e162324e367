//! Where time enters the agent: nothing else in the crate reads a clock.
//!
//! Gives the wall clock for what people and certificates date, the monotonic clock for what a process waits for, and
//! the monotonic clock with the boot's id for what must outlive the process.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bc_protocol::time::Timestamp;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// When this binary was built, in seconds since 1970.
static BUILT: AtomicI64 = AtomicI64::new(0);

/// Sets the moment before which this process believes no wall clock: the one at which it was built.
pub(crate) fn never_before(built: i64) {
    BUILT.fetch_max(built, Ordering::Relaxed);
}

/// The wall clock, to the second, or the moment at which this binary was built, whichever is later: a machine without a
/// battery wakes up in 1970. It may still be wrong by years: nothing safe may rest on it alone.
pub(crate) fn wall() -> Timestamp {
    judged(system().unix(), BUILT.load(Ordering::Relaxed))
}

/// The wall clock as the machine has it.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is where time enters"
)]
pub(crate) fn system() -> Timestamp {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    judged(i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX), 0)
}

/// The time by which to judge where a clock shows `shown`, and `passed` has certainly passed.
fn judged(shown: i64, passed: i64) -> Timestamp {
    // A clock beyond the year 9999 is no clock.
    [shown.max(passed), passed]
        .into_iter()
        .find_map(|seconds| Timestamp::from_unix(seconds).ok())
        .unwrap_or_else(epoch)
}

#[expect(
    clippy::expect_used,
    reason = "second 0 is within the years that a timestamp can name"
)]
fn epoch() -> Timestamp {
    Timestamp::from_unix(0).expect("second 0 is a moment")
}

/// The monotonic clock, for waits within this process.
#[expect(
    clippy::disallowed_methods,
    reason = "this module is where time enters"
)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Milliseconds of the monotonic clock. It stands still while the machine sleeps, and starts anew with every boot, so
/// it says something only beside a [`BootId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Monotonic(pub(crate) u64);

impl Monotonic {
    /// The moment `wait` later.
    pub(crate) fn after(self, wait: Duration) -> Self {
        let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(wait))
    }

    /// How long it is until this moment; nothing if it has passed.
    pub(crate) fn remaining(self, now: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(now.0))
    }
}

/// The kernel's name of this boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct BootId(pub(crate) String);

/// The monotonic clock of one boot, for waits that outlive a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BootTime {
    pub(crate) boot: BootId,
    pub(crate) now: Monotonic,
}

/// Why there is no such time.
#[derive(Debug, Error)]
pub(crate) enum ClockError {
    #[error("expected the kernel's boot id in {BOOT_ID}, found none")]
    BootId(#[source] io::Error),
    #[error("expected a monotonic clock, found none")]
    Monotonic(#[source] nix::Error),
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Where a service manager says it to a unit that sees of `/proc` nothing but processes.
const BOOT_ID_OF_UNIT: &str = "BCD_BOOT_ID";

/// Now, in this boot.
pub(crate) fn boot_time() -> Result<BootTime, ClockError> {
    let boot = boot_id().map_err(ClockError::BootId)?;
    let since_boot =
        Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).map_err(ClockError::Monotonic)?);
    Ok(BootTime {
        boot: BootId(boot),
        now: Monotonic(u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX)),
    })
}

fn boot_id() -> io::Result<String> {
    match fs::read_to_string(BOOT_ID) {
        Ok(id) => Ok(id.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let told = std::env::var(BOOT_ID_OF_UNIT).ok();
            told.and_then(|id| as_the_kernel_writes(&id)).ok_or(error)
        }
        Err(error) => Err(error),
    }
}

/// Managers leave the dashes out; one boot must have one name, whoever is asked.
fn as_the_kernel_writes(id: &str) -> Option<String> {
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let parts: Option<Vec<&str>> = [0..8, 8..12, 12..16, 16..20, 20..32]
        .into_iter()
        .map(|range| id.get(range))
        .collect();
    Some(parts?.join("-"))
}

#[cfg(test)]
mod tests {
    use super::{Monotonic, as_the_kernel_writes, boot_time, judged};
    use std::time::Duration;

    #[test]
    fn a_clock_before_the_build_is_not_believed_and_one_behind_all_years_neither() {
        for (shown, passed, expected) in [
            (0, 1_700_000_000, 1_700_000_000),
            (1_800_000_000, 1_700_000_000, 1_800_000_000),
            (i64::MAX, 1_700_000_000, 1_700_000_000),
            (5, 0, 5),
            (i64::MAX, i64::MAX, 0),
        ] {
            assert_eq!(judged(shown, passed).unix(), expected, "{shown} {passed}");
        }
    }

    #[test]
    fn one_boot_has_one_id_and_time_that_does_not_run_back() {
        let (one, other) = (boot_time().unwrap(), boot_time().unwrap());
        assert_eq!(one.boot, other.boot);
        assert!(one.now <= other.now);
        assert_eq!(one.boot.0.len(), 36);
    }

    #[test]
    fn a_boot_has_one_name_with_dashes_and_without() {
        let boot = boot_time().unwrap().boot.0;
        let told = boot.replace('-', "");
        assert_eq!(as_the_kernel_writes(&told), Some(boot));
        for other in ["", "0123", "0123456789abcdef0123456789abcdeg"] {
            assert_eq!(as_the_kernel_writes(other), None, "{other}");
        }
    }

    #[test]
    fn a_wait_ends_and_never_wraps() {
        let at = Monotonic(1_000).after(Duration::from_millis(500));
        assert_eq!(at.remaining(Monotonic(1_100)), Duration::from_millis(400));
        assert_eq!(at.remaining(Monotonic(2_000)), Duration::ZERO);
        assert_eq!(Monotonic(5).after(Duration::MAX), Monotonic(u64::MAX));
    }
}
