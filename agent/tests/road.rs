//! The real program, from its join to a release that it confirmed: control, gateway and download server are the
//! test's, on sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

#[path = "road/asked.rs"]
mod asked;
#[path = "road/doctor.rs"]
mod doctor;
#[path = "road/fleet.rs"]
mod fleet;
#[path = "road/helpers.rs"]
mod helpers;
#[path = "road/junk.rs"]
mod junk;
#[path = "road/node.rs"]
mod node;
#[path = "road/refusals.rs"]
mod refusals;
#[path = "road/renewal.rs"]
mod renewal;
#[path = "road/session.rs"]
mod session;
#[path = "road/shown.rs"]
mod shown;
#[path = "road/units.rs"]
mod units;

use std::time::Duration;

use bc_protocol::{
    sequence::{ReleaseFloor, Sequence},
    session::{Facts, FromGateway, FromNode, Goodbye, GoodbyeReason, Outcome, Slot},
    spec::NodeSpec,
};

use fleet::{Fleet, Release};
use node::Node;
use session::Session;

#[tokio::test]
async fn a_node_joins_upgrades_confirms_and_refuses_the_next() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::new(&fleet);
    node.join();
    let mut supervise = node.supervise();

    let mut first = fleet.session().await;
    let hello = first.hello.facts.clone();
    assert_eq!(
        (hello.slot, hello.sequence),
        (Some(Slot::A), Sequence::PACKAGED)
    );
    first.say(spec(1, fleet.section(&release, "one"))).await;
    let phases = upgrade(&mut first).await;
    assert!(phases.iter().any(|facts| facts.observed_generation == 1));

    let mut second = fleet.session().await;
    let hello = second.hello.clone();
    assert!(hello.connect_seq > first.hello.connect_seq);
    assert_eq!(hello.facts.slot, Some(Slot::B));
    assert_eq!(hello.facts.digest, release.digest);
    assert_eq!(
        hello.facts.floor,
        ReleaseFloor::starting_at(Sequence::PACKAGED)
    );
    assert_eq!(
        hello.facts.observed_generation, 1,
        "it outlives the process"
    );
    assert!(hello.facts.trial.is_some());
    let confirmed = second
        .facts_until(|facts| outcome(facts) == Some((Outcome::Confirmed, true)))
        .await;
    assert_eq!(confirmed.trial, None);
    assert_eq!(confirmed.floor.sequence(), release.sequence);
    assert_eq!(node.status()["session"]["connected"], true);

    let mut bad = fleet.section(&Release::of_this_program(2), "two");
    let middle = bad.signature.len() / 2;
    bad.signature[middle] ^= 1;
    second.say(spec(2, bad)).await;
    let refused = second
        .facts_until(|facts| outcome(facts) == Some((Outcome::Refused, true)))
        .await;
    assert_eq!(
        (refused.slot, refused.floor),
        (Some(Slot::B), confirmed.floor)
    );

    supervise.terminate();
    let goodbye = second.read_until_goodbye().await;
    assert_eq!(goodbye, GoodbyeReason::Stopping);
    drop(second);
    assert!(supervise.wait().await.success());
    let status = node.status();
    assert_eq!(status["session"]["connected"], false);
    assert_eq!(status["floor"], 1);
    assert_eq!(status["running"]["slot"], "b");
}

/// A machine without a battery: it judges https, sessions and manifests by the time at which its binary was built.
/// A gateway is looked for while a binary is on trial, and not for as long as the binary lives.
#[tokio::test]
async fn nobody_looks_for_a_gateway_once_a_trial_is_over() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::with_deadline(&fleet, "6s");
    node.join();
    let _supervise = node.supervise();
    let mut first = fleet.session().await;
    first.say(spec(1, fleet.section(&release, "one"))).await;
    upgrade(&mut first).await;
    let mut second = fleet.session().await;
    second
        .facts_until(|facts| outcome(facts) == Some((Outcome::Confirmed, true)))
        .await;
    // The trial's last third, and its end.
    assert!(fleet.is_left_alone_for(Duration::from_secs(8)).await);
}

#[tokio::test]
async fn a_node_whose_clock_shows_1970_joins_and_upgrades_all_the_same() {
    let fleet = Fleet::secured().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::new(&fleet).in_1970();
    node.join();
    let _supervise = node.supervise();
    let mut first = fleet.session().await;
    first.say(spec(1, fleet.section(&release, "one"))).await;
    upgrade(&mut first).await;
    let mut second = fleet.session().await;
    let facts = second.facts_until(|facts| facts.trial.is_none()).await;
    assert_eq!(outcome(&facts), Some((Outcome::Confirmed, true)));
}

