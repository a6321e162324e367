//! Where time enters the gateway: the only reader of the system's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock, which every wait is measured by.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds since 1970, as messages carry them.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
