//! One attempt after the other, with a clock that jumps.

use std::time::{Duration, Instant};

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::sequence::Sequence;
use bc_protocol::session::{Outcome, Phase, Slot, TrialFacts};
use bc_protocol::spec::DaemonSection;
use proptest::prelude::*;

use super::{Done, Effect, Input, Job, JobId, Lost, Machine, Target, Wakeup};
use crate::clock;
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::running::Running;
use crate::updater::watchdog::Stage;

const HOLD: Duration = Duration::from_secs(10);

fn section(version: &str) -> DaemonSection {
    DaemonSection {
        version: version.parse().unwrap(),
        url: format!("https://downloads.example/{version}"),
        sha256: Sha256::of(version.as_bytes()),
        signature: vec![],
        attempt: attempt(version),
    }
}

fn attempt(name: &str) -> AttemptId {
    AttemptId::derived(&[name.as_bytes()])
}

fn running(version: &str) -> Running {
    Running {
        version: version.parse().unwrap(),
        slot: Some(Slot::A),
        sequence: Sequence::new(1).unwrap(),
        digest: Sha256::of(version.as_bytes()),
    }
}

fn trial(version: &str) -> TrialFacts {
    TrialFacts {
        slot: Slot::A,
        sequence: Sequence::new(1).unwrap(),
        digest: Sha256::of(version.as_bytes()),
        attempt: attempt(version),
        starts: 1,
    }
}

/// A machine, its clock, and a shell that answers what a test tells it to.
struct Scene {
    machine: Machine,
    now: Instant,
    started: Option<(JobId, Job)>,
    effects: Vec<Effect>,
}

impl Scene {
    fn new(machine: (Machine, Vec<Effect>)) -> Self {
        let (machine, effects) = machine;
        Self {
            machine,
            now: clock::instant(),
            started: None,
            effects,
        }
    }

    /// A node that runs 1.0.0 and has a session.
    fn settled() -> Self {
        let mut scene = Self::with_last(None);
        scene.input(Input::Welcomed);
        scene
    }

    fn with_last(last: Option<Attempt>) -> Self {
        Self::new(Machine::new(running("1.0.0"), None, last, HOLD))
    }

    /// A node whose 1.1.0 is on trial.
    fn on_trial() -> Self {
        let begun = Attempt::begun(attempt("1.1.0"), "1.1.0");
        let trial = Some(trial("1.1.0"));
        Self::new(Machine::new(running("1.1.0"), trial, Some(begun), HOLD))
    }

    fn input(&mut self, input: Input) {
        self.effects = self.machine.step(input, self.now);
        for effect in &self.effects {
            if let Effect::Start(id, job) = effect {
                self.started = Some((*id, job.clone()));
            }
        }
    }

    fn target(&mut self, version: &str) {
        self.input(Input::Target(Target::Release(section(version))));
    }

    /// Answers the job that runs.
    fn done(&mut self, done: Done) {
        let (id, _) = self.started.take().expect("a job runs");
        self.input(Input::Done(id, done));
    }

    /// Writes the record as asked.
    fn noted(&mut self) -> Attempt {
        let Some((_, Job::Note(attempt))) = self.started.clone() else {
            panic!("expected a note, found {:?}", self.started);
        };
        self.done(Done::Noted(attempt.clone()));
        attempt
    }

    fn job(&self) -> Option<Job> {
        self.started.clone().map(|(_, job)| job)
    }

    fn jump(&mut self) -> Wakeup {
        let (at, why) = self.machine.next_wakeup().expect("a wakeup");
        self.now = at;
        self.input(Input::Tick);
        why
    }

    fn activate(&mut self, version: &str) {
        self.target(version);
        self.done(Done::ToDownload);
        self.done(Done::Downloaded);
        self.done(Done::Staged);
        self.done(Done::Passed);
    }
}

fn failed(outcome: Outcome) -> Done {
    Done::Failed(Ending::new(outcome, "code", "message"))
}

#[test]
fn an_update_goes_step_by_step_and_ends_in_leaving() {
    let mut scene = Scene::settled();
    for (answer, job, phase) in [
        (None, Job::Admit(section("1.1.0")), Phase::Verifying),
        (
            Some(Done::ToDownload),
            Job::Download(section("1.1.0")),
            Phase::Downloading,
        ),
        (
            Some(Done::Downloaded),
            Job::Stage(section("1.1.0")),
            Phase::Installing,
        ),
        (
            Some(Done::Staged),
            Job::Preflight(section("1.1.0")),
            Phase::Preflight,
        ),
        (
            Some(Done::Passed),
            Job::Activate(section("1.1.0")),
            Phase::Activating,
        ),
    ] {
        match answer {
            None => scene.target("1.1.0"),
            Some(answer) => scene.done(answer),
        }
        assert_eq!(scene.job(), Some(job));
        assert_eq!(scene.machine.progress(7).unwrap().phase, phase);
        assert_eq!(
            scene.machine.last_attempt().unwrap().outcome,
            Outcome::Running
        );
    }
    scene.done(Done::Activated);
    assert_eq!(scene.effects, [Effect::Leave]);
}

