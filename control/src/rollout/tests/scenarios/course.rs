//! How waves and budgets let nodes through.

use super::super::script::check;

#[test]
fn waves_open_one_after_the_other() {
    check(
        "
        pools a=4@0.5
        waves=25,100 soak=60s
          a1 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        why
          all: soaking for 60s
          next in 60s: SoakOver
        +60s
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
          a3 upgrading from 1.0.0
        a3 obeys
          a3 succeeded
          a4 upgrading from 1.0.0
        a2 obeys
          a2 succeeded
        a4 obeys
          a4 succeeded
          rollout.completed, wave 1
        ",
    );
}

#[test]
fn the_budget_counts_what_others_disrupt() {
    check(
        "
        pools a=10@0.2 b=1
        waves=100
          a1 upgrading from 1.0.0
          b1 upgrading from 1.0.0
          a2 upgrading from 1.0.0
        a3 disrupted wf_1
        why
          a3: disrupted by wf_1
          a4: 3 of 2 places taken
          a5: 3 of 2 places taken
          a6: 3 of 2 places taken
          a7: 3 of 2 places taken
          a8: 3 of 2 places taken
          a9: 3 of 2 places taken
          a10: 3 of 2 places taken
          next in 900s: Overdue
        a1 obeys
          a1 succeeded
        a3 undisrupted wf_1
          a3 upgrading from 1.0.0
        why
          a4: 2 of 2 places taken
          a5: 2 of 2 places taken
          a6: 2 of 2 places taken
          a7: 2 of 2 places taken
          a8: 2 of 2 places taken
          a9: 2 of 2 places taken
          a10: 2 of 2 places taken
          next in 900s: Overdue
        ",
    );
}

#[test]
fn one_place_a_node_whoever_disrupts_it() {
    check(
        "
        pools a=2@0.5
        waves=100
          a1 upgrading from 1.0.0
        a1 disrupted wf_1
        a1 obeys
          a1 succeeded
        why
          a2: 1 of 1 places taken
          next: when something happens
        a1 undisrupted wf_1
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn what_cannot_take_part_is_passed_over() {
    check(
        r#"
        pools a=6@1 b=1
        waves=15,100 soak=0s
          a1 upgrading from 1.0.0
          b1 upgrading from 1.0.0
        a2 arch riscv64
        a3 arch
        a4 held not today
        a5 floor 12
        a6 maintained
          a6 skipped, maintenance: the node is in maintenance
        archive b
        a1 obeys
          a1 succeeded
        b1 obeys
          b1 succeeded
          rollout.wave, wave 1
          a2 skipped, platform: expected x86_64 or aarch64 in the label cpu.arch, found "riscv64"
          a3 skipped, platform: expected the label cpu.arch, found none
          a4 skipped, held: its owner holds the node: not today
          a5 skipped, floor: expected a sequence of at least the node's floor 12, found 11
          rollout.completed, wave 1
        "#,
    );
}

#[test]
fn what_leaves_the_scope_later() {
    check(
        "
        pools a=4
        waves=25,100
          a1 upgrading from 1.0.0
        a3 removed
          a3 skipped, removed: the node was removed
        a4 maintained
          a4 skipped, maintenance: the node is in maintenance
        a1 removed
          a1 failed, removed: the node was removed
          rollout.paused: wave 1 of 2: 1 of 1 nodes failed, a ratio of 1 where 0.05 is allowed; most often removed
        ",
    );
}

#[test]
fn the_last_wave_with_nodes_is_the_last() {
    check(
        "
        pools a=2@1
        waves=1,10,50,100 soak=600s
          a1 upgrading from 1.0.0
        a1 obeys
          a1 succeeded
        +10m
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
        a2 obeys
          a2 succeeded
          rollout.completed, wave 1
        ",
    );
}

/// A wave that settles while the rollout is paused soaks all the same: whoever resumes it later waits no longer for that.
#[test]
fn a_soak_runs_during_a_pause() {
    check(
        "
        pools a=2
        waves=50,100 soak=60s
          a1 upgrading from 1.0.0
        pause lunch
          rollout.paused: lunch
        a1 obeys
          a1 succeeded
        +40s
        resume
          rollout.resumed, wave 0
        why
          all: soaking for 20s
          next in 20s: SoakOver
        +20s
          rollout.wave, wave 1
          a2 upgrading from 1.0.0
        ",
    );
}

#[test]
fn a_wave_that_started_nothing_does_not_soak() {
    check(
        r#"
        pools a=3
        waves=33,66,100 soak=600s
          a1 upgrading from 1.0.0
        a2 arch riscv64
        a1 obeys
          a1 succeeded
        +10m
          rollout.wave, wave 1
          a2 skipped, platform: expected x86_64 or aarch64 in the label cpu.arch, found "riscv64"
          rollout.wave, wave 2
          a3 upgrading from 1.0.0
        "#,
    );
}
