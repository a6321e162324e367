//! Every limit of the command line, each with its reason.

use std::time::Duration;

/// A server on another continent answers in less; a packet that nobody answers takes longer.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest that one call may take from its first byte to its last. The server gives up before.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How often one asks again for an answer that was lost. What loses three is broken, not unlucky.
pub(super) const ANSWER_TRIES_MAX: u32 = 3;

/// A rollout over a million nodes with its node list is about half of this.
pub(super) const ANSWER_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Fast enough for a progress bar, slow enough for a server that has other things to do.
pub(super) const POLL_EVERY: Duration = Duration::from_millis(300);

/// How often one looks at a rollout of which events tell: what they do not tell is seen then.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Control gives a sign of life every fifteen seconds where nothing happens.
pub(super) const STREAM_SILENCE_MAX: Duration = Duration::from_secs(45);

/// No event is nearly as long.
pub(super) const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// How long a watch goes on without an answer: a control that restarts must not end it.
pub(super) const WATCH_PATIENCE: Duration = Duration::from_secs(60);

/// What `releases register` reads: nothing larger is a manifest.
pub(super) const MANIFEST_BYTES_MAX: u64 = 128 * 1024;

/// A token is under 200 bytes; a larger file is some other file.
pub(super) const TOKEN_BYTES_MAX: u64 = 8 * 1024;

/// A config file with hundreds of contexts is smaller.
pub(super) const CONFIG_BYTES_MAX: u64 = 1024 * 1024;

/// The system's own bundle of certificates is a quarter of this.
pub(super) const CA_BYTES_MAX: u64 = 1024 * 1024;

/// As the API has it.
pub(super) const REASON_CHARS_MAX: usize = 500;

/// As the API has it.
pub(super) const KEY_CHARS_MAX: usize = 128;
