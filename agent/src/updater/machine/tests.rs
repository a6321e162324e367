//! One attempt after the other, with a clock that jumps.

mod change_of_mind;
mod on_trial;
mod properties;
mod rescue;

use std::time::{Duration, Instant};

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::sequence::Sequence;
use bc_protocol::session::{Outcome, Phase, Slot, TrialFacts};
use bc_protocol::spec::DaemonSection;

use super::{Done, Effect, Input, Job, JobId, Lost, Machine, Owner, Recorded, Target, Wakeup};
use crate::clock;
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::running::Running;

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
        let recorded = Recorded {
            last,
            ..Recorded::default()
        };
        Self::new(Machine::new(running("1.0.0"), recorded, HOLD))
    }

    /// A node whose package's own binary runs, since no slot holds the 1.1.0 that it had confirmed.
    fn rescued(last: Option<Attempt>) -> Self {
        let recorded = Recorded {
            trial: None,
            last,
            lost: Some(section("1.1.0").sha256),
        };
        let mut scene = Self::new(Machine::new(running("1.0.0"), recorded, HOLD));
        scene.input(Input::Welcomed);
        scene
    }

    /// A node whose 1.1.0 is on trial.
    fn on_trial() -> Self {
        let recorded = Recorded {
            trial: Some(trial("1.1.0")),
            last: Some(Attempt::begun(attempt("1.1.0"), "1.1.0")),
            lost: None,
        };
        Self::new(Machine::new(running("1.1.0"), recorded, HOLD))
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

#[test]
fn a_trial_that_is_in_the_record_after_all_is_left_for() {
    let mut scene = Scene::settled();
    scene.activate("1.1.0");
    // The write seemed to fail, and so does the note about it: the record holds a trial.
    scene.done(failed(Outcome::Failed));
    scene.done(Done::TrialWaits);
    assert_eq!(scene.effects, [Effect::Leave]);
}
