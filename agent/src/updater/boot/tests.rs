//! What starts, case by case.

use std::time::Duration;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::sequence::Sequence;
use bc_protocol::session::{Outcome, Slot};
use proptest::prelude::*;

use super::{Binary, Guard, Health, decide};
use crate::clock::{BootId, BootTime, Monotonic};
use crate::updater::attempt::Exit;
use crate::updater::record::{Notice, Record, Trial};
use crate::updater::watchdog::{Death, Evidence, Stage};

const LENGTH: Duration = Duration::from_secs(120);

const INTACT: Health = Health {
    confirmed: Binary::Intact,
    trial: Binary::Intact,
    watchdog: Guard::Armed,
};

fn at(boot: &str, now: u64) -> BootTime {
    BootTime {
        boot: BootId(boot.to_owned()),
        now: Monotonic(now),
    }
}

fn settled() -> Record {
    Record::seeded(Slot::A, Sha256::of(b"package"))
}

fn on_trial() -> Record {
    let trial = Trial {
        slot: Slot::B,
        sequence: Sequence::new(2).unwrap(),
        digest: Sha256::of(b"two"),
        attempt: AttemptId::derived(&[b"two"]),
        starts: 0,
        boot_id: BootId("boot".to_owned()),
        deadline: Monotonic(120_000),
    };
    settled().trying(trial, "1.2.0").unwrap()
}

fn outcome(record: &Record) -> Option<Outcome> {
    record.last_attempt().map(|last| last.facts().outcome)
}

#[test]
fn a_settled_node_starts_as_it_is_and_writes_nothing() {
    let decided = decide(settled(), INTACT, &at("boot", 1), LENGTH, Evidence::none());
    assert_eq!(decided, settled());
}

#[test]
fn a_trial_starts_three_times_and_not_a_fourth() {
    let mut record = on_trial();
    for start in 1..=3 {
        record = decide(record, INTACT, &at("boot", start), LENGTH, Evidence::none());
        assert_eq!(
            record.trial().unwrap().starts,
            u32::try_from(start).unwrap()
        );
    }
    let evidence = Evidence {
        death: Some(Death {
            exit: Exit::Status(3),
            log: "the end".to_owned(),
        }),
        ..Evidence::none()
    };
    let record = decide(record, INTACT, &at("boot", 4), LENGTH, evidence);
    assert_eq!(record.chosen().slot, Slot::A);
    assert_eq!(outcome(&record), Some(Outcome::Crashed));
    let last = record.last_attempt().unwrap();
    assert_eq!(
        (last.facts().exit_status, last.facts().log.as_str()),
        (Some(3), "the end")
    );
}

#[test]
fn a_trial_that_nobody_watches_is_not_started() {
    let health = Health {
        watchdog: Guard::Missing,
        ..INTACT
    };
    let record = decide(on_trial(), health, &at("boot", 1), LENGTH, Evidence::none());
    assert_eq!(record.chosen().slot, Slot::A);
    let last = record.last_attempt().unwrap();
    assert_eq!(
        (last.facts().outcome, last.is_final()),
        (Outcome::Environment, false)
    );
    // Without a trial nobody has to watch.
    let settled_as = decide(settled(), health, &at("boot", 1), LENGTH, Evidence::none());
    assert_eq!(settled_as, settled());
}

#[test]
fn a_trial_whose_time_is_up_ends_by_what_it_left() {
    for (stage, ended) in [
        (None, Outcome::Hung),
        (Some(Stage::Started), Outcome::NoWelcome),
        (Some(Stage::NotNow), Outcome::Environment),
        (Some(Stage::Welcomed), Outcome::Unstable),
    ] {
        let evidence = Evidence {
            stage,
            ..Evidence::none()
        };
        let decided = decide(on_trial(), INTACT, &at("boot", 120_000), LENGTH, evidence);
        assert_eq!(outcome(&decided), Some(ended));
        assert_eq!(decided.trial(), None);
    }
}

#[test]
fn a_reboot_takes_a_start_and_no_time() {
    let decided = decide(
        on_trial(),
        INTACT,
        &at("reboot", 500_000),
        LENGTH,
        Evidence::none(),
    );
    let trial = decided.trial().unwrap();
    assert_eq!((trial.starts, trial.deadline), (1, Monotonic(620_000)));
}

#[test]
fn a_damaged_trial_is_never_started() {
    let health = Health {
        trial: Binary::Damaged,
        ..INTACT
    };
    let decided = decide(on_trial(), health, &at("boot", 1), LENGTH, Evidence::none());
    assert_eq!(decided.chosen().slot, Slot::A);
    assert_eq!(decided.last_attempt().unwrap().facts().code, "digest");
}

#[test]
fn rescue_is_for_when_nothing_else_runs_and_ends_when_something_does() {
    let damaged = Health {
        confirmed: Binary::Damaged,
        trial: Binary::Damaged,
        ..INTACT
    };
    let rescued = decide(settled(), damaged, &at("boot", 1), LENGTH, Evidence::none());
    assert_eq!(rescued.notice(), Some(Notice::Rescue));
    let mended = decide(
        rescued.clone(),
        INTACT,
        &at("boot", 2),
        LENGTH,
        Evidence::none(),
    );
    assert_eq!(mended.notice(), None);
    // An upgrade out of a rescue: its trial runs although the confirmed slot is still damaged.
    let trial = on_trial().trial().unwrap().clone();
    let upgrading = rescued.trying(trial, "1.2.0").unwrap();
    let health = Health {
        trial: Binary::Intact,
        ..damaged
    };
    let upgrading = decide(upgrading, health, &at("boot", 3), LENGTH, Evidence::none());
    assert_eq!(
        (upgrading.notice(), upgrading.chosen().slot),
        (None, Slot::B)
    );
    let failed = decide(upgrading, damaged, &at("boot", 4), LENGTH, Evidence::none());
    assert_eq!(failed.notice(), Some(Notice::Rescue));
}

proptest! {
    /// I2, I7, I13: for any sequence of boots, the floor stays, one trial starts at most three times, and going back
    /// takes nothing but the record.
    #[test]
    fn boots_alone_raise_no_floor_and_start_no_trial_a_fourth_time(
        boots in prop::collection::vec((0_u8..3, 0_u64..200_000, any::<bool>(), any::<bool>()), 1..30),
    ) {
        let mut record = on_trial();
        let mut starts = 0;
        for (boot, now, confirmed, trial) in boots {
            let binary = |intact| if intact { Binary::Intact } else { Binary::Damaged };
            let health = Health { confirmed: binary(confirmed), trial: binary(trial), watchdog: Guard::Armed };
            let at = at(&format!("boot {boot}"), now);
            let decided = decide(record.clone(), health, &at, LENGTH, Evidence::none());
            prop_assert_eq!(decided.floor(), record.floor());
            prop_assert_eq!(decided.confirmed(), record.confirmed());
            starts += u32::from(decided.trial().is_some());
            // What starts is intact, or the package's own.
            let chosen = if decided.trial().is_some() { health.trial } else { health.confirmed };
            prop_assert!(chosen == Binary::Intact || decided.notice() == Some(Notice::Rescue));
            record = decided;
        }
        prop_assert!(starts <= 3);
    }
}
