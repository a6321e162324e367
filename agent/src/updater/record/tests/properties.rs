//! What holds of a record whatever happens to it.

use std::time::Duration;

use bc_protocol::session::{Outcome, Slot};
use proptest::prelude::*;

use super::super::file::{self, Counted};
use super::{Record, attempt, digest, trial};
use crate::clock::{BootId, BootTime, Monotonic};
use crate::updater::attempt::{Attempt, Ending};

/// What can happen to a record.
#[derive(Clone, Debug)]
enum Happening {
    Try(u64),
    Start,
    Confirm,
    GoBack(Outcome),
    Note(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        (0_u64..6).prop_map(Happening::Try),
        Just(Happening::Start),
        Just(Happening::Confirm),
        prop_oneof![Just(Outcome::Crashed), Just(Outcome::Environment)].prop_map(Happening::GoBack),
        (0_u8..4).prop_map(Happening::Note),
    ]
}

fn after(record: Record, happening: &Happening) -> Record {
    let before = record.clone();
    let at = BootTime {
        boot: BootId("boot".to_owned()),
        now: Monotonic(1),
    };
    match happening {
        Happening::Try(number) => {
            let trial = trial(&record, *number, &format!("release {number}"));
            record.trying(trial, "1.0.0").unwrap_or(before)
        }
        Happening::Start => record.counting_a_start(&at, Duration::from_secs(1)),
        Happening::Confirm => match record.trial().map(|trial| trial.digest) {
            Some(digest) => record.confirming(digest).unwrap(),
            None => record,
        },
        Happening::GoBack(outcome) => record.going_back(Ending::new(*outcome, "", "")),
        Happening::Note(name) => {
            let begun = Attempt::begun(attempt(&format!("note {name}")), "1.0.0");
            record.noting(begun).unwrap_or(before)
        }
    }
}

proptest! {
    /// I2, I3, I4: whatever happens, the floor rises only by a confirmation, to the trial's own sequence, and what is
    /// chosen is never below it.
    #[test]
    fn the_floor_never_falls(happenings in prop::collection::vec(happening(), 0..60)) {
        let mut record = Record::seeded(Slot::A, digest("package"));
        for happening in &happenings {
            let next = after(record.clone(), happening);
            prop_assert!(next.floor() >= record.floor());
            prop_assert!(next.floor().admits(next.chosen().sequence));
            prop_assert!(next.floor().admits(next.confirmed().sequence));
            if next.floor() != record.floor() {
                let trial = record.trial().unwrap().sequence;
                prop_assert!(matches!(happening, Happening::Confirm));
                prop_assert_eq!(next.floor().sequence(), trial);
            }
            prop_assert!(next.is_sound());
            let counted = Counted { counter: 1, record: next.clone() };
            let read = file::decode(&file::encode(&counted).unwrap()).unwrap();
            prop_assert_eq!(read.record, next.clone());
            record = next;
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_none(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(file::decode(&bytes).is_err());
    }
}