/// Both slots rot after the release was confirmed: the package's binary takes the very section that it has, once more.
#[tokio::test]
async fn a_node_whose_slots_are_damaged_heals_by_the_section_that_it_has() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::new(&fleet);
    node.join();
    let mut supervise = node.supervise();
    let mut session = fleet.session().await;
    let wanted = || spec(1, fleet.section(&release, "one"));
    session.say(wanted()).await;
    upgrade(&mut session).await;
    let mut session = fleet.session().await;
    session.facts_until(|facts| facts.trial.is_none()).await;
    supervise.terminate();
    session.read_until_goodbye().await;
    assert!(supervise.wait().await.success());

    node.flip_a_byte_of("slots/a/bcd");
    node.flip_a_byte_of("slots/b/bcd");
    let _supervise = node.supervise();
    let mut rescued = fleet.session().await;
    let facts = rescued.hello.facts.clone();
    assert_eq!((facts.slot, facts.sequence), (None, Sequence::PACKAGED));
    assert_eq!(facts.floor.sequence(), release.sequence);
    assert_eq!(facts.notice.as_deref(), Some("rescue"));
    // What it remembers is enough: it need not be sent again.
    upgrade(&mut rescued).await;
    let mut healed = fleet.session().await;
    let facts = healed.facts_until(|facts| facts.trial.is_none()).await;
    assert_eq!(
        (facts.digest, facts.sequence),
        (release.digest, release.sequence)
    );
    assert_eq!(outcome(&facts), Some((Outcome::Confirmed, true)));
    assert_eq!(facts.floor.sequence(), release.sequence);
    assert_eq!(facts.notice, None);
    assert_eq!(node.status()["notice"], serde_json::Value::Null);
}

/// A node that has left for a trial of three seconds.
async fn on_trial(fleet: &Fleet) -> (Node, node::Supervise) {
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::with_deadline(fleet, "3s");
    node.join();
    let supervise = node.supervise();
    let mut session = fleet.session().await;
    session.say(spec(1, fleet.section(&release, "one"))).await;
    upgrade(&mut session).await;
    (node, supervise)
}

#[tokio::test]
async fn a_trial_without_a_gateway_in_reach_proves_nothing() {
    let fleet = Fleet::start().await;
    let (node, _supervise) = on_trial(&fleet).await;
    drop(fleet);
    let last = node.ended_attempt().await;
    assert_eq!(
        (&last["outcome"], &last["final"]),
        (&"environment".into(), &false.into())
    );
    assert_eq!(
        (node.status()["floor"].clone(), last["tries"].clone()),
        (0.into(), 1.into())
    );
}

#[tokio::test]
async fn a_trial_that_gateways_let_in_and_do_not_welcome_has_failed() {
    let fleet = Fleet::start().await;
    let (node, _supervise) = on_trial(&fleet).await;
    let gateway = tokio::spawn(fleet.welcome_nobody());
    let last = node.ended_attempt().await;
    gateway.abort();
    assert_eq!(
        (&last["outcome"], &last["final"]),
        (&"no-welcome".into(), &true.into())
    );
}

#[tokio::test]
async fn a_held_node_says_so_and_updates_when_it_is_let_go() {
    let fleet = Fleet::start().await;
    let release = Release::of_this_program(1);
    fleet.serve(&release);
    let node = Node::new(&fleet);
    node.join();
    let _supervise = node.supervise();
    let mut session = fleet.session().await;
    assert_eq!(session.hello.facts.held, None);
    node.update(&["hold", "--reason", "a trade fair"]);
    let held = session.facts_until(|facts| facts.held.is_some()).await;
    assert_eq!(held.held.as_deref(), Some("a trade fair"));
    session.say(spec(1, fleet.section(&release, "one"))).await;
    let seen = session
        .facts_until(|facts| facts.observed_generation == 1)
        .await;
    assert_eq!((seen.progress, seen.last_attempt), (None, None));
    let checked: serde_json::Value =
        serde_json::from_str(&node.update(&["check", "--output", "json"])).unwrap();
    assert_eq!(checked["held"], "a trade fair");
    assert!(checked["heldSince"].is_string(), "{checked}");
    assert_eq!(
        (&checked["upToDate"], &checked["wantedDigest"]),
        (&false.into(), &release.digest.to_string().into())
    );
    let next = checked["next"].as_str().unwrap();
    assert!(next.contains("on release the update to"), "{next}");
    assert_eq!(node.status()["held"], "a trade fair");
    node.update(&["release"]);
    session.read_until_goodbye().await;
    let second = fleet.session().await;
    assert_eq!(second.hello.facts.digest, release.digest);
    assert_eq!(second.hello.facts.held, None);
}

