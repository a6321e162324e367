//! Commands on a node without a network: what is begun, what is answered, and that nothing is done twice.

use std::sync::{Arc, Mutex};

use bc_protocol::{
    command::CommandError,
    digest::Sha256,
    sequence::{ReleaseFloor, Sequence},
    session::{AttemptFacts, Slot, TrialFacts},
};
use proptest::prelude::*;

use super::*;
use crate::{
    config::Config,
    durable::{self, Mode},
    node::session::facts,
    paths::Paths,
};

struct Stage {
    commands: Commands,
    results: mpsc::Receiver<CommandResult>,
    restart: watch::Receiver<Restart>,
    under_way: watch::Receiver<Vec<CommandId>>,
    upgrades: Arc<Mutex<Vec<AttemptId>>>,
    state: UpdateState,
}

fn state() -> UpdateState {
    UpdateState {
        slot: None,
        sequence: Sequence::PACKAGED,
        digest: Sha256::of(b""),
        floor: ReleaseFloor::NONE,
        trial: None,
        last_attempt: None,
        progress: None,
        observed_generation: 0,
        held: None,
        notice: None,
        helper: None,
    }
}

fn config(folder: &std::path::Path) -> Config {
    let text = format!(
        "state_dir = {folder:?}\n\n[update]\n\
         release_pins = [\"sha256/UNhY4JhezH9gQYqvDMWrWH9CwlcKiECVqejMrND2VFw=\"]\nthreshold = 1\n"
    );
    let file = folder.join("bcd.toml");
    durable::replace_file(&file, text.as_bytes(), Mode::Readable).unwrap();
    Config::load(&file).unwrap()
}

impl Stage {
    fn at(folder: &std::path::Path, start: u8) -> Self {
        let paths = Paths::new(folder);
        durable::create_folder(&paths.state(), 0o700).unwrap();
        let (under_way, told) = watch::channel(Vec::new());
        let (results, said) = mpsc::channel(64);
        let (restart, restarting) = watch::channel(Restart::No);
        let upgrades: Arc<Mutex<Vec<AttemptId>>> = Arc::default();
        let door = Arc::clone(&upgrades);
        let commands = Commands::new(Parts {
            sources: Sources {
                config: config(folder),
                paths,
            },
            start: StartId::from([start; 16]),
            upgrade_to: Box::new(move |section| door.lock().unwrap().push(section.attempt)),
            under_way,
            results,
            restart,
        });
        Self {
            commands,
            results: said,
            restart: restarting,
            under_way: told,
            upgrades,
            state: state(),
        }
    }

    fn hear(&mut self, command: Command) {
        self.commands.welcomed(1_000);
        self.commands.hear(Ok(command), (&self.state, &facts(0)));
    }

    fn said(&mut self) -> CommandResult {
        self.results.try_recv().unwrap()
    }

    fn is_silent(&mut self) -> bool {
        self.results.try_recv().is_err()
    }

    fn restarts(&self) -> bool {
        *self.restart.borrow() == Restart::Now
    }

    /// The attempt ends.
    fn ends(&mut self, name: u8, outcome: Outcome) {
        self.state.last_attempt = Some(AttemptFacts {
            id: attempt(name),
            target: "2.0.0".to_owned(),
            outcome,
            is_final: true,
            tries: 1,
            code: if outcome == Outcome::Confirmed {
                ""
            } else {
                "crashed"
            }
            .to_owned(),
            message: "it ended".to_owned(),
            exit_status: None,
            signal: None,
            log: String::new(),
        });
        self.commands.look_at(&self.state);
    }
}

fn attempt(name: u8) -> AttemptId {
    AttemptId::derived(&[&[name]])
}

fn command(name: u8, order: Order) -> Command {
    Command {
        id: CommandId::derived(&[&[name]]),
        expires_at_ms: 5_000,
        order,
    }
}

fn upgrade(name: u8) -> Order {
    Order::Upgrade(DaemonSection {
        version: "2.0.0".parse().unwrap(),
        url: String::new(),
        sha256: Sha256::of(b"2"),
        signature: Vec::new(),
        attempt: attempt(name),
    })
}

fn diagnostics(part: &str) -> Order {
    Order::Diagnostics {
        collect: vec![part.to_owned()],
    }
}

#[test]
fn a_restart_is_journalled_first_and_answered_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    stage.hear(command(1, Order::Restart));
    assert!(stage.restarts() && stage.is_silent());
    let mut stage = Stage::at(folder.path(), 2);
    stage.hear(command(1, Order::Restart));
    assert!(!stage.restarts(), "it would restart for ever");
    let result = stage.said();
    assert!(result.succeeded);
    let mut stage = Stage::at(folder.path(), 3);
    stage.hear(command(1, Order::Restart));
    assert_eq!(stage.said(), result);
}

#[test]
fn on_trial_nobody_restarts_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    stage.state.trial = Some(TrialFacts {
        slot: Slot::B,
        sequence: Sequence::new(2).unwrap(),
        digest: Sha256::of(b"2"),
        attempt: attempt(1),
        starts: 1,
    });
    stage.hear(command(1, Order::Restart));
    let result = stage.said();
    assert_eq!((result.succeeded, &*result.code), (false, code::ON_TRIAL));
    // The same answer when the trial is over.
    stage.state.trial = None;
    stage.hear(command(1, Order::Restart));
    assert_eq!(stage.said(), result);
    assert!(!stage.restarts());
}

