//! What failures lead to.

use super::super::script::check;

#[test]
fn a_canary_that_fails_pauses_and_an_abort_ends_it() {
    check(
        "
        pools a=5
        waves=1,100
          a1 upgrading from 1.0.0
        a1 works
        a1 fails no-welcome
          a1 failed, no-welcome
          rollout.paused: wave 1 of 2: 1 of 1 nodes failed, a ratio of 1 where 0.05 is allowed; most often no-welcome
        why
          all: the rollout is paused
          next: when something happens
        abort
          all pending skipped, aborted: by hand
          rollout.aborted: by hand
        resume
          refused: it is aborted
        ",
    );
}

#[test]
fn the_operator_may_accept_what_failed() {
    check(
        "
        pools a=3@1
        waves=34,100 soak=0s
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        a2 fails crashed
          a2 failed, crashed
          rollout.paused: wave 1 of 2: 1 of 2 nodes failed, a ratio of 0.5 where 0.05 is allowed; most often crashed
        resume
          rollout.resumed, wave 0
          rollout.wave, wave 1
          a3 upgrading from 1.0.0
        a3 obeys
          a3 succeeded
          rollout.completed, wave 1
        ",
    );
}

#[test]
fn accepted_failures_do_not_count_again_and_new_ones_do() {
    check(
        "
        pools a=4@0.25
        waves=100 ratio=0.25
          a1 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
          a2 upgrading from 1.0.0
        a2 fails crashed
          a2 failed, crashed
          a3 upgrading from 1.0.0
        a3 fails crashed
          a3 failed, crashed
          rollout.paused: wave 1 of 1: 2 of 4 nodes failed, a ratio of 0.5 where 0.25 is allowed; most often crashed
        resume
          rollout.resumed, wave 0
          a4 upgrading from 1.0.0
        a4 fails digest
          a4 failed, digest
          rollout.completed, wave 0
        resume
          refused: it is completed
        ",
    );
}

#[test]
fn a_ratio_is_of_nodes_that_were_not_skipped() {
    check(
        "
        pools a=4@1
        waves=100 ratio=0.5
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
          a3 upgrading from 1.0.0
          a4 upgrading from 1.0.0
        a1 removed
          a1 failed, removed: the node was removed
        a2 fails digest
          a2 failed, digest
        a3 fails digest
          a3 failed, digest
          rollout.paused: wave 1 of 1: 3 of 4 nodes failed, a ratio of 0.75 where 0.5 is allowed; most often digest
        ",
    );
}

/// Its place went back with the node, not once more with its row: six nodes have three places, and three are taken.
#[test]
fn a_node_removed_in_flight_gives_its_place_back_once() {
    check(
        "
        pools a=7@0.571429
        waves=100 ratio=1
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
          a3 upgrading from 1.0.0
          a4 upgrading from 1.0.0
        a1 removed
          a1 failed, removed: the node was removed
        a2 obeys
          a2 succeeded
          a5 upgrading from 1.0.0
        ",
    );
}

/// Who accepts the failures has not been told yet that nobody has succeeded.
#[test]
fn a_wave_in_which_everybody_failed_asks_twice() {
    check(
        "
        pools a=4@1
        waves=50,100 ratio=0.4
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
        a1 fails crashed
          a1 failed, crashed
          rollout.paused: wave 1 of 2: 1 of 2 nodes failed, a ratio of 0.5 where 0.4 is allowed; most often crashed
        a2 fails crashed
          a2 failed, crashed
        resume
          rollout.resumed, wave 0
          rollout.paused: wave 1 of 2: settled, and no node has succeeded yet: all 2 that tried the release failed, most often with crashed
        resume
          rollout.resumed, wave 0
        ",
    );
}

#[test]
fn a_wave_in_which_nobody_tried_is_no_success() {
    check(
        "
        pools a=3
        waves=33,100
          a1 upgrading from 1.0.0
        a1 leaves
        +15m
          a1 skipped, unreached: the node did not hear of it within 900 s
          rollout.paused: wave 1 of 2: settled, and no node has succeeded yet: nobody has tried the release
        why
          all: the rollout is paused
          next: when something happens
        resume
          rollout.resumed, wave 0
        a2 obeys
        ",
    );
}

#[test]
fn a_wave_that_failed_as_it_was_allowed_to_names_its_failures() {
    check(
        "
        pools a=3
        waves=33,100 ratio=1
          a1 upgrading from 1.0.0
        a1 fails no-welcome
          a1 failed, no-welcome
          rollout.paused: wave 1 of 2: settled, and no node has succeeded yet: the one that tried the release failed, with no-welcome
        ",
    );
}

#[test]
fn a_failure_that_is_retried_only_shows() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a1 retries download
          a1 shows download
        a1 retries download
        a1 works
          a1 shows nothing
        a1 retries stall
          a1 shows stall
        +15m
          a1 failed, timeout: not done within 900 s, last with stall
          rollout.paused: wave 1 of 1: 1 of 2 nodes failed, a ratio of 0.5 where 0.05 is allowed; most often timeout
        ",
    );
}

#[test]
fn facts_of_another_attempt_settle_nothing() {
    check(
        "
        pools a=2
        waves=100
          a1 upgrading from 1.0.0
        a1 misreports
        why
          a2: 1 of 1 places taken
          next in 900s: Overdue
        a1 obeys
          a1 succeeded
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn a_succeeded_node_that_goes_away_counts_as_failed() {
    check(
        "
        pools a=4@1
        waves=50,100 soak=600s ratio=0.1
          a1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        a2 obeys
          a2 succeeded
        a1 leaves
        why
          all: soaking for 600s
          next in 60s: Lost
        +60s
          rollout.paused: wave 1 of 2: 1 of 2 nodes failed, a ratio of 0.5 where 0.1 is allowed; most often offline
        resume
          rollout.resumed, wave 0
        +9m
          rollout.wave, wave 1
          a3 upgrading from 1.0.0
          a4 upgrading from 1.0.0
        ",
    );
}

#[test]
fn a_canary_that_only_reboots_is_no_failure() {
    check(
        "
        pools a=2
        waves=50,100 soak=600s
          a1 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        +1m
        a1 leaves
        +59s
        a1 returns
        +8m
        why
          all: soaking for 1s
          next in 1s: SoakOver
        +1s
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn a_node_that_keeps_restarting_counts_as_failed_before_the_soak_is_over() {
    check(
        "
        pools a=2
        waves=50,100 soak=10m
          a1 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        +1m
        a1 restarts
        +1m
        a1 restarts
          rollout.paused: wave 1 of 2: 1 of 1 nodes failed, a ratio of 1 where 0.05 is allowed; most often restarted
        resume
          rollout.resumed, wave 0
        +8m
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn restarts_before_a_node_had_the_release_are_not_its_fault() {
    check(
        "
        pools a=2
        waves=50,100 soak=10m
          a1 upgrading from 1.0.0
        a1 restarts
        a1 restarts
        +1m
        a1 obeys
          a1 succeeded
        a1 restarts
        +10m
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
        ",
    );
}
