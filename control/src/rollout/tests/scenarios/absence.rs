//! What becomes of nodes that are away, or take too long.

use super::super::script::check;

#[test]
fn a_node_that_times_out_keeps_its_place_until_it_rests() {
    check(
        "
        pools a=2
        waves=100 ratio=1 timeout=900s
          a1 upgrading from 1.0.0
        a1 works
        +15m
          a1 failed, timeout: not done within 900 s
        why
          a1: still at work
          a2: 1 of 1 places taken
          next: when something happens
        a1 rests
        a1 fails crashed
          a2 upgrading from 1.0.0
          a1 gives its place back
        ",
    );
}

#[test]
fn a_node_whose_attempt_was_taken_back_gives_its_place_back() {
    check(
        "
        pools a=2
        waves=100 ratio=1
          a1 upgrading from 1.0.0
        a1 retries download
          a1 shows download
        a1 rests
        +15m
          a1 failed, timeout: not done within 900 s, last with download
        why
          a1: still at work
          a2: 1 of 1 places taken
          next: when something happens
        a1 rereads
          a2 upgrading from 1.0.0
          a1 gives its place back
        ",
    );
}

/// A session without specs cannot say what was taken back. The node's own last try ends that, or its session's end: no
/// other one goes on with an attempt whose command was withdrawn.
#[test]
fn a_node_that_gets_no_specs_gives_its_place_back_when_its_session_ends() {
    check(
        "
        pools a=2
        waves=100 ratio=1
          a1 upgrading from 1.0.0
        a1 retries download
          a1 shows download
        a1 rests
        a1 commanded
        +15m
          a1 failed, timeout: not done within 900 s, last with download
        why
          a1: still at work
          a2: 1 of 1 places taken
          next: when something happens
        a1 leaves
          a2 upgrading from 1.0.0
          a1 gives its place back
        a1 returns
        why
          next in 900s: Overdue
        ",
    );
}

#[test]
fn a_node_that_times_out_gives_its_place_back_when_it_leaves() {
    check(
        "
        pools a=2
        waves=100 ratio=1
          a1 upgrading from 1.0.0
        a1 tries
        +15m
          a1 failed, timeout: not done within 900 s
        why
          a1: still at work
          a2: 1 of 1 places taken
          next: when something happens
        a1 leaves
          a2 upgrading from 1.0.0
          a1 gives its place back
        ",
    );
}

#[test]
fn a_node_that_never_heard_is_skipped() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a1 leaves
        +14m
        why
          a2: 1 of 1 places taken
          next in 60s: Overdue
        +1m
          a1 skipped, unreached: the node did not hear of it within 900 s
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn a_node_in_flight_that_leaves_is_waited_for() {
    check(
        "
        pools a=3@1
        waves=100
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
          a3 upgrading from 1.0.0
        a2 leaves
        a1 obeys
          a1 succeeded
        a3 obeys
          a3 succeeded
        +10m
        a2 returns
        a2 obeys
          a2 succeeded
          rollout.completed, wave 0
        ",
    );
}

#[test]
fn offline_nodes_wait_and_are_passed_over_once_nothing_else_moves() {
    check(
        "
        pools a=4
        waves=100
          a1 upgrading from 1.0.0
        a2 leaves
        +1h
          a1 skipped, unreached: the node did not hear of it within 900 s
          a3 upgrading from 1.0.0
        why
          a4: 1 of 1 places taken
          a2: offline for 3600s
          next in 900s: Overdue
        a1 obeys
        a3 obeys
          a3 succeeded
          a4 upgrading from 1.0.0
        a4 obeys
          a4 succeeded
          a2 skipped, offline: the node has been offline since 2001-09-09T01:46:40.000Z
          rollout.completed, wave 0
        ",
    );
}

#[test]
fn nobody_is_passed_over_while_no_gateway_is_linked() {
    check(
        "
        pools a=2
        waves=50,100 soak=0s
          a1 upgrading from 1.0.0
        a2 leaves
        links down
        a1 obeys
          a1 succeeded
          rollout.wave, wave 1
        +2h
        why
          a2: offline for 7200s
          next: when something happens
        links up
        why
          a2: offline for 7200s
          next in 360s: OfflineTooLong
        +6m
          a2 skipped, offline: the node has been offline since 2001-09-09T01:46:40.000Z
          rollout.completed, wave 1
        ",
    );
}

#[test]
fn a_node_that_returns_in_time_takes_part() {
    check(
        "
        pools a=2
        waves=50,100 soak=0s
          a1 upgrading from 1.0.0
        a2 leaves
        a1 obeys
          a1 succeeded
          rollout.wave, wave 1
        +4m
        why
          a2: offline for 240s
          next in 120s: OfflineTooLong
        a2 returns
          a2 upgrading from 1.0.0
        a2 obeys
          a2 succeeded
          rollout.completed, wave 1
        ",
    );
}

#[test]
fn time_does_not_run_out_while_no_gateway_is_linked() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a1 works
        links down
        +12h
        why
          a2: 1 of 1 places taken
          next: when something happens
        links up
        why
          a2: 1 of 1 places taken
          next in 60s: Overdue
        a1 obeys
          a1 succeeded
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn nodes_have_time_to_come_back_once_a_gateway_is_linked_again() {
    check(
        "
        pools a=2
        waves=50,100 ratio=0
          a1 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        links down
        a1 leaves
        +5m
        links up
        why
          all: soaking for 300s
          next in 60s: Lost
        a1 returns
        +5m
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
        ",
    );
}

/// A process that has just started has seen nobody come back yet.
#[test]
fn nobody_is_passed_over_by_a_process_that_has_just_started() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a2 leaves
        +10m
        control restarts
        a1 obeys
          a1 succeeded
        why
          a2: offline for 600s
          next in 360s: OfflineTooLong
        +359s
        +1s
          a2 skipped, offline: the node has been offline since 2001-09-09T01:46:40.000Z
          rollout.completed, wave 0
        ",
    );
}