#[test]
fn what_comes_late_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    let late = Command {
        expires_at_ms: 900,
        ..command(1, Order::Restart)
    };
    stage.hear(late);
    assert_eq!(stage.said().code, code::EXPIRED);
    assert!(!stage.restarts());
}

#[test]
fn without_a_journal_nothing_begins() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    std::fs::remove_dir_all(Paths::new(folder.path()).state()).unwrap();
    stage.hear(command(1, Order::Restart));
    assert_eq!(stage.said().code, code::JOURNAL);
    assert!(!stage.restarts());
}

#[test]
fn what_nobody_knows_is_answered_as_failed() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    let id = command(1, Order::Restart).id;
    let unreadable = Unreadable {
        id: Some(id.clone()),
        problem: CommandError::Kind,
    };
    let now = (&stage.state, &facts(0));
    stage.commands.hear(Err(unreadable), now);
    let result = stage.said();
    assert_eq!((result.id, &*result.code), (id, code::UNKNOWN_KIND));
}

#[test]
fn an_upgrade_ends_with_its_attempt() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    stage.hear(command(1, upgrade(1)));
    assert_eq!(*stage.under_way.borrow(), [command(1, upgrade(1)).id]);
    stage.ends(9, Outcome::Crashed);
    assert!(stage.is_silent());
    // The same id with another payload: a gateway that lies. What was begun goes on.
    stage.hear(command(1, upgrade(2)));
    assert_eq!(*stage.upgrades.lock().unwrap(), [attempt(1)]);
    // Another start goes on when it is replayed.
    let mut stage = Stage::at(folder.path(), 2);
    stage.hear(command(1, upgrade(1)));
    assert_eq!(*stage.upgrades.lock().unwrap(), [attempt(1)]);
    stage.ends(1, Outcome::Confirmed);
    let result = stage.said();
    assert!(result.succeeded && stage.under_way.borrow().is_empty());
    stage.hear(command(1, upgrade(1)));
    assert_eq!(stage.said(), result);
    assert_eq!(stage.upgrades.lock().unwrap().len(), 1);
}

#[test]
fn an_upgrade_that_another_one_replaces_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    for name in 0..40 {
        stage.hear(command(name, upgrade(name)));
        assert_eq!(*stage.under_way.borrow(), [command(name, upgrade(name)).id]);
        let replaced = stage.results.try_recv().ok().map(|result| result.code);
        assert_eq!(replaced.as_deref(), (name > 0).then_some(code::REPLACED));
    }
    assert_eq!(stage.upgrades.lock().unwrap().len(), 40);
}

#[tokio::test]
async fn reports_are_collected_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut stage = Stage::at(folder.path(), 1);
    stage.hear(command(1, diagnostics("disk")));
    stage.hear(command(2, diagnostics("config")));
    stage.hear(command(1, diagnostics("disk")));
    assert_eq!(stage.under_way.borrow().len(), 2);
    let mut reports = Vec::new();
    for _ in 0..2 {
        let collected = stage.commands.done().await;
        stage.commands.collected(collected, &facts(0));
        reports.push(stage.said());
    }
    let text = |of: &CommandResult| String::from_utf8(of.report.clone()).unwrap();
    assert!(text(&reports[0]).starts_with("== disk\n"));
    assert!(text(&reports[1]).starts_with("== config\n"));
    assert!(stage.under_way.borrow().is_empty());
    let mut stage = Stage::at(folder.path(), 2);
    stage.hear(command(1, diagnostics("disk")));
    assert_eq!(stage.said(), reports[0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// I26: whatever is repeated, in whatever order, across whatever starts: one effect at most, equal results.
    #[test]
    fn one_effect_and_equal_results(steps in prop::collection::vec((0_u8..6, 0_u8..3, any::<bool>()), 0..40)) {
        let folder = tempfile::tempdir().unwrap();
        let (mut start, mut effects) = (1, std::collections::BTreeMap::new());
        let mut results = std::collections::BTreeMap::new();
        let mut stage = Stage::at(folder.path(), start);
        for (name, kind, restarts) in steps {
            // Each id has its payload; some come with another one's.
            let order = if kind == 0 { Order::Restart } else { upgrade(name) };
            let before = stage.upgrades.lock().unwrap().len();
            stage.hear(command(name, order));
            if stage.upgrades.lock().unwrap().len() > before {
                *effects.entry((name, "upgrade")).or_insert(0) += u32::from(results.contains_key(&name));
                if kind == 2 {
                    stage.ends(name, Outcome::Confirmed);
                }
            }
            while let Ok(result) = stage.results.try_recv() {
                let name = (0_u8..6).find(|name| command(*name, Order::Restart).id == result.id).unwrap();
                let known = results.entry(name).or_insert_with(|| result.clone());
                prop_assert_eq!(known, &result);
            }
            if stage.restarts() {
                *effects.entry((name, "restart")).or_insert(0) += 1;
            }
            if stage.restarts() || restarts {
                start += 1;
                stage = Stage::at(folder.path(), start);
            }
        }
        for ((name, kind), count) in effects {
            let most = if kind == "restart" { 1 } else { 0 };
            prop_assert!(count <= most, "{} {} {}", name, kind, count);
        }
    }
}
