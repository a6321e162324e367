//! Every bound of commands, each with its reason.

use std::{ops::RangeInclusive, time::Duration};

/// Commands of one node that have not ended: more than anybody means to queue, few enough to look at whenever it comes.
pub(super) const OPEN_MAX: usize = 64;

/// Ended commands that are kept for each node: as many as the node itself remembers.
pub(super) const ENDED_MAX: u32 = 256;

/// How long a command may wait to be begun: a moment to a month.
pub(crate) const LIFE: RangeInclusive<f64> = 1.0..=2_592_000.0;

/// How long it may, where nobody says.
pub(crate) const LIFE_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// How long an upgrade may: it is made when its node is there, so that it hardly ever waits.
pub(super) const UPGRADE_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Commands in one list.
pub(super) const LIST_MAX: i64 = 100;

/// Characters of a caller's key: an id and a few words.
pub(crate) const KEY_CHARS_MAX: usize = 128;

/// Commands that one transaction ends because their time is over.
pub(super) const DUE_MAX: i64 = 256;

/// Nodes with waiting commands that one look finds; the next finds the rest.
pub(super) const WAITING_MAX: i64 = 10_000;

/// Between looks for such commands where nothing said when: other processes make commands too.
pub(super) const DUE_LOOK: Duration = Duration::from_secs(30);

/// Upgrades of one node under one name: each but the first follows one that nobody heard of any more.
pub(super) const UPGRADE_TRIES_MAX: u32 = 100;
