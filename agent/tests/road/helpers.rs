//! A node without rights, its helper, and what may sit in the helper's place.

use std::io::{Read as _, Write as _};

use bc_protocol::session::{AttemptFacts, GoodbyeReason, Outcome};

use super::fleet::{Fleet, Release};
use super::node::{self, Node};
use super::{outcome, spec};

/// Covers the attack list "Helper", I3, I8, I14: only root can run it, for only root can run a node as somebody else.
#[tokio::test]
async fn a_node_without_rights_upgrades_through_the_helper() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::unprivileged(&fleet);
    node.join();
    let mut supervise = node.supervise();
    let mut first = fleet.session().await;
    // Without a helper the attempt says so, and goes on.
    first.say(spec(1, fleet.section(&release, "one"))).await;
    let waiting = first
        .facts_until(|facts| {
            facts
                .last_attempt
                .as_ref()
                .is_some_and(|last| last.code == "helper")
        })
        .await;
    assert_eq!(outcome(&waiting), Some((Outcome::Failed, false)));
    let mut helper = node.helper();
    loop {
        if first.read_until_goodbye_or_report().await == Some(GoodbyeReason::Updating) {
            break;
        }
    }

    let mut second = fleet.session().await;
    assert_eq!(second.hello.facts.digest, release.digest);
    let confirmed = second
        .facts_until(|facts| outcome(facts) == Some((Outcome::Confirmed, true)))
        .await;
    assert_eq!(confirmed.floor.sequence(), release.sequence);
    assert_eq!(confirmed.helper.as_ref(), Some(&confirmed.version));
    assert_eq!(node.status()["helper"], confirmed.version.as_str());
    // The helper is the confirmed binary from now on, under its old process id.
    node.runs(&helper, "slots/b/bcd").await;
    assert_eq!(
        node.owners(&[
            "state",
            "identity",
            "identity/node.key",
            "state/node-spec.json"
        ]),
        [node::NOBODY].into()
    );
    let roots = ["", "update.json", "slots/b/bcd", "slots/b/release.json"];
    assert_eq!(node.owners(&roots), [0].into());
    supervise.terminate();
    assert!(supervise.wait().await.success());
    // Nobody else is asked for long from here on.
    drop(fleet);
    assert_eq!(node.finding("helper").await["good"], true);
    helper.terminate();
    assert!(helper.wait().await.success());
    assert_eq!(node.finding("helper").await["good"], false);
    assert_eq!(node.status()["floor"], 1);
}

/// What becomes of an attempt that needs the helper.
async fn attempt_with(fleet: &Fleet, release: &Release) -> AttemptFacts {
    let mut session = fleet.session().await;
    session.say(spec(1, fleet.section(release, "one"))).await;
    let told = session
        .facts_until(|facts| {
            let last = facts.last_attempt.as_ref();
            last.is_some_and(|last| last.code.starts_with("helper"))
        })
        .await;
    assert_eq!(told.helper, None);
    told.last_attempt.unwrap()
}

/// Whoever is not root has nothing to say about the slots, though he sits at the helper's place.
#[tokio::test]
async fn a_node_believes_no_helper_that_is_not_roots() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::unprivileged(&fleet);
    node.join();
    let _impostor = node.impostor().await;
    let _supervise = node.supervise();
    let told = attempt_with(&fleet, &release).await;
    assert_eq!(
        (told.code.as_str(), told.is_final),
        ("helper-denied", false)
    );
    assert!(
        told.message.contains("found one of user 65534"),
        "{}",
        told.message
    );
}

/// A helper too old to know what it is asked for says so, and the node passes it on within seconds.
#[tokio::test]
async fn a_helper_that_is_too_old_is_reported_as_such() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::unprivileged(&fleet);
    node.join();
    let listener = node.helper_socket();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 1024];
            // How much of it came is no matter.
            let _read = stream.read(&mut request);
            let answer = r#"{"version":1,"helper":"an old one","answer":{"answer":"unsupported"}}"#;
            let length = u32::try_from(answer.len()).unwrap().to_be_bytes();
            stream
                .write_all(&[&length, answer.as_bytes()].concat())
                .ok();
        }
    });
    let _supervise = node.supervise();
    let told = attempt_with(&fleet, &release).await;
    assert_eq!(
        (told.code.as_str(), told.is_final),
        ("helper-unsupported", false)
    );
}
