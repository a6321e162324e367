//! Every bound of the helper and its client, each with its reason.

use std::time::Duration;

/// Bytes of a request: a published manifest of 128 KiB in base64, a URL, and room to spare.
pub(super) const REQUEST_BYTES_MAX: usize = 256 << 10;

/// Bytes of a reply: a sentence and a few numbers.
pub(super) const REPLY_BYTES_MAX: usize = 16 << 10;

/// Bytes of an attempt's code and target that the helper writes into the record.
pub(super) const WORD_BYTES_MAX: usize = 64;

/// Requests under way. A node has one; the rest is for a predecessor that has not ended yet.
pub(super) const CONNECTIONS_MAX: usize = 16;

/// How long a client may take to say what it wants.
pub(super) const REQUEST_PATIENCE: Duration = Duration::from_secs(5);

/// How long one request waits for the one before it.
pub(super) const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a client that does not read its reply is waited for.
pub(super) const REPLY_PATIENCE: Duration = Duration::from_secs(1);

/// How long a node waits for a helper to take its request.
pub(super) const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// Tries to reach a helper that is about to listen again, as the binary that was confirmed.
pub(super) const RECONNECTS_MAX: u32 = 20;

/// The wait between these tries.
pub(super) const RECONNECT_AFTER: Duration = Duration::from_millis(50);

/// How long a node waits for an answer that needs no copy: a turn, a look at two binaries, a write to a busy disk.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// How long a node waits for its binary to be copied and tried out. The largest one is half a GiB.
pub(super) const STAGE_PATIENCE: Duration = Duration::from_secs(300);

/// How long a helper that is stopped waits for what is under way: with it, a stop takes less than five seconds.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(4);

/// The wait after a connection could not be accepted: there is no descriptor left, and one has to come back first.
pub(super) const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);
