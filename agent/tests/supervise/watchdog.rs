//! The watchdog as a process of its own, and the service manager that it works with: a script that notes what it is told.

use std::fs;
use std::process::Command;

use bc_protocol::digest::Sha256;
use serde_json::{Value, json};

use crate::world::{Supervisor, World, attempt, program, until};

/// A machine whose slot b is on trial: nothing has started it in this boot.
fn on_trial(deadline: &str) -> (World, Sha256) {
    let world = World::new(deadline);
    let confirmed = world.script("a", "exit 0", 0o755);
    let trial = world.script("b", "exit 0", 0o755);
    world.record(confirmed, Some(trial));
    (world, trial)
}

/// A watchdog that restarts the node by a line of shell.
fn watch(world: &World) -> Supervisor {
    let line = format!("echo again >> {}", world.path("restarts").display());
    let words = ["watchdog", "--restart", &line, "--log", "bcd=debug"];
    world.start(&mut world.command(&words))
}

/// A service manager whose units are in that state, and which starts a watchdog where it is told to.
fn managed(world: &World, state: &str, arguments: &[&str]) -> Command {
    let here = world.folder.path().display();
    let script = format!(
        "#!/bin/sh\nhere='{here}'\necho \"$*\" >> $here/asked\n\
         case \"$1\" in\n\
         show) echo '{state}' ;;\n\
         is-system-running) cat $here/system; exit 1 ;;\n\
         start) {} watchdog --config $here/bcd.toml >/dev/null 2>&1 & echo $! > $here/watchdog.pid ;;\n\
         esac\n",
        program()
    );
    for name in ["systemctl", "journalctl"] {
        world.put(&format!("bin/{name}"), script.as_bytes(), 0o755);
    }
    let path = std::env::var("PATH").unwrap();
    let mut command = world.command(arguments);
    command
        .env("INVOCATION_ID", "0")
        .env("PATH", format!("{}:{path}", world.path("bin").display()));
    command
}

fn asked(world: &World) -> Vec<String> {
    let asked = fs::read_to_string(world.path("asked")).unwrap_or_default();
    asked.lines().map(str::to_owned).collect()
}

fn restarts(world: &World) -> usize {
    let restarts = fs::read_to_string(world.path("restarts")).unwrap_or_default();
    restarts.lines().count()
}

/// The trial was ended so, the old binary is what starts next, and the floor is where it was.
fn assert_went_back(world: &World, outcome: &str) -> Value {
    let record = world.read_record().unwrap();
    assert_eq!(record["trial"], json!(null));
    assert_eq!(record["confirmed"]["slot"], "a");
    assert_eq!(record["floor"], 1);
    assert_eq!(record["lastAttempt"]["outcome"], outcome, "{record:#}");
    record
}

#[test]
fn a_trial_that_is_not_confirmed_in_time_is_gone_back_from_and_the_node_restarted() {
    let (world, _) = on_trial("1s");
    let mut watchdog = watch(&world);
    assert_eq!(watchdog.wait().code(), Some(0));
    assert_went_back(&world, "hung");
    assert_eq!(restarts(&world), 1);
}

#[test]
fn a_watchdog_that_was_armed_before_its_trial_sees_it_come() {
    let (world, trial) = on_trial("1s");
    let mut record = world.read_record().unwrap();
    let begun = record.clone();
    record["trial"] = json!(null);
    world.write_record(&record);
    let mut watchdog = watch(&world);
    until("the lock", || {
        let lock = fs::File::open(world.path("node/supervise.lock")).ok()?;
        lock.try_lock().is_err().then_some(())
    });
    let mut begun = begun;
    begun["counter"] = json!(2);
    world.write_record(&begun);
    watchdog.says("watching over a trial");
    assert_eq!(watchdog.wait().code(), Some(0));
    assert_went_back(&world, "hung");
    assert_eq!(begun["trial"]["digest"], json!(trial));
}

#[test]
fn a_trial_that_is_confirmed_leaves_nothing_to_watch() {
    let (world, trial) = on_trial("60s");
    let mut watchdog = watch(&world);
    watchdog.says("watching over a trial");
    let mut record = world.read_record().unwrap();
    record["trial"] = json!(null);
    record["counter"] = json!(5);
    record["floor"] = json!(2);
    record["confirmed"] = json!({"slot": "b", "sequence": 2, "digest": trial});
    world.write_record(&record);
    assert_eq!(watchdog.wait().code(), Some(0));
    assert_eq!(world.read_record().unwrap(), record);
    assert_eq!(restarts(&world), 0);
}

