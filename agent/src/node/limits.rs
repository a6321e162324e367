//! Every bound of the node's network side, each with its reason. What both ends of a session must agree on is in
//! `bc_protocol::limits`.

use std::time::Duration;

/// From the choice of a gateway to an open WebSocket: name, TCP, TLS and upgrade. A gateway behind a satellite needs
/// three seconds; one that drips must not hold the node.
pub(crate) const OPEN_DEADLINE: Duration = Duration::from_secs(20);

/// Without a Welcome, until control is asked where gateways are: longer than gateways are down for repair, much shorter
/// than the rest of a certificate's life.
pub(crate) const LONELY_MIN: Duration = Duration::from_secs(60 * 60);

/// Each node waits for up to 255 of them longer, another hour.
pub(crate) const LONELY_SPREAD_STEP: Duration = Duration::from_secs(14);

/// From the Hello to its Welcome: the gateway asks nobody for it.
pub(crate) const WELCOME_DEADLINE: Duration = Duration::from_secs(10);

/// What the operating system does not take off our hands in this time, the gateway does not read.
pub(crate) const SEND_DEADLINE: Duration = Duration::from_secs(2);

/// From our Goodbye to the other side's close. With [`SEND_DEADLINE`] it leaves the five seconds of a stop with room.
pub(crate) const GOODBYE_DEADLINE: Duration = Duration::from_millis(1500);

/// A session of this age was a good one: waits start small again behind it. Two nodes that supersede each other never
/// get there.
pub(crate) const SESSION_HELD: Duration = Duration::from_secs(10);

/// The quickest heartbeat that a gateway can ask for.
pub(crate) const HEARTBEAT_MIN: Duration = Duration::from_millis(500);

/// The slowest one: a dead line is found within a quarter of an hour.
pub(crate) const HEARTBEAT_MAX: Duration = Duration::from_secs(5 * 60);

/// Heartbeats without a sign of life until the session is given up.
pub(crate) const HEARTBEATS_UNTIL_LOST: u32 = 3;

/// Reports that differ in a percentage alone: two a second are enough for any eye.
pub(crate) const PERCENT_REPORT_INTERVAL: Duration = Duration::from_millis(500);

/// The highest number of a superseding connection that is believed at once: control keeps numbers in 63 bits, and a
/// gateway that lies must leave us room to count on.
pub(crate) const CONNECT_SEQ_MAX: u64 = 1 << 62;

/// Above that a number is believed that is at most so much higher than the node's own: more than its restarts can have
/// left out, and so little that no liar gets to the end of the room in years.
pub(crate) const CONNECT_SEQ_STEP_MAX: u64 = 1 << 32;

/// The highest number that a file is believed: more than steps above [`CONNECT_SEQ_MAX`] lead to in years, and far from
/// the end of the room.
pub(crate) const CONNECT_SEQ_KEPT_MAX: u64 = CONNECT_SEQ_MAX + (1 << 61);

/// Connection numbers that one durable write reserves: a node in trouble must not wear its disk.
pub(crate) const CONNECT_SEQ_BLOCK: u64 = 64;

/// The read buffer of the one socket. The default of 128 KiB would be most of the node's memory.
pub(crate) const SOCKET_READ_BUFFER_BYTES: usize = 4 << 10;

/// Bytes of a file in `identity/` or `state/`. The largest is a spec with its manifest in base64.
pub(crate) const STATE_FILE_BYTES_MAX: u64 = 512 << 10;

/// Redirects that a download follows: one from a name to a region, one to a store, one to spare.
pub(crate) const REDIRECTS_MAX: u32 = 3;

/// Free space that a download leaves beside itself and a copy: room for the record and the system's own logs.
pub(crate) const DISK_MARGIN_BYTES: u64 = 16 << 20;

/// Pieces of a download between the line and the disk, of at most 256 KiB each. With those that are being received, hashed
/// and written, an update keeps within 2 MiB, also over TLS and before a slow disk.
pub(crate) const WRITER_QUEUE_CHUNKS_MAX: usize = 2;

/// Ended commands that a node remembers: many more than a gateway could have under way.
pub(crate) const ENDED_COMMANDS_MAX: usize = 256;

/// Commands that have begun and not ended: one a lane in truth, and room for a gateway that does not know that.
pub(crate) const BEGUN_COMMANDS_MAX: usize = 16;

/// Reports that are kept for a replay, of at most 256 KiB each: 2 MiB. Control replays the last one of a lane only.
pub(crate) const KEPT_REPORTS_MAX: usize = 8;

/// Bytes of the journal, or of a report beside it: all ends with the longest messages.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 512 << 10;

/// How long collecting may take: control waits for five minutes, also for those that wait before it.
pub(crate) const COLLECT_DEADLINE: Duration = Duration::from_secs(60);

/// Results between a command's end and the line: more than can be under way.
pub(crate) const RESULTS_MAX: usize = 32;

/// Frames of a session that are read as fast as they come: a gateway with everything that it could have for one node.
pub(crate) const FRAMES_AT_ONCE_MAX: u32 = 64;

/// One more frame is read in this time, whatever comes: at most a spec a second goes to the disk, for ever.
pub(crate) const FRAME_INTERVAL: Duration = Duration::from_secs(1);

/// One more ping or pong is answered in this time. At the quickest heartbeat both ends together come to four a second.
pub(crate) const SIGN_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes of a connection that are read as fast as they come: one frame of the greatest length, and as much again.
pub(crate) const SESSION_BYTES_AT_ONCE_MAX: u32 = 2 << 20;

/// Bytes that are read in a second after that, whatever they are: of what is no frame and no ping the node never hears,
/// such as empty fragments and empty records, and a few million of those would keep a processor busy.
pub(crate) const SESSION_BYTES_PER_SECOND: u32 = 256 << 10;

/// How far before the node's own a renewed certificate may begin: control lets certificates begin so far in the past.
pub(crate) const CERTIFICATE_BACKDATED_MAX: Duration = Duration::from_secs(5 * 60);

/// News between the line and the node: it waits where nobody takes them.
pub(crate) const NEWS_MAX: usize = 16;

/// How long a predecessor that was killed may take to let go of the node's folder.
pub(crate) const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// The wait between two tries to take it.
pub(crate) const LOCK_RETRY_AFTER: Duration = Duration::from_millis(50);

/// How long a node that has handed over may take to end: longer than any Goodbye, shorter than any trial.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_secs(10);
