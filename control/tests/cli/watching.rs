//! Following a rollout to its end, and through what comes in between.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use super::stand::Control;

/// A watch that runs.
struct Watch {
    running: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    fn start(mut command: Command) -> Self {
        let mut running = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(running.stdout.take().unwrap()).lines();
        Self { running, lines }
    }

    /// The next line that has this in it.
    fn until(&mut self, words: &str) -> String {
        self.lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("no line said {words}"))
    }

    fn code(mut self) -> Option<i32> {
        self.running.wait().unwrap().code()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ended_already = self.running.kill();
    }
}

#[test]
fn a_pause_ends_the_watch_with_3_and_says_why() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Watch::start(control.command(&["rollouts", "watch", &id]));
    watch.until("1.1.0 running: 3 pending");
    control
        .run(&["rollouts", "pause", &id, "--reason", "lunch"])
        .done();
    let last = watch.until("paused");
    assert!(last.ends_with("1.1.0 paused (3 pending): lunch"), "{last}");
    assert_eq!(watch.code(), Some(3));
}

#[test]
fn programs_get_every_state_as_a_line_of_json() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Watch::start(control.command(&["rollouts", "watch", &id, "-o", "json"]));
    let first: Value = serde_json::from_str(&watch.until("running")).unwrap();
    assert_eq!(
        (&first["id"], first.get("nodeList")),
        (&Value::from(id.as_str()), None)
    );
    control.run(&["rollouts", "abort", &id]).done();
    let last: Value = serde_json::from_str(&watch.until("aborted")).unwrap();
    assert_eq!(last["nodes"]["skipped"], 3);
    assert_eq!(watch.code(), Some(3));
}

#[test]
fn a_freeze_and_its_end_are_told() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Watch::start(control.command(&["rollouts", "watch", &id]));
    watch.until("1.1.0 running: 3 pending");
    let freeze = ["fleet", "freeze", "--reason", "incident 7"];
    control.run(&freeze).done();
    let told = watch.until("froze the fleet at");
    assert!(
        told.ends_with("so nothing starts until `better-compute fleet unfreeze`: incident 7"),
        "{told}"
    );
    control.run(&["fleet", "unfreeze"]).done();
    watch.until("the fleet is frozen no more");
}

#[test]
fn a_picked_field_is_told_when_it_changes() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Watch::start(control.command(&["rollouts", "watch", &id, "--query", "state"]));
    assert_eq!(watch.until("running"), "running");
    control.run(&["rollouts", "pause", &id]).done();
    assert_eq!(watch.until("paused"), "paused");
    assert_eq!(watch.code(), Some(3));
}

#[test]
fn create_and_watch_in_one() {
    let control = Control::start();
    let id = control.rollout();
    control.run(&["rollouts", "abort", &id]).done();
    let mut watch = Watch::start(control.command(&[
        "rollouts",
        "create",
        "--version",
        "1.1.0",
        "--watch",
        "-o",
        "json",
    ]));
    let first: Value = serde_json::from_str(&watch.until("running")).unwrap();
    assert_ne!(first["id"], Value::from(id));
    control
        .run(&["rollouts", "pause", first["id"].as_str().unwrap()])
        .done();
    assert_eq!(watch.code(), Some(3));
}

#[test]
fn waiting_longer_than_asked_is_5() {
    let control = Control::start();
    let id = control.rollout();
    let ended = control.run(&["rollouts", "watch", &id, "--timeout", "1s"]);
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(ended.err.contains("waited 1s for"), "{ended:?}");
    assert_eq!(control.json(&["rollouts", "get", &id])["state"], "running");
}

#[test]
fn ctrl_c_is_130_and_the_rollout_goes_on() {
    let control = Control::start();
    let id = control.rollout();
    let mut watch = Watch::start(control.command(&["rollouts", "watch", &id]));
    watch.until("running");
    interrupt(&watch.running);
    assert_eq!(watch.code(), Some(130));
    assert_eq!(control.json(&["rollouts", "get", &id])["state"], "running");
}

#[test]
fn a_control_that_is_killed_and_comes_back_is_waited_for() {
    let mut control = Control::start();
    let id = control.rollout();
    let mut watch = Watch::start(control.command(&["rollouts", "watch", &id]));
    watch.until("running");
    control.kill();
    control.restart();
    control.run(&["rollouts", "abort", &id]).done();
    watch.until("1.1.0 aborted");
    assert_eq!(watch.code(), Some(3));
}

#[test]
fn a_rollout_that_is_not_there_is_not_waited_for() {
    let control = Control::start();
    let id = format!("rollout_{}", "0".repeat(26));
    let error = control.run(&["rollouts", "watch", &id]).refused(1);
    assert!(error.starts_with("error[NOT_FOUND]: "), "{error}");
}

fn interrupt(child: &Child) {
    let kill = format!("kill -INT {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success());
}
