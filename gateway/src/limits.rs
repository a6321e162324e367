//! Every bound of the gateway, each with its reason.
//!
//! Those in [`Limits`] can be set in `gateway.toml` under `[limits]`; the constants cannot. What both sides of a wire
//! must agree on is in `bc_protocol::limits`.

use std::{num::NonZeroU32, time::Duration};

use bc_protocol::limits::{HELLO_SECONDS_MAX, LINK_FRAME_BYTES_MAX};
use serde::{Deserialize, Deserializer, de};

/// The bounds that an operator may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// From accept to a finished TLS handshake and upgrade. A socket that drips costs memory until then.
    #[serde(deserialize_with = "span")]
    pub(crate) handshake_timeout: Duration,
    /// From the upgrade to the Hello: nobody has a reason to open a session and say nothing.
    #[serde(deserialize_with = "span")]
    pub(crate) hello_timeout: Duration,
    /// For one frame to leave. A node that does not read is as good as gone, and its frames would pile up here.
    #[serde(deserialize_with = "span")]
    pub(crate) write_timeout: Duration,
    /// Between pings until control has said otherwise. It finds half-open connections within three of them and costs a
    /// hundred bytes.
    #[serde(deserialize_with = "span")]
    pub(crate) heartbeat_interval: Duration,
    /// Messages a second that one session may send for long: a node sends a report or a ping now and then.
    pub(crate) messages_per_second: NonZeroU32,
    /// Messages that a session may send at once, on top of that.
    pub(crate) messages_burst: NonZeroU32,
    /// Bytes a second that one connection may send for long. It also pays for fragments and pings, which never become
    /// messages.
    pub(crate) bytes_per_second: NonZeroU32,
    /// Bytes that a connection may send at once, on top of that: the largest frame, twice.
    pub(crate) bytes_burst: NonZeroU32,
    /// Handshakes a second in all, for long. Each costs a quarter of a millisecond of a processor: it is more than two
    /// processors can do, who are bounded by themselves, and keeps something of a large machine for its sessions.
    pub(crate) handshakes_per_second: NonZeroU32,
    /// Handshakes at once, on top of that.
    pub(crate) handshakes_burst: NonZeroU32,
    /// For how long somebody who came may wait for a turn. It is what a fleet that comes back together queues up in;
    /// beyond it a node is better off elsewhere.
    #[serde(deserialize_with = "span")]
    pub(crate) handshakes_wait: Duration,
    /// Handshakes a second of one address, for long. Behind one may be a whole site.
    pub(crate) handshakes_per_address_per_second: NonZeroU32,
    /// Handshakes of one address at once, on top of that.
    pub(crate) handshakes_per_address_burst: NonZeroU32,
    /// Handshakes under way at once, of those who have said all it takes to begin one. Each holds about 15 KiB; a round
    /// trip of a tenth of a second and two processors' worth of handshakes keep five hundred of them busy.
    pub(crate) handshakes_under_way: NonZeroU32,
    /// Sessions a minute of one node, for long. A node that keeps losing its session comes once in half a second at most.
    pub(crate) sessions_per_node_per_minute: NonZeroU32,
    /// Sessions of one node at once, on top of that.
    pub(crate) sessions_per_node_burst: NonZeroU32,
    /// Connections of one address that have not been welcomed. Behind one address may be a whole site, so it is large;
    /// it keeps one host from taking every place.
    pub(crate) unwelcomed_per_address: NonZeroU32,
    /// Connections in all. Each takes a descriptor and about 10 KiB, and as much in the kernel.
    pub(crate) connections_max: NonZeroU32,
}

const fn count(of: u32) -> NonZeroU32 {
    match NonZeroU32::new(of) {
        Some(count) => count,
        None => NonZeroU32::MIN,
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_timeout: Duration::from_secs(HELLO_SECONDS_MAX),
            hello_timeout: Duration::from_secs(HELLO_SECONDS_MAX),
            write_timeout: Duration::from_secs(10),
            heartbeat_interval: Duration::from_secs(15),
            messages_per_second: count(20),
            messages_burst: count(200),
            bytes_per_second: count(128 << 10),
            bytes_burst: count(2 << 20),
            handshakes_per_second: count(10_000),
            handshakes_burst: count(2000),
            handshakes_wait: Duration::from_secs(5),
            handshakes_per_address_per_second: count(1000),
            handshakes_per_address_burst: count(10_000),
            handshakes_under_way: count(1024),
            sessions_per_node_per_minute: count(60),
            sessions_per_node_burst: count(20),
            unwelcomed_per_address: count(2048),
            connections_max: count(100_000),
        }
    }
}

/// For how long a handshake keeps its place when others wait for one: several round trips around the world.
pub(crate) const HANDSHAKE_HELD_MIN: Duration = Duration::from_secs(1);

/// For how long nobody lingers before a session who wants one: several round trips around the world, and a turn in a queue.
pub(crate) const LINGERS_AFTER: Duration = Duration::from_secs(2);

/// Connections that linger before a session while all is well: a site whose network is bad. With more, handshakes wait behind
/// sessions.
pub(crate) const LINGERING_USUAL: u32 = 256;

