//! A node whose slots are damaged: the package's own binary runs, to bring back what was confirmed.

use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;

use super::{Done, Input, Job, Scene, Target, attempt, failed, section};
use crate::updater::attempt::{Attempt, Ending};

/// An attempt of that name, for that version, which ended so.
fn ended(name: &str, target: &str, outcome: Outcome) -> Attempt {
    Attempt::begun(attempt(name), target).ended(Ending::new(outcome, "code", "message"))
}

#[test]
fn what_was_confirmed_and_lost_is_brought_back_under_its_own_attempt() {
    let confirmed = ended("1.1.0", "1.1.0", Outcome::Confirmed);
    let mut scene = Scene::rescued(Some(confirmed));
    scene.target("1.1.0");
    assert_eq!(scene.job(), Some(Job::Admit(section("1.1.0"))));
    // It is reported as what it is: an attempt that goes on.
    let reported = scene.machine.last_attempt().unwrap();
    assert_eq!(
        (reported.outcome, reported.is_final),
        (Outcome::Running, false)
    );
}

#[test]
fn it_is_brought_back_under_another_releases_attempt_too() {
    // A rollout to 1.2.0 failed here: from then on the same attempt names what ran before.
    let mut scene = Scene::rescued(Some(ended("1.2.0", "1.2.0", Outcome::Crashed)));
    let back = DaemonSection {
        attempt: attempt("1.2.0"),
        ..section("1.1.0")
    };
    scene.input(Input::Target(Target::Release(back.clone())));
    assert_eq!(scene.job(), Some(Job::Admit(back)));
}

#[test]
fn bringing_back_is_tried_once_and_not_for_ever() {
    for outcome in [Outcome::Crashed, Outcome::Hung, Outcome::Refused] {
        let mut scene = Scene::rescued(Some(ended("1.1.0", "1.1.0", outcome)));
        scene.target("1.1.0");
        assert_eq!((scene.job(), scene.machine.next_wakeup()), (None, None));
    }
    let mut scene = Scene::rescued(Some(ended("1.1.0", "1.1.0", Outcome::Confirmed)));
    scene.target("1.1.0");
    scene.done(failed(Outcome::Refused));
    assert!(scene.noted().is_final());
    assert_eq!((scene.job(), scene.machine.next_wakeup()), (None, None));
}

#[test]
fn another_release_under_an_ended_attempt_stays_ended() {
    let mut scene = Scene::rescued(Some(ended("1.2.0", "1.2.0", Outcome::Crashed)));
    scene.target("1.2.0");
    assert_eq!(scene.job(), None);
    // And a new one is work, as ever.
    scene.target("1.3.0");
    assert_eq!(scene.job(), Some(Job::Admit(section("1.3.0"))));
}

#[test]
fn the_packages_binary_is_no_release_though_it_may_have_the_same_bytes() {
    // The binary that runs is 1.0.0, and so is what is wanted.
    let mut scene = Scene::rescued(None);
    scene.target("1.0.0");
    assert_eq!(scene.job(), Some(Job::Admit(section("1.0.0"))));
    scene.done(Done::InPlace);
    assert_eq!(scene.job(), Some(Job::Stage(section("1.0.0"))));
}