/// Who may not look says so, instead of what he would have found.
#[tokio::test]
async fn somebody_without_rights_is_told_that_he_has_none() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    let _supervise = node.supervise();
    let _session = fleet.session().await;
    node.connected().await;
    let Some((status, said, complaint)) = node.as_nobody(&["status"]) else {
        return;
    };
    assert_eq!(status, 1, "{said}");
    let hidden = said
        .lines()
        .filter(|line| line.ends_with("cannot be read: run as root"));
    let names: Vec<&str> = hidden.filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["node", "session", "held"], "{said}");
    assert!(said.contains("slot a, sequence 0"), "{said}");
    assert_eq!(
        (
            complaint.lines().count(),
            complaint.ends_with("run as root\n")
        ),
        (1, true)
    );
    for args in [
        &["update", "hold"],
        &["update", "release"],
        &["update", "check"],
    ] {
        let (status, said, complaint) = node.as_nobody(args).unwrap();
        assert_eq!((status, said.as_str()), (1, ""), "{args:?}");
        assert!(complaint.contains("state/hold.json"), "{complaint}");
        assert!(complaint.ends_with("run as root\n"), "{complaint}");
    }
}

#[tokio::test]
async fn a_removed_node_says_so_and_how_to_join_anew() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    let _supervise = node.supervise();
    let mut session = fleet.session().await;
    node.connected().await;
    session
        .say(FromGateway::Goodbye(Goodbye {
            reason: GoodbyeReason::Removed,
            reconnect_after_ms: 0,
            message: "the node has been removed".to_owned(),
        }))
        .await;
    let said = node.says(|session| session["removed"] == true).await;
    assert_eq!(
        (&said["connected"], &said["running"]),
        (&false.into(), &true.into())
    );
    let lost = said["lost"].as_str().unwrap();
    assert!(lost.contains("the node has been removed"), "{lost}");
    let gateway = tokio::spawn(fleet.upgrade_everybody());
    let finding = node.finding("session").await;
    gateway.abort();
    assert_eq!(finding["good"], false);
    let mend = finding["mend"].as_str().unwrap();
    assert!(mend.contains("state/identity, run bcd join"), "{mend}");
}

#[tokio::test]
async fn a_node_without_a_gateway_says_since_when_and_why() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    let supervise = node.supervise();
    let session = fleet.session().await;
    node.connected().await;
    drop((session, fleet));
    let said = node
        .says(|session| {
            session["lost"]
                .as_str()
                .is_some_and(|why| why.contains("refused"))
        })
        .await;
    assert_eq!(
        (&said["connected"], &said["removed"]),
        (&false.into(), &false.into())
    );
    assert!(said["since"].is_string(), "{said}");
    drop(supervise);
    node.says(|session| session["running"] == false).await;
}

/// Whoever asks often is put off, and finds nothing wrong in that.
#[tokio::test]
async fn a_gateway_that_says_not_now_is_there() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    let gateway = tokio::spawn(fleet.put_everybody_off());
    let finding = node.finding("gateway").await;
    gateway.abort();
    assert_eq!(finding["good"], true, "{finding}");
    assert!(
        finding["found"]
            .as_str()
            .unwrap()
            .ends_with("says not now (429)")
    );
}

/// What the node reports on its way out of the old binary.
async fn upgrade(session: &mut Session) -> Vec<Facts> {
    let mut reports = Vec::new();
    loop {
        match session.read().await {
            FromNode::Report(report) => {
                assert_eq!(report.number, reports.len() as u64 + 1);
                reports.push(report.facts);
            }
            FromNode::Goodbye(goodbye) => {
                assert_eq!(goodbye.reason, GoodbyeReason::Updating);
                return reports;
            }
            other @ (FromNode::Hello(_)
            | FromNode::CommandResult(_)
            | FromNode::CertificateRequest(_)) => panic!("{other:?}"),
        }
    }
}

fn spec(generation: u64, section: bc_protocol::spec::DaemonSection) -> FromGateway {
    FromGateway::Spec(Ok(NodeSpec {
        generation,
        daemon: Some(section),
    }))
}

fn outcome(facts: &Facts) -> Option<(Outcome, bool)> {
    let attempt = facts.last_attempt.as_ref()?;
    Some((attempt.outcome, attempt.is_final))
}
