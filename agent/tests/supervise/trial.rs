//! Trials of binaries that do not deserve to be confirmed (FAULTS 3, "New binary").

use std::fs;

use bc_protocol::digest::Sha256;
use nix::sys::signal::Signal;
use serde_json::json;

use crate::world::{World, attempt, gone, until};

/// A binary that runs, and says that it does.
const GOOD: &str = "echo $$ > $here/good.pid; exec sleep 1000";

/// A machine whose slot b is on trial with that script, under a deadline.
fn on_trial(script: &str, mode: u32, deadline: &str) -> World {
    let world = World::new(deadline);
    let confirmed = world.script("a", GOOD, 0o755);
    let trial = world.script("b", script, mode);
    world.record(confirmed, Some(trial));
    world
}

/// The old binary runs again, the floor is where it was, and nothing is on trial.
fn assert_went_back(world: &World) {
    world.pid("good.pid");
    let record = world.read_record().unwrap();
    assert_eq!(record["floor"], 1);
    assert_eq!(record["confirmed"]["slot"], "a");
    assert_eq!(record["trial"], json!(null));
    let link = fs::read_link(world.path("node/current")).unwrap();
    assert_eq!(link.to_str(), Some("slots/a"));
}

#[test]
fn a_binary_that_ends_at_once_is_started_three_times_and_swapped_back() {
    let script = "echo start >> $here/starts; echo last words >&2; exit 7";
    let world = on_trial(script, 0o755, "60s");
    let _supervisor = world.supervise();
    let last = world.ended_attempt();
    assert_eq!(last["outcome"], "crashed");
    assert_eq!(
        (&last["exitStatus"], &last["final"]),
        (&json!(7), &json!(true))
    );
    assert_eq!(last["log"], "last words\n");
    assert_went_back(&world);
    let starts = fs::read_to_string(world.path("starts")).unwrap();
    assert_eq!(starts.lines().count(), 3);
}

#[test]
fn a_binary_that_a_signal_ends_is_reported_with_it() {
    let world = on_trial("kill -SEGV $$", 0o755, "60s");
    let _supervisor = world.supervise();
    let last = world.ended_attempt();
    assert_eq!(
        (&last["outcome"], &last["signal"]),
        (&json!("crashed"), &json!(11))
    );
    assert_went_back(&world);
}

#[test]
fn a_binary_that_cannot_be_executed_is_swapped_back() {
    let world = on_trial("exit 0", 0o644, "60s");
    let _supervisor = world.supervise();
    let last = world.ended_attempt();
    assert_eq!(
        (&last["outcome"], &last["exitStatus"]),
        (&json!("crashed"), &json!(126))
    );
    assert!(
        last["log"].as_str().unwrap().contains("to be executable"),
        "{last}"
    );
    assert_went_back(&world);
}

#[test]
fn a_binary_that_hangs_and_ignores_signals_is_killed_with_its_children() {
    let script = "trap '' TERM INT; sleep 1000 & echo $! > $here/child.pid; echo $$ > $here/trial.pid; wait; exec sleep 1000";
    let world = on_trial(script, 0o755, "1s");
    let _supervisor = world.supervise();
    let (trial, child) = (world.pid("trial.pid"), world.pid("child.pid"));
    let last = world.ended_attempt();
    assert_eq!(last["outcome"], "hung");
    gone(trial);
    gone(child);
    assert_went_back(&world);
}

#[test]
fn what_a_trial_left_says_how_it_failed() {
    for (stage, outcome, is_final) in [
        ("started", "no-welcome", true),
        ("welcomed", "unstable", true),
        ("not-now", "environment", false),
    ] {
        let mark = json!({"attempt": attempt(), "stage": stage});
        let script = format!("echo '{mark}' > $here/node/state/trial.json; exec sleep 1000");
        let world = on_trial(&script, 0o755, "1s");
        let _supervisor = world.supervise();
        let last = world.ended_attempt();
        assert_eq!(last["outcome"], outcome);
        assert_eq!(
            (&last["final"], &last["tries"]),
            (&json!(is_final), &json!(1))
        );
        assert_went_back(&world);
    }
}

