//! What the fleet wants, or what the owner allows, changes in the middle.

use bc_protocol::session::Outcome;
use bc_protocol::spec::DaemonSection;

use super::{Done, Effect, Input, Job, Owner, Scene, Target, Wakeup, failed, section};

#[test]
fn a_changed_target_replaces_a_download_at_once() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    scene.done(Done::ToDownload);
    let (download, _) = scene.started.clone().unwrap();
    scene.target("1.2.0");
    assert_eq!(scene.effects[0], Effect::Abandon(download));
    assert_eq!(scene.job(), Some(Job::Admit(section("1.2.0"))));
    // The abandoned download's answer comes late, and changes nothing.
    scene.input(Input::Done(download, Done::Downloaded));
    assert_eq!(scene.effects, []);
}

#[test]
fn a_renewed_address_is_used_at_once() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    scene.done(Done::ToDownload);
    scene.done(failed(Outcome::Failed));
    scene.noted();
    let renewed = DaemonSection {
        url: "https://other.example/".to_owned(),
        ..section("1.1.0")
    };
    scene.input(Input::Target(Target::Release(renewed.clone())));
    scene.jump();
    assert_eq!(scene.job(), Some(Job::Admit(renewed)));
}

#[test]
fn a_target_that_changed_meanwhile_is_not_activated() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    scene.done(Done::InPlace);
    scene.done(Done::Staged);
    scene.target("1.2.0");
    assert_eq!(scene.effects, []);
    scene.done(Done::Passed);
    assert_eq!(scene.job(), Some(Job::Admit(section("1.2.0"))));
    scene.input(Input::Target(Target::Anything));
    assert_eq!(scene.machine.progress(0), None);
}

#[test]
fn a_held_node_begins_nothing_and_goes_on_when_it_is_let_go() {
    let mut scene = Scene::settled();
    scene.input(Input::Owner(Owner::Holds));
    scene.target("1.1.0");
    assert_eq!(scene.effects, []);
    scene.input(Input::Owner(Owner::Allows));
    assert_eq!(scene.job(), Some(Job::Admit(section("1.1.0"))));
    scene.done(Done::ToDownload);
    // In the middle of a download: it stops, and is begun anew.
    let (id, _) = scene.started.take().unwrap();
    scene.input(Input::Owner(Owner::Holds));
    assert_eq!(scene.effects, [Effect::Abandon(id)]);
    scene.input(Input::Owner(Owner::Allows));
    scene.done(Done::ToDownload);
    scene.done(Done::Downloaded);
    // In the middle of what cannot be stopped: nothing follows it.
    scene.input(Input::Owner(Owner::Holds));
    scene.done(Done::Staged);
    assert_eq!((scene.job(), &scene.effects[..]), (None, &[][..]));
    // What runs is no update, held or not.
    scene.target("1.0.0");
    assert!(matches!(scene.job(), Some(Job::Note(_))));
}

#[test]
fn a_hold_does_not_keep_a_trial_from_its_end() {
    let mut scene = Scene::on_trial();
    scene.input(Input::Owner(Owner::Holds));
    scene.input(Input::Welcomed);
    assert_eq!(scene.jump(), Wakeup::SessionHeld);
    assert!(matches!(scene.job(), Some(Job::Confirm)));
}
