//! What holds of a machine whatever the world does.

use std::time::{Duration, Instant};

use bc_protocol::id::AttemptId;
use bc_protocol::session::Outcome;
use proptest::prelude::*;

use super::{Done, Effect, HOLD, Input, Job, Lost, Scene, Target, attempt, failed, section};
use crate::updater::attempt::{Attempt, Ending};

/// What the world does to a machine.
#[derive(Clone, Copy, Debug)]
enum World {
    Target(u8),
    NoTarget,
    Welcomed,
    Lost,
    Succeeds,
    Fails(Outcome),
    /// An answer to an earlier job.
    Late,
    Wait(u64),
}

fn world() -> impl Strategy<Value = World> {
    prop_oneof![
        2 => (0_u8..4).prop_map(World::Target),
        1 => Just(World::NoTarget),
        2 => Just(World::Welcomed),
        1 => Just(World::Lost),
        6 => Just(World::Succeeds),
        1 => prop_oneof![Just(Outcome::Failed), Just(Outcome::Refused)].prop_map(World::Fails),
        1 => Just(World::Late),
        2 => (0_u64..30).prop_map(World::Wait),
    ]
}

fn success(job: &Job) -> Done {
    match job {
        Job::Admit(_) => Done::ToDownload,
        Job::Download(_) => Done::Downloaded,
        Job::Stage(_) => Done::Staged,
        Job::Preflight(_) => Done::Passed,
        Job::Activate(_) => Done::Activated,
        Job::Note(attempt) => Done::Noted(attempt.clone()),
        Job::Confirm => Done::Confirmed(None),
    }
}

/// What has to hold of everything that a machine asks for, whatever the world does.
#[derive(Default)]
struct Judge {
    target: Option<AttemptId>,
    ended: Vec<AttemptId>,
    welcomed: Option<Instant>,
    proven: bool,
    left: bool,
}

impl Judge {
    fn see(&mut self, scene: &Scene) -> Result<(), TestCaseError> {
        for effect in &scene.effects {
            prop_assert!(!self.left, "it goes on after leaving: {effect:?}");
            match effect {
                Effect::Start(_, Job::Confirm) => {
                    // What has held once has been proven: writing it down may take several tries.
                    let held = self.welcomed.map(|since| scene.now - since);
                    self.proven |= held >= Some(HOLD);
                    prop_assert!(self.proven, "confirms after {held:?}");
                }
                Effect::Start(_, Job::Note(attempt)) if attempt.is_final() => {
                    prop_assert!(!self.ended.contains(attempt.id()), "ends twice");
                }
                Effect::Start(_, job) => {
                    if let Some(section) = job.section() {
                        prop_assert!(
                            !self.ended.contains(&section.attempt),
                            "tries again: {job:?}"
                        );
                        prop_assert_eq!(Some(&section.attempt), self.target.as_ref());
                    }
                }
                Effect::Leave => self.left = true,
                Effect::Abandon(_) | Effect::Mark(_) => {}
            }
        }
        Ok(())
    }
}

fn play(mut scene: Scene, happenings: &[World]) -> Result<(), TestCaseError> {
    let mut judge = Judge::default();
    let mut old = None;
    for happening in happenings {
        let running = scene.started.clone();
        let answer =
            |done: fn(&Job) -> Done| running.clone().map(|(id, job)| Input::Done(id, done(&job)));
        let input = match happening {
            World::Target(number) => {
                let section = section(&format!("1.{number}.0"));
                judge.target = Some(section.attempt.clone());
                Some(Input::Target(Target::Release(section)))
            }
            World::NoTarget => {
                judge.target = None;
                Some(Input::Target(Target::Anything))
            }
            World::Welcomed => {
                judge.welcomed = Some(scene.now);
                Some(Input::Welcomed)
            }
            World::Lost => {
                judge.welcomed = None;
                Some(Input::Lost(Lost::Closed))
            }
            World::Succeeds => answer(success),
            World::Fails(outcome) => running
                .clone()
                .map(|(id, _)| Input::Done(id, failed(*outcome))),
            World::Late => old.map(|id| Input::Done(id, Done::Activated)),
            World::Wait(seconds) => {
                scene.now += Duration::from_secs(*seconds);
                Some(Input::Tick)
            }
        };
        let Some(input) = input else { continue };
        if let Input::Done(id, Done::Noted(attempt)) = &input
            && running.as_ref().is_some_and(|(current, _)| current == id)
            && attempt.is_final()
        {
            judge.ended.push(attempt.id().clone());
        }
        if matches!(input, Input::Done(..)) && !matches!(happening, World::Late) {
            old = scene.started.take().map(|(id, _)| id);
        }
        scene.input(input);
        judge.see(&scene)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn whatever_happens_no_attempt_is_tried_again_after_its_end(
        happenings in prop::collection::vec(world(), 0..200),
    ) {
        play(Scene::settled(), &happenings)?;
    }

    #[test]
    fn whatever_happens_what_was_lost_is_brought_back_once_an_attempt(
        happenings in prop::collection::vec(world(), 0..200),
    ) {
        let ending = Ending::new(Outcome::Confirmed, "", "");
        let confirmed = Attempt::begun(attempt("1.1.0"), "1.1.0").ended(ending);
        play(Scene::rescued(Some(confirmed)), &happenings)?;
    }

    #[test]
    fn whatever_happens_nothing_is_confirmed_before_the_session_held(
        happenings in prop::collection::vec(world(), 0..200),
    ) {
        play(Scene::on_trial(), &happenings)?;
    }
}
