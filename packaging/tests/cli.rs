//! The command line beside a rollout that moves: bars to the end, failures, explanations, a fleet in good health.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::time::Duration;

use packaging::{
    build,
    pictures::{stage::Stage, terminal::Recording},
    simulated::Habits,
};
use tokio::sync::watch;

const NODES: usize = 10;

async fn stage(habits: Habits) -> Stage {
    let programs = build::programs().await.unwrap();
    Stage::start(&programs, NODES, &habits).await.unwrap()
}

/// Runs a command at a terminal, while the nodes go on.
async fn at_terminal(stage: &Stage, line: &str) -> Recording {
    let mut command = stage.fleet.operator.command();
    command.args(line.split(' '));
    let line = line.to_owned();
    tokio::task::spawn_blocking(move || Recording::of(command, &line).unwrap())
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_watched_to_its_end() {
    let slow = Habits {
        slow: Duration::from_millis(800),
        ..Habits::default()
    };
    let stage = stage(slow).await;
    let operator = &stage.fleet.operator;
    let watched = at_terminal(
        &stage,
        "rollouts create --version 1.1.0 --waves 10,50,100 --soak 1s --watch",
    )
    .await;
    assert_eq!(watched.code, Some(0), "{}", watched.last());
    for words in ["wave 1", "waiting", "upgrading", "soaking"] {
        assert!(watched.has_shown(words), "{words}: {}", watched.last());
    }
    let last = watched.last();
    for words in ["1/1", "4/4", "5/5", "1.1.0 completed: 10 succeeded"] {
        assert!(last.contains(words), "{words}: {last}");
    }
    assert!(watched.svg().contains("1.1.0 completed"));

    let id = operator.json(&["rollouts", "list"]).unwrap()["rollouts"][0]["id"].clone();
    let id = id.as_str().unwrap();
    let node = operator.json(&["rollouts", "get", id]).unwrap()["nodeList"][0]["nodeId"].clone();
    let node = node.as_str().unwrap();
    let said = operator.run(&["rollouts", "explain", id, node]).unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let sentence = format!("{node} (succeeded): it went from 1.0.0 to 1.1.0, confirmed at ");
    assert!(said.starts_with(&sentence), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let good = operator.json(&["doctor"]).unwrap();
    assert_eq!(good["good"], true, "{good:#}");
    let again = at_terminal(&stage, &format!("rollouts watch {id}")).await;
    assert_eq!(again.code, Some(0), "{}", again.last());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wave_that_fails_pauses_the_rollout_and_the_watch_says_what_to_do() {
    let failing = Habits {
        failing: watch::channel(100).1,
        ..Habits::default()
    };
    let stage = stage(failing).await;
    let watched = at_terminal(
        &stage,
        "rollouts create --version 1.1.0 --waves 10,100 --soak 0s --watch",
    )
    .await;
    assert_eq!(watched.code, Some(3), "{}", watched.last());
    for words in ["1.1.0 paused", "1 failed", "rollouts resume"] {
        assert!(watched.has_shown(words), "{words}: {}", watched.last());
    }
}
