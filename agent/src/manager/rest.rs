//! How long a start waits after an end. The unit itself waits for nothing, so that a planned end costs nothing.
//!
//! Takes how the unit's last process ended and when it was started, gives the wait that a supervisor would make. A trial's
//! starts are counted, so that it waits for nothing and pays for all before it. What is remembered here is gone with the
//! boot; where that cannot be done, nobody waits.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ENDED, last_exit};
use crate::clock::{self, Monotonic};
use crate::durable::{self, Mode};
use crate::supervise::pause::Pause;

/// Bytes of what is remembered: three words and three numbers.
const STARTS_BYTES_MAX: u64 = 512;

/// The starts before this one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Starts {
    pause: Pause,
    /// When the last one was, in this boot's time.
    at: u64,
}

/// What is about to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starting {
    /// A binary on trial, or what comes after it.
    Trial,
    /// What is confirmed, or whatever there is.
    Settled,
}

/// The wait before a start of this unit that is about to be made.
pub(crate) fn before_start_of(unit: &str, starting: Starting) -> Duration {
    match clock::boot_time() {
        Ok(time) => before((Path::new(ENDED), unit), starting, time.now),
        Err(_) => Duration::ZERO,
    }
}

fn before(
    (folder, unit): (&Path, &str),
    starting: Starting,
    Monotonic(now): Monotonic,
) -> Duration {
    let path = folder.join(format!("{unit}.starts"));
    let known = durable::read_unlinked(&path, STARTS_BYTES_MAX)
        .ok()
        .flatten();
    let known = known.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let mut starts: Starts = known.unwrap_or_default();
    let lived = Duration::from_millis(now.saturating_sub(starts.at));
    let wait = match (starting, last_exit(folder, unit)) {
        (Starting::Trial, _) => {
            starts.pause = Pause::default();
            Duration::ZERO
        }
        (Starting::Settled, Some(exit)) => starts.pause.after(exit, lived),
        // The first start of this boot.
        (Starting::Settled, None) => Duration::ZERO,
    };
    let begins = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    starts.at = now.saturating_add(begins);
    let kept = serde_json::to_vec(&starts).map_err(std::io::Error::from);
    if let Err(error) = kept.and_then(|bytes| durable::replace_file(&path, &bytes, Mode::Readable))
    {
        tracing::debug!(%error, "this start is not remembered");
    }
    wait
}

#[cfg(test)]
mod tests {
    use super::{Starting, before};
    use crate::clock::Monotonic;
    use crate::durable::{self, Mode};
    use std::time::Duration;

    const UNIT: &str = "bcd.service";

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_plan_costs_nothing_and_failures_cost_more_and_more() {
        let folder = tempfile::tempdir().unwrap();
        let ended = folder.path().join("bcd.service.ended");
        let ends =
            |how: &str| durable::replace_file(&ended, how.as_bytes(), Mode::Readable).unwrap();
        let starting = |starting, now| before((folder.path(), UNIT), starting, Monotonic(now));
        let start = |now: u64| starting(Starting::Settled, now);
        // Nothing has ended in this boot.
        assert_eq!(start(1_000_000), Duration::ZERO);
        ends("exited 0\n");
        assert_eq!(start(1_005_000), Duration::ZERO);
        ends("killed SEGV\n");
        assert_eq!(start(1_006_000), milliseconds(100));
        assert_eq!(start(1_006_200), milliseconds(200));
        // Even one that says that all is well.
        ends("exited 0\n");
        assert_eq!(start(1_006_500), milliseconds(400));
        ends("exited 1\n");
        for _ in 0..20 {
            start(1_007_000);
        }
        assert_eq!(start(1_008_000), Duration::from_secs(10));
        // A trial's starts are few; what comes after them begins anew.
        assert_eq!(starting(Starting::Trial, 1_009_000), Duration::ZERO);
        assert_eq!(starting(Starting::Trial, 1_009_001), Duration::ZERO);
        assert_eq!(start(1_010_000), milliseconds(100));
        // A long life pays for everything.
        assert_eq!(start(1_100_000), milliseconds(100));
    }

    #[test]
    fn what_cannot_be_remembered_keeps_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let start = |folder| before((folder, UNIT), Starting::Settled, Monotonic(5));
        assert_eq!(start(missing.as_path()), Duration::ZERO);
        let starts = folder.path().join("bcd.service.starts");
        durable::replace_file(&starts, b"no such thing", Mode::Readable).unwrap();
        assert_eq!(start(folder.path()), Duration::ZERO);
    }
}