#[test]
fn what_the_spare_slot_holds_is_not_downloaded() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    scene.done(Done::InPlace);
    assert_eq!(scene.job(), Some(Job::Stage(section("1.1.0"))));
}

#[test]
fn what_runs_already_is_no_work_and_is_answered() {
    let mut scene = Scene::settled();
    scene.target("1.0.0");
    let noted = scene.noted();
    assert_eq!(noted.facts().outcome, Outcome::Confirmed);
    assert_eq!(scene.machine.last_attempt().unwrap().id, attempt("1.0.0"));
    assert_eq!((scene.job(), scene.machine.next_wakeup()), (None, None));
}

#[test]
fn the_same_version_with_another_digest_is_work() {
    let mut scene = Scene::settled();
    let other = DaemonSection {
        sha256: Sha256::of(b"other"),
        ..section("1.0.0")
    };
    scene.input(Input::Target(Target::Release(other.clone())));
    assert_eq!(scene.job(), Some(Job::Admit(other)));
}

#[test]
fn a_refusal_is_final_and_never_tried_again() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    scene.done(failed(Outcome::Refused));
    assert!(scene.noted().is_final());
    assert_eq!((scene.job(), scene.machine.next_wakeup()), (None, None));
    // Not after another attempt in between either.
    scene.target("1.2.0");
    scene.done(failed(Outcome::Refused));
    scene.noted();
    scene.target("1.1.0");
    assert_eq!(scene.job(), None);
}

#[test]
fn an_attempt_that_the_record_calls_final_is_not_tried_by_a_new_process() {
    let ended = Attempt::begun(attempt("1.1.0"), "1.1.0").ended(Ending::new(
        Outcome::NoWelcome,
        "no-welcome",
        "none came",
    ));
    let mut scene = Scene::with_last(Some(ended));
    scene.input(Input::Welcomed);
    scene.target("1.1.0");
    assert_eq!((scene.job(), scene.machine.next_wakeup()), (None, None));
    assert_eq!(
        scene.machine.last_attempt().unwrap().outcome,
        Outcome::NoWelcome
    );
}

#[test]
fn a_failed_download_is_tried_six_times_and_reported_each_time() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    for tries in 1..=6 {
        scene.done(Done::ToDownload);
        scene.done(failed(Outcome::Failed));
        let noted = scene.noted();
        assert_eq!(noted.facts().tries, tries);
        assert_eq!(noted.is_final(), tries == 6);
        assert_eq!(scene.machine.last_attempt().unwrap().code, "code");
        if tries < 6 {
            assert_eq!(scene.jump(), Wakeup::Retry);
            assert_eq!(scene.job(), Some(Job::Admit(section("1.1.0"))));
        }
    }
    assert_eq!((scene.job(), scene.machine.next_wakeup()), (None, None));
}

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
fn a_section_that_cannot_be_read_is_refused_under_its_attempt() {
    let mut scene = Scene::settled();
    scene.input(Input::Target(Target::Unreadable {
        attempt: attempt("1.1.0"),
        problem: "expected MAJOR.MINOR.PATCH, found 1".to_owned(),
    }));
    let noted = scene.noted();
    assert_eq!((noted.id(), noted.is_final()), (&attempt("1.1.0"), true));
    assert_eq!(noted.facts().code, "malformed");
    assert_eq!(scene.job(), None);
}

#[test]
fn nothing_begins_and_nothing_is_activated_without_a_session() {
    let mut scene = Scene::with_last(None);
    scene.target("1.1.0");
    assert_eq!(scene.job(), None);
    scene.input(Input::Welcomed);
    assert_eq!(scene.job(), Some(Job::Admit(section("1.1.0"))));
    scene.done(Done::ToDownload);
    scene.input(Input::Lost(Lost::Closed));
    scene.done(Done::Downloaded);
    scene.done(Done::Staged);
    scene.done(Done::Passed);
    assert_eq!(scene.job(), None);
    scene.input(Input::Welcomed);
    assert_eq!(scene.job(), Some(Job::Activate(section("1.1.0"))));
}

#[test]
fn an_end_that_the_disk_does_not_take_is_not_claimed() {
    let mut scene = Scene::settled();
    scene.target("1.1.0");
    scene.done(failed(Outcome::Refused));
    scene.done(failed(Outcome::Failed));
    assert_eq!(scene.machine.last_attempt(), None);
    scene.target("1.2.0");
    assert_eq!(scene.effects, []);
    scene.jump();
    assert!(scene.noted().is_final());
    assert_eq!(scene.job(), Some(Job::Admit(section("1.2.0"))));
}

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

#[test]
fn an_activated_node_does_nothing_but_leave() {
    let mut scene = Scene::settled();
    scene.activate("1.1.0");
    scene.done(Done::Activated);
    for input in [
        Input::Target(Target::Release(section("1.2.0"))),
        Input::Lost(Lost::Closed),
        Input::Welcomed,
        Input::Tick,
    ] {
        scene.input(input);
        assert_eq!(scene.effects, []);
    }
}

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
    fn whatever_happens_nothing_is_confirmed_before_the_session_held(
        happenings in prop::collection::vec(world(), 0..200),
    ) {
        play(Scene::on_trial(), &happenings)?;
    }
}