/// Heartbeats without a sign of life after which a session is dead: one may be lost, two may be late.
pub(crate) const SILENT_HEARTBEATS_MAX: u32 = 3;

/// Quarters of a heartbeat without a word of a node before it is asked for one: it says something every heartbeat of
/// itself, and that may be late.
pub(crate) const PING_AFTER_QUARTERS: u32 = 5;

/// Bytes of a connection's request head. A node's is a tenth of it.
pub(crate) const REQUEST_HEAD_BYTES_MAX: usize = 8 << 10;

/// For a finished session's last words to leave.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections that have come or gone before it is worth looking for what they have left in memory.
pub(crate) const BURST_MOVES_MIN: u64 = 500;

/// Connections that come or go in half a second while nothing much happens.
pub(crate) const QUIET_MOVES_MAX: u64 = 25;

/// Nodes whose facts are worth a batch of their own while another is under way: fewer wait for its answer, which comes in
/// milliseconds, and go together.
pub(crate) const BATCH_WORTH_NODES: usize = 32;

/// Files that are open besides connections: listeners, the link, the state folder, the runtime's own.
pub(crate) const FILES_KEPT: u32 = 128;

/// Connections that the kernel holds until they are accepted, if it is let. One more is not answered, and comes again after
/// a second: a fleet that comes back at once would be late by that.
pub(crate) const ACCEPTING_MAX: u32 = 4096;

/// After a failed accept. Descriptors that ran out come back only when somebody leaves.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Who may ask for metrics or health at once. Each is answered in a millisecond; for one more, whoever has been at it the
/// longest gives way.
pub(crate) const STATUS_CONNECTIONS_MAX: usize = 64;

/// Those of one address, so that it puts out nobody but its own.
pub(crate) const STATUS_PER_ADDRESS_MAX: usize = 16;

/// For a question about metrics or health to be asked.
pub(crate) const STATUS_HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// For a question and its answer: some twenty kilobytes over a bad line.
pub(crate) const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Addresses or nodes that are remembered before those that came long ago are looked for.
pub(crate) const ARRIVALS_KEPT_MIN: usize = 4096;

/// From one session's Goodbye to the next while draining, at most: few sessions need no drain time at all.
pub(crate) const DRAIN_STEP_MAX: Duration = Duration::from_millis(10);

/// Milliseconds that a node is asked to stay away from a gateway that stops: enough for its siblings to leave too.
pub(crate) const DRAIN_RECONNECT_AFTER_MS: u32 = 500;

/// Seconds after which somebody who met a gateway that stops may try it again: it may be back.
pub(crate) const DRAIN_RETRY_AFTER_SECONDS: u64 = 5;

/// For what sessions did last to be acknowledged by control before the process ends.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Batches on their way to control at once: the next travels while the last is committed.
pub(crate) const LINK_WINDOW_BATCHES: usize = 4;

/// Bytes of one batch by estimate, under the frame's bound with room for a wrong one.
pub(crate) const BATCH_BYTES_MAX: usize = LINK_FRAME_BYTES_MAX / 4 * 3;

/// Results of one session that wait for control: one a lane is under way, and as many were before the session.
pub(crate) const RESULTS_PER_SESSION_MAX: usize = 4;

/// Results of one node in one batch: two of the largest and the node's facts are a third of a batch at most.
pub(crate) const RESULTS_PER_TURN_MAX: usize = 2;

/// Bytes of reports that wait for control, of all sessions together: while control is away for long, every node could
/// have one.
pub(crate) const REPORTS_BYTES_MAX: usize = 32 << 20;

/// Ended sessions whose last facts wait for control. Beyond it they are dropped: the next listing tells control that
/// they ended, and the node's next Hello repeats the facts.
pub(crate) const ENDED_SESSIONS_MAX: usize = 65_536;

/// For a link to be connected, secured, upgraded and welcomed.
pub(crate) const LINK_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Between pings on the link. Twice without an answer and it is dead.
pub(crate) const LINK_HEARTBEAT: Duration = Duration::from_secs(5);

/// For a frame to leave on the link.
pub(crate) const LINK_WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The first wait before another try for a link or an enrolment, before jitter.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(200);

/// The longest such wait.
pub(crate) const RETRY_LAST: Duration = Duration::from_secs(10);

/// For control to answer an enrolment.
pub(crate) const ENROL_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of control's answer to an enrolment: three certificates and an address.
pub(crate) const ENROL_ANSWER_BYTES_MAX: usize = 64 << 10;

/// The longest span of a configuration: nobody waits for longer, and every clock has room for it.
const SPAN_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads a span such as `10s`; nothing at all is no span, nor is more than a day.
pub(crate) fn span<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    match humantime::parse_duration(&text) {
        Ok(span) if !span.is_zero() && span <= SPAN_MAX => Ok(span),
        Ok(_) | Err(_) => Err(de::Error::custom(format!(
            "expected a duration above zero and of at most 1day, such as \"10s\" or \"300ms\", found \"{text}\""
        ))),
    }
}