#[test]
fn an_earlier_trials_mark_counts_for_nothing() {
    let world = on_trial("exec sleep 1000", 0o755, "1s");
    let mark = json!({"attempt": attempt(), "stage": "welcomed"});
    world.put("node/state/trial.json", mark.to_string().as_bytes(), 0o644);
    let _supervisor = world.supervise();
    assert_eq!(world.ended_attempt()["outcome"], "hung");
}

#[test]
fn a_trial_confirmed_in_time_is_left_alone() {
    let world = on_trial("echo $$ > $here/trial.pid; exec sleep 1000", 0o755, "2s");
    let supervisor = world.supervise();
    let trial = world.pid("trial.pid");
    let mut record = world.read_record().unwrap();
    let confirmed = record["trial"].take();
    record["counter"] = json!(100);
    record["floor"] = json!(2);
    record["confirmed"] = json!({
        "slot": "b", "sequence": 2, "digest": confirmed["digest"],
    });
    world.write_record(&record);
    supervisor.says("it is over already");
    assert_eq!(world.read_record().unwrap(), record);
    assert!(fs::exists(format!("/proc/{trial}")).unwrap());
}

/// Somebody who holds the record keeps nothing from being stopped, neither a start nor a stop on trial.
#[test]
fn a_stop_waits_for_nobody_who_holds_the_record() {
    let world = on_trial("echo $$ > $here/trial.pid; exec sleep 1000", 0o755, "60s");
    world.put("node/update.lock", b"", 0o600);
    let lock = fs::File::open(world.path("node/update.lock")).unwrap();
    lock.lock().unwrap();
    let mut waiting = world.supervise();
    waiting.says("waiting for the record");
    waiting.stops_within_five_seconds();
    assert!(!fs::exists(world.path("trial.pid")).unwrap());

    lock.unlock().unwrap();
    let mut running = world.supervise();
    let trial = world.pid("trial.pid");
    lock.lock().unwrap();
    running.stops_within_five_seconds();
    gone(trial);
}

#[test]
fn a_stop_on_trial_goes_back_and_stays_stopped() {
    let world = on_trial("echo $$ > $here/trial.pid; exec sleep 1000", 0o755, "60s");
    let mut supervisor = world.supervise();
    let trial = world.pid("trial.pid");
    supervisor.signal(Signal::SIGTERM);
    assert_eq!(supervisor.wait().code(), Some(0));
    gone(trial);
    let last = world.ended_attempt();
    assert_eq!(
        (&last["outcome"], &last["final"]),
        (&json!("cancelled"), &json!(false))
    );
    assert!(!fs::exists(world.path("good.pid")).unwrap());
}

#[test]
fn a_killed_supervisor_takes_its_node_with_it_and_the_trial_goes_on() {
    let world = on_trial("echo $$ > $here/trial.pid; exec sleep 1000", 0o755, "60s");
    let mut supervisor = world.supervise();
    let trial = world.pid("trial.pid");
    supervisor.signal(Signal::SIGKILL);
    supervisor.wait();
    gone(trial);
    fs::remove_file(world.path("trial.pid")).unwrap();
    let _supervisor = world.supervise();
    world.pid("trial.pid");
    assert_eq!(world.read_record().unwrap()["trial"]["starts"], 2);
}

#[test]
fn kills_of_the_supervisor_use_up_the_starts() {
    let world = on_trial("echo $$ > $here/trial.pid; exec sleep 1000", 0o755, "60s");
    for _ in 0..3 {
        let mut supervisor = world.supervise();
        let trial = world.pid("trial.pid");
        supervisor.signal(Signal::SIGKILL);
        supervisor.wait();
        gone(trial);
        fs::remove_file(world.path("trial.pid")).unwrap();
    }
    let _supervisor = world.supervise();
    assert_went_back(&world);
}

