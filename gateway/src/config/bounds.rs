//! The least that each bound may be.
//!
//! Takes bounds that are well-formed, gives the first with which no node could live. A value that shuts everybody out is a
//! slip of the pen, and is better met by whoever holds the pen than by a fleet. The most is what counters and clocks hold,
//! which the types and [`crate::limits::span`] see to.

use std::{fmt::Debug, num::NonZeroU32, time::Duration};

use bc_protocol::limits::SESSION_FRAME_BYTES_MAX;

use super::ConfigError;
use crate::limits::Limits;

/// Round trips around the world: none but a neighbour is so quick.
const REPLY_MIN: Duration = Duration::from_millis(100);

/// Between pings: more often finds nothing out sooner that three of them would not, and costs every session.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);

/// What a node says at once: its Hello, a report, a request for a certificate, and the ends of its commands.
const MESSAGES_BURST_MIN: u32 = 10;

/// A report and a ping a heartbeat, with room for a failure's words: less is used up by a node that only lives.
const BYTES_PER_SECOND_MIN: u32 = 1024;

/// The largest frame, behind a handshake: a node that may not send it brings it again and again.
const BYTES_BURST_MIN: usize = SESSION_FRAME_BYTES_MAX + (64 << 10);

/// An update is two sessions, one right after the other.
const SESSIONS_BURST_MIN: u32 = 2;

/// Whether a node could live with these.
pub(super) fn check(limits: &Limits) -> Result<(), ConfigError> {
    let Limits {
        handshake_timeout,
        hello_timeout,
        write_timeout,
        heartbeat_interval,
        // One a second is little, and serves a small gateway.
        messages_per_second: _,
        messages_burst,
        bytes_per_second,
        bytes_burst,
        // One a second lets everybody in, one after another; and who waits for nothing is turned away.
        handshakes_per_second: _,
        handshakes_burst: _,
        handshakes_wait: _,
        handshakes_per_address_per_second: _,
        handshakes_per_address_burst: _,
        handshakes_under_way: _,
        sessions_per_node_per_minute: _,
        sessions_per_node_burst,
        // One at a time is enough for a test, and that is what it says.
        unwelcomed_per_address: _,
        connections_max: _,
    } = *limits;
    let reply = "at least 100ms, which a node far away needs to answer";
    span(
        "limits.handshake_timeout",
        handshake_timeout,
        REPLY_MIN,
        reply,
    )?;
    span("limits.hello_timeout", hello_timeout, REPLY_MIN, reply)?;
    span("limits.write_timeout", write_timeout, REPLY_MIN, reply)?;
    span(
        "limits.heartbeat_interval",
        heartbeat_interval,
        HEARTBEAT_MIN,
        "at least 1s, which every session pays for",
    )?;
    count(
        "limits.messages_burst",
        messages_burst,
        MESSAGES_BURST_MIN,
        "at least 10, which a node says when it comes",
    )?;
    count(
        "limits.bytes_per_second",
        bytes_per_second,
        BYTES_PER_SECOND_MIN,
        "at least 1024, which a node needs for reports and pings",
    )?;
    count(
        "limits.bytes_burst",
        bytes_burst,
        u32::try_from(BYTES_BURST_MIN).unwrap_or(u32::MAX),
        "at least 1114112, a node's handshake and its largest frame",
    )?;
    count(
        "limits.sessions_per_node_burst",
        sessions_per_node_burst,
        SESSIONS_BURST_MIN,
        "at least 2, which an update takes",
    )
}

fn span(
    key: &'static str,
    found: Duration,
    least: Duration,
    expected: &'static str,
) -> Result<(), ConfigError> {
    at_least(key, found, least, expected)
}

fn count(
    key: &'static str,
    found: NonZeroU32,
    least: u32,
    expected: &'static str,
) -> Result<(), ConfigError> {
    at_least(key, found.get(), least, expected)
}

fn at_least<T: Ord + Debug>(
    key: &'static str,
    found: T,
    least: T,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if found >= least {
        return Ok(());
    }
    Err(ConfigError::Value {
        key,
        expected,
        found: format!("{found:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(table: &str) -> Option<String> {
        let limits: Limits = toml::from_str(table).unwrap();
        check(&limits).err().map(|error| error.to_string())
    }

    /// The value below which nothing works is named with what it should be and what it is, and works itself.
    #[test]
    fn what_no_node_could_live_with_is_refused_by_key() {
        for (key, least, less) in [
            ("handshake_timeout", "\"100ms\"", "\"99ms\""),
            ("hello_timeout", "\"100ms\"", "\"1ns\""),
            ("write_timeout", "\"100ms\"", "\"99ms\""),
            ("heartbeat_interval", "\"1s\"", "\"999ms\""),
            ("messages_burst", "10", "9"),
            ("bytes_per_second", "1024", "1"),
            ("bytes_burst", "1114112", "1114111"),
            ("sessions_per_node_burst", "2", "1"),
        ] {
            assert_eq!(refused(&format!("{key} = {least}")), None, "{key}");
            let error = refused(&format!("{key} = {less}")).expect(key);
            let least = least.trim_matches('"');
            for word in [
                format!("limits.{key}: expected at least {least}"),
                format!("found {}", less.trim_matches('"')),
            ] {
                assert!(error.contains(&word), "{error}");
            }
        }
    }

    #[test]
    fn the_least_of_the_others_and_the_most_of_all_hold() {
        for key in [
            "messages_per_second",
            "handshakes_per_second",
            "handshakes_burst",
            "handshakes_per_address_per_second",
            "handshakes_per_address_burst",
            "handshakes_under_way",
            "sessions_per_node_per_minute",
            "unwelcomed_per_address",
            "connections_max",
        ] {
            assert_eq!(refused(&format!("{key} = 1")), None, "{key}");
            assert_eq!(refused(&format!("{key} = {}", u32::MAX)), None, "{key}");
        }
        for key in [
            "messages_burst",
            "bytes_per_second",
            "bytes_burst",
            "sessions_per_node_burst",
        ] {
            assert_eq!(refused(&format!("{key} = {}", u32::MAX)), None, "{key}");
        }
    }
}
