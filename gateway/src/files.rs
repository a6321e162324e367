//! How many files the process may open.
//!
//! Every connection is one. Systems give a process far fewer at first than they let it take: it takes them all, and
//! admits no more connections than that has room for, so that nobody is met by a gateway that cannot even say no.

use std::num::NonZeroU32;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

use crate::limits::{FILES_KEPT, Limits};

/// Takes as many as the system lets it.
pub(crate) fn take_all() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, all) {
        warn!(%error, ?current, ?maximum, "cannot open more files than at first");
    }
}

/// The bounds with no more connections than there is room for.
pub(crate) fn within(limits: Limits) -> Limits {
    let room = getrlimit(Resource::Nofile).current;
    let connections_max = room.map_or(limits.connections_max, |room| {
        held(limits.connections_max, room)
    });
    if connections_max < limits.connections_max {
        warn!(
            expected = limits.connections_max.get().saturating_add(FILES_KEPT),
            found = room,
            connections_max,
            "fewer open files are allowed than connections_max needs (LimitNOFILE= of the unit): fewer are admitted"
        );
    }
    Limits {
        connections_max,
        ..limits
    }
}

fn held(wanted: NonZeroU32, room: u64) -> NonZeroU32 {
    let room = room.saturating_sub(u64::from(FILES_KEPT));
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    wanted.min(NonZeroU32::new(room).unwrap_or(NonZeroU32::MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_are_wanted_there_is_an_answer() {
        let most = Limits {
            connections_max: NonZeroU32::MAX,
            ..Limits::default()
        };
        assert!(within(most).connections_max < NonZeroU32::MAX);
    }

    #[test]
    fn connections_leave_room_for_what_else_is_open() {
        let number = |of| NonZeroU32::new(of).unwrap();
        for (wanted, room, found) in [
            (100_000, 1024, 1024 - FILES_KEPT),
            (500, 1024, 500),
            (500, 3, 1),
            (500, u64::MAX, 500),
        ] {
            assert_eq!(held(number(wanted), room), number(found), "{wanted} {room}");
        }
    }
}