#[test]
fn a_stop_on_trial_goes_back_and_starts_nothing() {
    let (world, _) = on_trial("60s");
    let mut watchdog = watch(&world);
    watchdog.says("watching over a trial");
    watchdog.stops_within_five_seconds();
    let record = assert_went_back(&world, "cancelled");
    assert_eq!(record["lastAttempt"]["final"], false);
    assert_eq!(restarts(&world), 0);
}

#[test]
fn a_machine_that_goes_down_takes_its_trial_along() {
    let (world, _) = on_trial("60s");
    world.put("system", b"stopping", 0o644);
    let mut command = managed(&world, "active", &["watchdog", "--log", "bcd=debug"]);
    let mut watchdog = world.start(&mut command);
    watchdog.says("watching over a trial");
    watchdog.stops_within_five_seconds();
    assert_eq!(world.read_record().unwrap()["trial"]["slot"], "b");
}

#[test]
fn a_unit_is_restarted_from_failed_and_not_where_an_operator_stopped_it() {
    for (state, restarted) in [("failed", true), ("activating", true), ("inactive", false)] {
        let (world, _) = on_trial("1s");
        let words = ["watchdog", "--unit", "agent.service"];
        let mut watchdog = world.start(&mut managed(&world, state, &words));
        assert_eq!(watchdog.wait().code(), Some(0));
        assert_went_back(&world, "hung");
        let restart = "restart --no-block agent.service".to_owned();
        let kill = "kill --signal=SIGKILL agent.service".to_owned();
        let asked = asked(&world);
        assert_eq!(asked.contains(&restart), restarted, "{state}");
        assert_eq!(asked.contains(&kill), restarted, "{state}");
    }
}

#[test]
fn one_watchdog_a_node() {
    let (world, _) = on_trial("60s");
    let first = watch(&world);
    first.says("watching over a trial");
    assert_eq!(watch(&world).wait().code(), Some(4));
    assert_eq!(world.run(&["supervise"]).status.code(), Some(4));
}

/// Whoever holds the record for ever is restarted for it, and then the decision is written.
#[test]
fn a_binary_that_never_lets_go_of_the_record_is_restarted_for_it() {
    let (world, _) = on_trial("1s");
    world.put("node/update.lock", b"", 0o600);
    let lock = fs::File::open(world.path("node/update.lock")).unwrap();
    lock.lock().unwrap();
    let mut watchdog = watch(&world);
    watchdog.says("does not let go of the record");
    until("a restart", || (restarts(&world) > 0).then_some(()));
    drop(lock);
    assert_eq!(watchdog.wait().code(), Some(0));
    assert_went_back(&world, "hung");
}

#[test]
fn boot_starts_the_watchdog_of_a_trial_before_it_counts() {
    let (world, _) = on_trial("2s");
    let booted = managed(&world, "active", &["boot"]).output().unwrap();
    assert!(booted.status.success(), "{booted:?}");
    assert_eq!(world.read_record().unwrap()["trial"]["starts"], 1);
    assert_eq!(asked(&world), ["start --no-block bcd-watchdog.service"]);
    // It watches, and goes back at the deadline that this boot has set.
    let watchdog = world.pid("watchdog.pid");
    assert_eq!(world.ended_attempt()["outcome"], "hung");
    crate::world::gone(watchdog);
}

#[test]
fn a_trial_that_nobody_would_go_back_from_is_not_started() {
    let (world, _) = on_trial("60s");
    assert!(world.run(&["boot"]).status.success());
    let record = assert_went_back(&world, "environment");
    assert_eq!(record["lastAttempt"]["code"], "watchdog");
    assert_eq!(record["lastAttempt"]["id"], json!(attempt()));
    // The manager says that it starts one, and does not.
    let (world, _) = on_trial("60s");
    let mut boot = managed(&world, "active", &["boot"]);
    world.put("bin/systemctl", b"#!/bin/sh\n", 0o755);
    assert!(boot.status().unwrap().success());
    assert_went_back(&world, "environment");
}
