//! A process that is on trial itself.

use bc_protocol::session::Outcome;

use super::{Done, Effect, HOLD, Input, Job, Lost, Scene, attempt, failed, section};
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::machine::Wakeup;
use crate::updater::watchdog::Stage;

#[test]
fn a_trial_is_confirmed_after_the_hold_and_reported_when_it_is_written() {
    let mut scene = Scene::on_trial();
    assert_eq!(scene.effects, [Effect::Mark(Stage::Started)]);
    scene.input(Input::Welcomed);
    assert_eq!(scene.effects, [Effect::Mark(Stage::Welcomed)]);
    let welcomed = scene.now;
    assert_eq!(scene.jump(), Wakeup::SessionHeld);
    assert_eq!(scene.now - welcomed, HOLD);
    assert_eq!(scene.job(), Some(Job::Confirm));
    assert_eq!(
        scene.machine.last_attempt().unwrap().outcome,
        Outcome::Running
    );
    let confirmed =
        Attempt::begun(attempt("1.1.0"), "1.1.0").ended(Ending::new(Outcome::Confirmed, "", ""));
    scene.done(Done::Confirmed(Some(confirmed)));
    assert_eq!(
        scene.machine.last_attempt().unwrap().outcome,
        Outcome::Confirmed
    );
    assert_eq!(scene.machine.trial(), None);
}

#[test]
fn a_session_that_breaks_before_the_hold_begins_it_anew() {
    let mut scene = Scene::on_trial();
    scene.input(Input::Welcomed);
    scene.now += HOLD / 2;
    scene.input(Input::Lost(Lost::Closed));
    assert_eq!(scene.machine.next_wakeup(), None);
    scene.now += HOLD;
    scene.input(Input::Tick);
    assert_eq!(scene.effects, []);
    scene.input(Input::Welcomed);
    assert_eq!(
        scene.machine.next_wakeup(),
        Some((scene.now + HOLD, Wakeup::SessionHeld))
    );
}

#[test]
fn a_confirmation_that_cannot_be_written_is_tried_again() {
    let mut scene = Scene::on_trial();
    scene.input(Input::Welcomed);
    scene.jump();
    scene.done(failed(Outcome::Failed));
    assert_eq!(scene.jump(), Wakeup::ConfirmAgain);
    assert_eq!(scene.job(), Some(Job::Confirm));
}

#[test]
fn a_trial_that_the_watchdog_ended_first_leaves() {
    let mut scene = Scene::on_trial();
    scene.input(Input::Welcomed);
    scene.jump();
    scene.done(Done::NotOnTrial);
    assert_eq!(scene.effects, [Effect::Leave]);
}

#[test]
fn marks_say_what_the_trial_met_and_a_welcome_stays() {
    let mut scene = Scene::on_trial();
    for (input, mark) in [
        (Input::Lost(Lost::Unreachable), None),
        (Input::Lost(Lost::NotNow), Some(Stage::NotNow)),
        (Input::Lost(Lost::NotNow), None),
        (Input::Lost(Lost::Closed), Some(Stage::Started)),
        (Input::Welcomed, Some(Stage::Welcomed)),
        (Input::Lost(Lost::NotNow), None),
    ] {
        scene.input(input.clone());
        let marks: Vec<_> = mark.into_iter().map(Effect::Mark).collect();
        assert_eq!(scene.effects, marks, "{input:?}");
    }
}

#[test]
fn a_target_that_comes_during_a_trial_waits_for_its_end() {
    let mut scene = Scene::on_trial();
    scene.target("1.2.0");
    assert_eq!(scene.effects, []);
    scene.input(Input::Welcomed);
    scene.jump();
    scene.done(Done::Confirmed(None));
    assert_eq!(scene.job(), Some(Job::Admit(section("1.2.0"))));
}