#[test]
fn a_damaged_trial_is_never_started() {
    let world = World::new("60s");
    let confirmed = world.script("a", GOOD, 0o755);
    world.script("b", "echo $$ > $here/trial.pid; exec sleep 1000", 0o755);
    world.record(confirmed, Some(Sha256::of(b"what was signed")));
    let _supervisor = world.supervise();
    assert_eq!(world.ended_attempt()["code"], "digest");
    assert_went_back(&world);
    assert!(!fs::exists(world.path("trial.pid")).unwrap());
}

#[test]
fn a_node_that_dies_is_started_again() {
    let world = World::new("60s");
    let confirmed = world.script("a", GOOD, 0o755);
    world.record(confirmed, None);
    let _supervisor = world.supervise();
    let first = world.pid("good.pid");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(first), Signal::SIGKILL).unwrap();
    until("another node", || {
        (world.pid("good.pid") != first).then_some(())
    });
}

/// Its terminal is closed, or somebody expects it to read its configuration anew.
#[test]
fn sighup_ends_neither_the_supervisor_nor_its_node() {
    let world = World::new("60s");
    let confirmed = world.script("a", GOOD, 0o755);
    world.record(confirmed, None);
    let mut supervisor = world.supervise();
    let node = world.pid("good.pid");
    supervisor.signal(Signal::SIGHUP);
    supervisor.says("SIGHUP changes nothing");
    assert!(fs::exists(format!("/proc/{node}")).unwrap());
    supervisor.stops_within_five_seconds();
}

#[test]
fn a_machine_that_is_no_node_is_told_once_how_to_become_one() {
    let world = World::new("60s");
    let supervised = world.run(&["supervise"]);
    assert_eq!(supervised.status.code(), Some(1));
    let said = String::from_utf8(supervised.stderr).unwrap();
    assert!(
        said.contains("`bcd join --token-file FILE` makes it"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(world.read_record(), None);
}

#[test]
fn a_node_that_ignores_its_end_is_killed_in_time() {
    let world = World::new("60s");
    let script = "trap '' TERM INT; echo $$ > $here/good.pid; while :; do sleep 1000; done";
    let confirmed = world.script("a", script, 0o755);
    world.record(confirmed, None);
    let mut supervisor = world.supervise();
    let node = world.pid("good.pid");
    supervisor.signal(Signal::SIGTERM);
    assert_eq!(supervisor.wait().code(), Some(0));
    gone(node);
}

#[test]
fn a_second_supervisor_is_refused() {
    let world = World::new("60s");
    let confirmed = world.script("a", GOOD, 0o755);
    world.record(confirmed, None);
    let _supervisor = world.supervise();
    world.pid("good.pid");
    let second = world.run(&["supervise"]);
    assert_eq!(second.status.code(), Some(4));
    let said = String::from_utf8(second.stderr).unwrap();
    assert!(
        said.contains("found that another process holds it"),
        "{said}"
    );
}

#[test]
fn a_binary_on_trial_that_never_lets_go_of_the_record_is_killed_for_it() {
    let script =
        "exec 9< $here/node/update.lock; flock 9; echo $$ > $here/trial.pid; exec sleep 1000";
    let world = on_trial(script, 0o755, "1s");
    let _supervisor = world.supervise();
    let trial = world.pid("trial.pid");
    let last = world.ended_attempt();
    assert_eq!(last["outcome"], "hung");
    gone(trial);
    assert_went_back(&world);
}

#[test]
fn a_trial_whose_start_nobody_counted_does_not_start() {
    let world = on_trial("echo $$ > $here/trial.pid", 0o755, "60s");
    let output = world.run(&["exec", "node"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(!fs::exists(world.path("trial.pid")).unwrap());
    let _watchdog = world.watched();
    assert!(world.run(&["boot"]).status.success());
    assert!(world.run(&["exec", "node"]).status.success());
    assert!(fs::exists(world.path("trial.pid")).unwrap());
}
