//! Every bound of control's links, each with its reason. What both ends must agree on is in `bc_protocol::limits`.

use std::time::Duration;

/// Between a session's signs of life, as every gateway is told. Three find a dead one within a minute.
pub(super) const SESSION_HEARTBEAT_MS: u32 = 15_000;

/// From accept to the gateway's Hello: TLS, upgrade and one message.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that have not proven to be gateways: many more than there are gateways, few enough to bear.
pub(super) const STRANGERS_MAX: usize = 1024;

/// After a failed accept: descriptors that ran out come back only when something closes.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Between signs of life. Gateways give up after ten seconds without one.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(4);

/// Without a sign of life. Gateways ping every five seconds.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(15);

/// For one frame to leave.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Frames that wait to leave on one link. Specs wait for room, one link's never for another's.
pub(super) const QUEUE_FRAMES_MAX: usize = 256;

/// Specs that are computed together, before news is looked at again: a fifth of a second's work at most.
pub(super) const PUSH_CHUNK: usize = 128;

/// Nodes whose commands are looked at before news is looked at again.
pub(super) const COMMAND_CHUNK: usize = 32;

/// Between looks for commands that wait and of which this process has heard nothing: another one may have made them.
pub(super) const COMMAND_LOOK: Duration = Duration::from_secs(30);

/// Between looks whether nodes know today's gateways. Who adds one or takes one away waits for it, the database hardly
/// notices it.
pub(super) const COMPANY_LOOK: Duration = Duration::from_secs(5);

/// Nodes that are given a certificate before the rest: with the pause, some 250 a second on a link. Each is a signature
/// here and a few files at the node.
pub(super) const COMPANY_CHUNK: usize = 64;

/// Between so many and the next.
pub(super) const COMPANY_PAUSE: Duration = Duration::from_millis(250);

/// Before a spec that could not be computed is tried again.
pub(super) const PUSH_RETRY: Duration = Duration::from_secs(30);

/// A gateway that has had no link for so long does not come back soon: its sessions have ended. Gateways dial again
/// within ten seconds.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(60);

/// Between looks for such gateways.
pub(super) const LOST_LOOK: Duration = Duration::from_secs(15);

/// Facts that one transaction takes. Whoever else wants to write waits for it, an operator's call too.
pub(super) const GROUP_EVENTS_MAX: usize = 512;

/// For a gateway to answer whether it is there, before another process of it has its link: several round trips around the
/// world, and a batch that is being applied.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The same where another control process has to ask, be heard and write that down. With the one before it is less than the
/// ten seconds that a gateway waits for its welcome.
pub(super) const ELSEWHERE_MAX: Duration = Duration::from_secs(4);

/// Between looks whether it has.
pub(super) const ELSEWHERE_LOOK: Duration = Duration::from_millis(200);
