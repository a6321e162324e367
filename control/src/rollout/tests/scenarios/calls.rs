//! What operators' calls do.

use super::super::script::check;

#[test]
fn a_pause_stops_starts_and_not_settling() {
    check(
        "
        pools a=3
        waves=34,100 soak=60s
          a1 upgrading from 1.0.0
        pause lunch
          rollout.paused: lunch
        a1 obeys
          a1 succeeded
        why
          all: the rollout is paused
          next: when something happens
        +60s
        resume
          rollout.resumed, wave 0
          a2 upgrading from 1.0.0
        pause
          rollout.paused: by hand
        ",
    );
}

#[test]
fn an_abort_without_rollback() {
    check(
        "
        pools a=4@0.5
        waves=100
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
        a1 works
        abort
          a1 failed, aborted: by hand
          a2 failed, aborted: by hand
          all pending skipped, aborted: by hand
          rollout.aborted: by hand
        why
          a1: still at work
          all: the rollout is aborted
          next: when something happens
        a1 rests
        a1 fails cancelled
          a1 gives its place back
        pause
          refused: it is aborted
        ",
    );
}

#[test]
fn an_abort_with_rollback() {
    check(
        "
        pools a=6@0.5
        waves=100
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
          a3 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
          a4 upgrading from 1.0.0
        a2 works
        a3 works
        abort rollback
          a2 rolling-back
          a3 rolling-back
          a4 rolling-back
          all pending skipped, aborted: by hand
          rollout.aborted: by hand
        a2 obeys
          a2 rolled-back
        a3 floor 11
          a3 succeeded
        a4 fails crashed
          a4 failed, crashed
        ",
    );
}

#[test]
fn a_rollback_that_takes_too_long() {
    check(
        "
        pools a=2@1
        waves=100
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
        a1 works
        abort rollback
          a1 rolling-back
          a2 rolling-back
          all pending skipped, aborted: by hand
          rollout.aborted: by hand
        +15m
          a1 failed, timeout: not done within 900 s
          a2 failed, timeout: not done within 900 s
        a1 rests
          a1 gives its place back
        a1 leaves
        ",
    );
}

#[test]
fn a_call_that_is_repeated_says_so_again() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        pause one
          rollout.paused: one
        pause two
          rollout.paused: two
        resume
          rollout.resumed, wave 0
        resume
          rollout.resumed, wave 0
        ",
    );
}

#[test]
fn a_rollback_of_a_node_that_confirms_after_all() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a1 tries
        abort rollback
          a1 rolling-back
          all pending skipped, aborted: by hand
          rollout.aborted: by hand
        a1 floor 11
          a1 succeeded
        ",
    );
}

#[test]
fn a_node_whose_floor_has_passed_what_it_ran_has_no_way_back() {
    check(
        "
        pools a=4@1
        waves=100
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
          a3 upgrading from 1.0.0
          a4 upgrading from 1.0.0
        a1 floor 10
        abort rollback
          a1 failed, aborted: by hand
          a2 rolling-back
          a3 rolling-back
          a4 rolling-back
          all pending skipped, aborted: by hand
          rollout.aborted: by hand
        a2 floor 10
          a2 failed, floor: expected a sequence of at least the node's floor 10, found 9
        a3 floor 11
          a3 succeeded
        a4 floor 12
          a4 succeeded
        ",
    );
}

#[test]
fn a_node_that_somebody_else_has_brought_further_is_passed_over() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a1 floor 12
          a1 skipped, floor: expected a sequence of at least the node's floor 12, found 11
          a2 upgrading from 1.0.0
        a2 obeys
          a2 succeeded
          rollout.completed, wave 0
        ",
    );
}

#[test]
fn nothing_starts_in_a_frozen_fleet_and_what_flies_settles() {
    check(
        "
        pools a=3
        waves=100
          a1 upgrading from 1.0.0
        freeze incident
        a1 obeys
          a1 succeeded
        why
          all: frozen by alice: incident
          next: when something happens
        unfreeze
          a2 upgrading from 1.0.0
        ",
    );
}
