//! Every bound of the updater, each with its reason.

use std::time::Duration;

/// Bytes of one copy of the record. A log of 64 KiB fits even where every byte of it needs an escape.
pub(crate) const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Starts of one trial. One crash may be the machine's fault; three are the binary's.
pub(crate) const TRIAL_STARTS_MAX: u32 = 3;

/// Retries of one attempt after a download, a disk or the like failed.
pub(crate) const RETRIES_MAX: u32 = 5;

/// Retries of one attempt after a trial that says nothing about the release.
pub(crate) const EXCUSED_RETRIES_MAX: u32 = 2;

/// The wait before the first retry; each further one doubles it.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The longest wait before a retry: an attempt has to end while its rollout still waits for it.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// The wait before a write to the record is tried again: full disks are emptied by people.
pub(crate) const RECORD_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The wait before a confirmation is tried again. It is short, since the watchdog's deadline runs meanwhile.
pub(crate) const CONFIRM_RETRY_AFTER: Duration = Duration::from_millis(500);

/// Attempts that ended for good and are remembered by this process. An old spec that comes again stays without effect.
pub(crate) const ENDED_ATTEMPTS_MAX: usize = 64;

/// How long a new binary may take to check what it finds and print its version.
pub(crate) const PREFLIGHT_SECONDS_MAX: u64 = 10;

/// Bytes of a preflight's output that are looked at.
pub(crate) const PREFLIGHT_OUTPUT_BYTES_MAX: u64 = 4 << 10;

/// Tries to start a preflight on a machine that has no process or memory to spare just now.
pub(crate) const START_TRIES_MAX: u32 = 20;

/// The wait between these tries.
pub(crate) const START_RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a helper may take to become the binary that was confirmed, until it is asked for its version.
pub(crate) const HELPER_RENEWAL: Duration = Duration::from_secs(2);

/// How long a service manager may take to start a watchdog. A boot waits for it, and so does an activation.
pub(crate) const ARM_PATIENCE: Duration = Duration::from_secs(5);

/// The wait between two looks at whether it has.
pub(crate) const ARM_STEP: Duration = Duration::from_millis(10);

/// Bytes of the trial's mark, which the node writes and the watchdog reads.
pub(crate) const MARK_BYTES_MAX: u64 = 4 << 10;
