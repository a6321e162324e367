//! Every bound that two processes must agree on, each with its reason.

use std::time::Duration;

/// Bytes of one session frame. A manifest of 128 KiB and a log of 64 KiB fit with room to spare.
pub const SESSION_FRAME_BYTES_MAX: usize = 1 << 20;

/// Bytes of one link frame: a batch of facts, each of which may carry a log.
pub const LINK_FRAME_BYTES_MAX: usize = 4 << 20;

/// Facts in one batch. It bounds a transaction of control to a few milliseconds.
pub const BATCH_EVENTS_MAX: usize = 256;

/// Seconds from a finished handshake to the Hello (or LinkHello); later, the socket is closed.
pub const HELLO_SECONDS_MAX: u64 = 10;

/// Bytes of the Hello's nonce: more than anyone can guess while a session opens.
pub const NONCE_BYTES: usize = 16;

/// The highest number of a connection, and of a report within one: what a database's signed 64 bits keep. A number above
/// it would be kept as another one, above which nobody comes any more.
pub const COUNTER_MAX: u64 = i64::MAX as u64;

/// Labels of one node.
pub const LABELS_MAX: usize = 64;

/// Bytes of a label's name, and of its value.
pub const LABEL_BYTES_MAX: usize = 256;

/// Bytes of an attempt's message, of a hold's reason, of any text that a person reads in a table.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Bytes of a dead binary's log that an attempt carries.
pub const LOG_BYTES_MAX: usize = 64 << 10;

/// Commands that a Hello may name as in flight; the journal holds as many.
pub const COMMANDS_IN_FLIGHT_MAX: usize = 256;

/// Bytes of a command's report: two dead binaries' logs and all that is worth saying beside them. Four of its size fit
/// into a frame.
pub const REPORT_BYTES_MAX: usize = 256 << 10;

/// Parts of a report that one command may name: twice as many as there are.
pub const COLLECT_PARTS_MAX: usize = 16;

/// Bytes of a reason that is one word.
pub const CODE_BYTES_MAX: usize = 64;

/// Bytes of the artifact's address in a section.
pub const URL_BYTES_MAX: usize = 2048;

/// Bytes of a certificate request: a key and a signature; this is ample.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Certificates in one answer, of a chain or of authorities: two while an authority changes.
pub const CERTIFICATES_MAX: usize = 8;

/// Bytes of a published manifest (the file as it is served).
pub const PUBLISHED_BYTES_MAX: usize = 128 << 10;

/// Bytes of a manifest's body. It is parsed before it is believed, so it is bounded before it is parsed.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Keys that a manifest may list: more than any team has signers.
pub const KEYS_MAX: usize = 16;

/// Signatures of one manifest. Each costs a reader one check on a curve, paid before anything is trusted.
pub const SIGNATURES_MAX: usize = 16;

/// Files of one release.
pub const ARTIFACTS_MAX: usize = 64;

/// Bytes of one file of a release: a node keeps room for two.
pub const ARTIFACT_BYTES_MAX: u64 = 512 << 20;

/// Bytes of a file's name, as file systems have it.
pub const ARTIFACT_NAME_BYTES_MAX: usize = 255;

/// Entries of a manifest's map of extensions.
pub const EXTENSIONS_MAX: usize = 16;

/// The least wait between two connections of a node.
pub const BACKOFF_MIN: Duration = Duration::from_millis(500);

/// The most that such a wait grows to.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// The longest absence that a gateway can ask for: longer than any drain, shorter than a night.
pub const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(10 * 60);
