//! What the node goes through, and how it has to stand after each step.

/// One command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Boot,
    /// A node that has ended well becomes the next binary in its own process.
    HandOver,
    Stage {
        spec: &'static str,
        attempt: &'static str,
        binary: &'static str,
    },
    Activate {
        spec: &'static str,
        attempt: &'static str,
    },
    Confirm {
        sequence: u64,
    },
    Cancel {
        sequence: u64,
        attempt: &'static str,
    },
}

impl Act {
    /// Whether it is the boot loader's, and no node's wish.
    pub(super) fn is_a_start(self) -> bool {
        matches!(self, Self::Boot | Self::HandOver)
    }
}

/// What has to come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// It is done, and this is so.
    Done(Want),
    /// It is refused, and nothing has changed.
    Refused,
}

/// How a node stands, by sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) confirmed: u64,
    pub(super) floor: u64,
    /// What is on trial, and how often it was started.
    pub(super) trial: Option<(u64, u64)>,
    /// What the spare slot holds, where that matters.
    pub(super) spare: Option<u64>,
}

/// What else has happened to the disk before the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    Nothing,
    /// The binary in the slot that is not confirmed has rotted.
    RottenSpare,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) act: Act,
    pub(super) expect: Expect,
    /// Whether a watchdog is there.
    pub(super) watched: bool,
    pub(super) before: Before,
    /// Whether it is worth being stopped everywhere: not if an earlier step does the same.
    pub(super) explored: bool,
}

const fn done(name: &'static str, act: Act, want: Want) -> Step {
    Step {
        name,
        act,
        expect: Expect::Done(want),
        watched: true,
        before: Before::Nothing,
        explored: true,
    }
}

const fn again(step: Step) -> Step {
    Step {
        explored: false,
        ..step
    }
}

const fn refused(name: &'static str, act: Act) -> Step {
    Step {
        name,
        act,
        expect: Expect::Refused,
        watched: true,
        before: Before::Nothing,
        explored: false,
    }
}

const fn stage(spec: &'static str, attempt: &'static str, binary: &'static str) -> Act {
    Act::Stage {
        spec,
        attempt,
        binary,
    }
}

const fn activate(spec: &'static str, attempt: &'static str) -> Act {
    Act::Activate { spec, attempt }
}

/// Confirmed and floor are one sequence wherever nothing has gone wrong.
const fn at(confirmed: u64) -> Want {
    Want {
        confirmed,
        floor: confirmed,
        trial: None,
        spare: None,
    }
}

const fn trying(confirmed: u64, sequence: u64, starts: u64) -> Want {
    Want {
        trial: Some((sequence, starts)),
        ..at(confirmed)
    }
}

const fn holding(confirmed: u64, spare: u64) -> Want {
    Want {
        spare: Some(spare),
        ..at(confirmed)
    }
}

/// The command that every recovery begins with.
pub(super) const BOOT: Step = done("boot", Act::Boot, at(0));

/// All steps, in order.
pub(super) const SCRIPT: &[Step] = &[
    done("first boot", Act::Boot, at(0)),
    refused(
        "stage without enough signatures",
        stage("unsigned-spec-1", "first", "binary-1"),
    ),
    refused("stage another binary", stage("spec-1", "first", "bad-1")),
    done("stage", stage("spec-1", "first", "binary-1"), holding(0, 1)),
    Step {
        watched: false,
        ..refused("activate without a watchdog", activate("spec-1", "first"))
    },
    done("activate", activate("spec-1", "first"), trying(0, 1, 0)),
    done("boot on trial", Act::Boot, trying(0, 1, 1)),
    refused("confirm another digest", Act::Confirm { sequence: 2 }),
    done("confirm", Act::Confirm { sequence: 1 }, at(1)),
    again(done("confirm again", Act::Confirm { sequence: 1 }, at(1))),
    done(
        "stage over a binary",
        stage("spec-2", "first", "binary-2"),
        holding(1, 2),
    ),
    again(done(
        "activate 2",
        activate("spec-2", "first"),
        trying(1, 2, 0),
    )),
    done("hand over to 2", Act::HandOver, trying(1, 2, 1)),
    again(done("boot 2 again", Act::Boot, trying(1, 2, 2))),
    again(done("boot 2 once more", Act::Boot, trying(1, 2, 3))),
    done("boot back", Act::Boot, holding(1, 2)),
    refused("an attempt that has ended", activate("spec-2", "first")),
    done(
        "stage in place",
        stage("spec-2", "second", "binary-2"),
        holding(1, 2),
    ),
    again(done(
        "activate 2 again",
        activate("spec-2", "second"),
        trying(1, 2, 0),
    )),
    again(done("start 2", Act::Boot, trying(1, 2, 1))),
    done("confirm 2", Act::Confirm { sequence: 2 }, at(2)),
    refused(
        "stage below the floor",
        stage("spec-1", "second", "binary-1"),
    ),
    refused(
        "stage another binary for 3",
        stage("spec-3", "first", "bad-3"),
    ),
    again(done(
        "stage 3",
        stage("spec-3", "first", "binary-3"),
        holding(2, 3),
    )),
    again(done(
        "activate 3",
        activate("spec-3", "first"),
        trying(2, 3, 0),
    )),
    done(
        "cancel",
        Act::Cancel {
            sequence: 3,
            attempt: "first",
        },
        holding(2, 3),
    ),
    again(done(
        "activate 3 again",
        activate("spec-3", "second"),
        trying(2, 3, 0),
    )),
    Step {
        before: Before::RottenSpare,
        ..again(done("boot a rotten trial", Act::Boot, at(2)))
    },
];
