//! Every bound of rollouts, each with its reason.

use std::time::Duration;

/// A node that is back within this was only reconnecting, or rebooting; and so long nodes have to come back once a
/// gateway is linked again.
pub(crate) const RECONNECT: Duration = Duration::from_secs(60);

/// For so long a new process passes nobody over: after its own start, nodes are still on their way back to it.
pub(crate) const START_UP: Duration = Duration::from_secs(300);

/// The longest rest of the controller. Every pass knows when the next is due; this only catches what nobody thought of.
pub(crate) const SAFETY_NET: Duration = Duration::from_secs(30);

/// Before a rollout that another process was passing over is looked at again. A pass takes milliseconds.
pub(crate) const ELSEWHERE: Duration = Duration::from_millis(20);

/// Plans made one after another in one pass: each opens a wave or settles one, so ten waves need twenty and the last.
pub(crate) const PLANS_PER_PASS_MAX: u32 = 32;

/// Batches of stale nodes that wait for a slow reader before it is told that it missed some.
pub(crate) const STALE_BATCHES_MAX: usize = 1024;

/// Waves of one rollout: more are unreadable, and each costs a soak.
pub(crate) const WAVES_MAX: usize = 10;

/// The waves of a rollout whose author says nothing, in percent: one in a hundred goes first.
pub(crate) const WAVES_DEFAULT: [&str; 4] = ["1", "10", "50", "100"];

/// The share of a wave that may fail where nobody says, in millionths.
pub(crate) const FAILURE_PPM_DEFAULT: u32 = 50_000;

/// Characters of a caller's key: an id and a few words.
pub(crate) const KEY_CHARS_MAX: usize = 128;

/// Pools that one call may name.
pub(crate) const POOLS_MAX: usize = 1000;

/// Nodes that one call may name: a longer list is a label's work.
pub(crate) const NODES_MAX: usize = 10_000;

/// Labels of one selector; no node has more.
pub(crate) const SELECTOR_MAX: usize = bc_protocol::limits::LABELS_MAX;

/// Seconds between waves: a week at most.
pub(crate) const SOAK_SECONDS_MAX: f64 = 604_800.0;

/// Seconds between waves where nobody says: what breaks soon after an update has broken by then.
pub(crate) const SOAK_SECONDS_DEFAULT: f64 = 600.0;

/// Seconds for one node where nobody says: several tries fit.
pub(crate) const TIMEOUT_SECONDS_DEFAULT: f64 = 900.0;

/// Seconds for one node: no restart fits in less than the first, and after the second somebody should look.
pub(crate) const TIMEOUT_SECONDS: std::ops::RangeInclusive<f64> = 60.0..=86_400.0;

/// Rollouts that `rollouts.list` gives.
pub(crate) const LISTED_MAX: i64 = 100;

/// Late nodes that a pass looks at beyond those that it has room for, in case some cannot go.
pub(crate) const LATE_SPARE: u32 = 32;

/// Rows of the open wave that a pass looks at whatever they wait for.
pub(crate) const PENDING_SAMPLE: u32 = 32;

/// Rows of a pool that a pass looks at beyond those that may start, in case some cannot.
pub(crate) const PENDING_SPARE: u32 = 8;

/// Pools with room of which nobody asks first whether anybody of them waits.
pub(crate) const POOLS_ASKED: usize = 1;

/// Nodes with news that are told apart from the others in flight by the first statement of a pass. Where there are more, the
/// others are looked at only if there are any. Tests' passes have news of few.
pub(crate) const TOLD_APART_MAX: usize = if cfg!(test) { 1 } else { 32 };

/// Rows in flight that a pass looks at because they are overdue; the others come with the next.
pub(crate) const OVERDUE_AT_ONCE: u32 = 1000;

/// Rows in flight that one transaction settles where everything was looked at: operators' calls wait for no more. Tests' fleets
/// are small, and still need several.
pub(crate) const SETTLED_AT_ONCE: usize = if cfg!(test) { 3 } else { 1000 };

/// Nodes that one round is told of by name. More are a storm, and looking at everything is cheaper than asking for each.
pub(crate) const NAMED_MAX: usize = 5000;

/// Before what a failed pass was told of is looked at again.
pub(crate) const PASS_AGAIN: Duration = Duration::from_secs(1);

/// Nodes that wait in one pack. Opening one costs so many small writes, and a rollout of a million has some thousand packs.
/// Tests' fleets are small, and still have several.
pub(crate) const PACK_NODES: usize = if cfg!(test) { 3 } else { 128 };
