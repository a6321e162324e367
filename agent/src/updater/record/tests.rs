//! One record, two copies, and everything that can happen to them.

mod copies;
mod properties;

use std::fs;
use std::time::Duration;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::sequence::{ReleaseFloor, Sequence};
use bc_protocol::session::{Outcome, Slot};
use tempfile::TempDir;

use super::file::{self, Counted};
use super::{Found, Installed, Notice, Record, Store, TransitionError, Trial};
use crate::clock::{BootId, BootTime, Monotonic};
use crate::paths::Paths;
use crate::updater::attempt::{Ending, Exit};

fn digest(name: &str) -> Sha256 {
    Sha256::of(name.as_bytes())
}

fn attempt(name: &str) -> AttemptId {
    AttemptId::derived(&[name.as_bytes()])
}

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

fn trial(record: &Record, number: u64, name: &str) -> Trial {
    Trial {
        slot: record.confirmed().slot.other(),
        sequence: sequence(number),
        digest: digest(name),
        attempt: attempt(name),
        starts: 0,
        boot_id: BootId("boot".to_owned()),
        deadline: Monotonic(60_000),
    }
}

fn on_trial() -> Record {
    let record = Record::seeded(Slot::A, digest("package"));
    let trial = trial(&record, 7, "seven");
    record.trying(trial, "1.7.0").unwrap()
}

fn went_back() -> Record {
    on_trial().going_back(Ending {
        exit: Some(Exit::Signal(11)),
        log: "\u{1}last \"words\"\n".repeat(100),
        ..Ending::new(Outcome::Crashed, "crashed", "it ended")
    })
}

fn home() -> (TempDir, Paths, Store) {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(folder.path());
    let store = Store::new(paths.clone());
    (folder, paths, store)
}

fn found(record: &Record) -> Found {
    Found::Record(Box::new(record.clone()))
}

#[test]
fn a_confirmed_trial_raises_the_floor_in_one_step() {
    let record = on_trial();
    assert_eq!(record.floor(), ReleaseFloor::NONE);
    let record = record.confirming(digest("seven")).unwrap();
    assert_eq!(record.floor().sequence(), sequence(7));
    assert_eq!(record.confirmed().slot, Slot::B);
    assert_eq!(record.trial(), None);
    let last = record.last_attempt().unwrap();
    assert!(last.is_final() && last.facts().outcome == Outcome::Confirmed);
    assert_eq!(record.clone().confirming(digest("seven")), Ok(record));
}

#[test]
fn only_the_digest_on_trial_can_be_confirmed() {
    for name in ["package", "other"] {
        let refused = on_trial().confirming(digest(name));
        let found = digest(name);
        assert_eq!(refused, Err(TransitionError::NotOnTrial { found }));
    }
}

#[test]
fn only_what_is_as_good_as_the_lost_binary_mends_a_record() {
    let rescued = |record: Record| record.with_notice(Some(Notice::Rescue));
    let new = Record::seeded(Slot::A, digest("package"));
    let upgraded = on_trial().confirming(digest("seven")).unwrap();
    for (record, package, mended) in [
        (new.clone(), "package", None),
        (rescued(new.clone()), "package", Some((Slot::B, 0))),
        // A newer package, on a machine that never confirmed a release.
        (rescued(new), "other", Some((Slot::B, 0))),
        (rescued(upgraded.clone()), "seven", Some((Slot::A, 7))),
        (rescued(upgraded), "package", None),
    ] {
        let floor = record.floor();
        let found = record.mended(digest(package));
        if let Some((slot, record)) = &found {
            assert_eq!((record.confirmed().slot, record.notice()), (*slot, None));
            assert_eq!(record.confirmed().digest, digest(package));
            assert_eq!(record.floor(), floor);
        }
        let found = found.map(|(slot, record)| (slot, record.confirmed().sequence.get()));
        assert_eq!(found, mended, "{package}");
    }
}

#[test]
fn what_was_lost_is_tried_again_under_an_attempt_that_has_ended() {
    let confirmed = on_trial().confirming(digest("seven")).unwrap();
    let again = trial(&confirmed, 7, "seven");
    let other = trial(&confirmed, 8, "seven");
    let rescued = confirmed.clone().with_notice(Some(Notice::Rescue));
    assert!(confirmed.trying(again.clone(), "1.7.0").is_err());
    let record = rescued.clone().trying(again, "1.7.0").unwrap();
    assert_eq!(
        record.last_attempt().unwrap().facts().outcome,
        Outcome::Running
    );
    // It failed: not once more.
    let failed = record.going_back(Ending::new(Outcome::Crashed, "crashed", "it ended"));
    let once_more = trial(&failed, 7, "seven");
    let id = once_more.attempt.clone();
    let refused = failed
        .with_notice(Some(Notice::Rescue))
        .trying(once_more, "1.7.0");
    assert_eq!(refused, Err(TransitionError::Ended { id }));
    // And another binary is no repair.
    let refused = rescued.trying(
        Trial {
            digest: digest("eight"),
            ..other
        },
        "1.7.0",
    );
    assert!(matches!(refused, Err(TransitionError::Ended { .. })));
}

#[test]
fn going_back_keeps_the_floor_and_says_why() {
    let record = went_back();
    assert_eq!(record.floor(), ReleaseFloor::NONE);
    assert_eq!(record.chosen().slot, Slot::A);
    let last = record.last_attempt().unwrap().facts();
    assert_eq!((last.outcome, last.signal), (Outcome::Crashed, Some(11)));
    assert_eq!(
        record
            .clone()
            .going_back(Ending::new(Outcome::Hung, "", "")),
        record
    );
}

#[test]
fn a_trial_needs_the_spare_slot_a_good_sequence_and_an_attempt_that_goes_on() {
    let record = on_trial().confirming(digest("seven")).unwrap();
    let below = trial(&record, 6, "six");
    assert!(matches!(
        record.clone().trying(below, "1.6.0"),
        Err(TransitionError::BelowFloor { .. })
    ));
    let running = Trial {
        slot: record.confirmed().slot,
        ..trial(&record, 8, "eight")
    };
    assert!(matches!(
        record.clone().trying(running, "1.8.0"),
        Err(TransitionError::RunningSlot { .. })
    ));
    let ended = trial(&record, 8, "seven");
    assert!(matches!(
        record.clone().trying(ended, "1.8.0"),
        Err(TransitionError::Ended { .. })
    ));
    let second = trial(&on_trial(), 9, "nine");
    assert!(matches!(
        on_trial().trying(second, "1.9.0"),
        Err(TransitionError::OnTrial { .. })
    ));
}

#[test]
fn another_boot_begins_the_deadline_anew_and_counts_the_start() {
    let length = Duration::from_secs(120);
    let at = |boot: &str, now| BootTime {
        boot: BootId(boot.to_owned()),
        now: Monotonic(now),
    };
    let record = on_trial().counting_a_start(&at("boot", 50_000), length);
    let first = record.trial().unwrap().clone();
    assert_eq!((first.starts, first.deadline), (1, Monotonic(60_000)));
    let record = record.counting_a_start(&at("reboot", 1_000), length);
    let second = record.trial().unwrap();
    assert_eq!((second.starts, second.deadline), (2, Monotonic(121_000)));
    assert!(!first.is_overdue(&at("reboot", 100_000)));
    assert!(first.is_overdue(&at("boot", 60_000)));
}

#[test]
fn every_record_survives_its_bytes() {
    for record in [
        Record::seeded(Slot::A, digest("package")),
        on_trial(),
        went_back(),
        on_trial().confirming(digest("seven")).unwrap(),
        went_back().with_notice(Some(Notice::Rescue)),
    ] {
        let counted = Counted {
            counter: 42,
            record,
        };
        let bytes = file::encode(&counted).unwrap();
        assert_eq!(file::decode(&bytes).unwrap(), counted);
    }
}

#[test]
fn no_prefix_and_no_flipped_bit_is_a_record() {
    let counted = Counted {
        counter: 3,
        record: on_trial(),
    };
    let bytes = file::encode(&counted).unwrap();
    // The last byte is a line's end, which is no part of the record.
    for length in 0..bytes.len() - 1 {
        assert!(file::decode(&bytes[..length]).is_err(), "{length} bytes");
    }
    for position in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[position / 8] ^= 1 << (position % 8);
        // A flip in what only spaces the record out may leave it as it was; it never makes another one.
        if let Ok(read) = file::decode(&flipped) {
            assert_eq!(read, counted, "bit {position}");
        }
    }
}

#[test]
fn what_a_newer_agent_wrote_is_ignored_and_handed_on() {
    let (_folder, paths, store) = home();
    let counted = Counted {
        counter: 1,
        record: went_back(),
    };
    let mut fields = serde_json::to_value(&counted).unwrap();
    fields["pause"] = serde_json::json!({"until": 7, "by": ["owner"]});
    fields["notice"] = "unheard-of".into();
    fields["lastAttempt"]["outcome"] = "unheard-of".into();
    let record = serde_json::to_string(&fields).unwrap();
    let sha256 = Sha256::of(record.as_bytes());
    let bytes = format!("{{\"sha256\":\"{sha256}\",\"record\":{record}}}");
    fs::File::create(&paths.record_copies()[0]).unwrap();
    crate::durable::replace_file(
        &paths.record_copies()[0],
        bytes.as_bytes(),
        crate::durable::Mode::Readable,
    )
    .unwrap();

    let locked = store.lock().unwrap();
    let read = locked.record().unwrap();
    assert_eq!(read.notice(), None);
    assert!(read.last_attempt().unwrap().is_final());
    locked.write(&read).unwrap();
    let written = fs::read_to_string(&paths.record_copies()[1]).unwrap();
    assert!(
        written.contains("\"pause\":{\"by\":[\"owner\"],\"until\":7}"),
        "{written}"
    );
}

#[test]
fn a_record_that_contradicts_itself_is_none() {
    let counted = |record| Counted { counter: 1, record };
    let mut twice = serde_json::to_value(counted(on_trial())).unwrap();
    twice["trial"]["slot"] = "a".into();
    let mut low = serde_json::to_value(counted(on_trial())).unwrap();
    low["floor"] = 1.into();
    let mut foreign = serde_json::to_value(counted(on_trial())).unwrap();
    foreign["trial"]["attempt"] = attempt("other").to_string().into();
    for fields in [twice, low, foreign] {
        let record = serde_json::to_string(&fields).unwrap();
        let sha256 = Sha256::of(record.as_bytes());
        let bytes = format!("{{\"sha256\":\"{sha256}\",\"record\":{record}}}");
        assert!(file::decode(bytes.as_bytes()).is_err(), "{record}");
    }
}

#[test]
fn a_recovered_record_has_the_floor_of_what_it_found() {
    let record = Record::recovered(Installed {
        slot: Slot::B,
        sequence: sequence(9),
        digest: digest("nine"),
    });
    assert_eq!(record.floor().sequence(), sequence(9));
    assert_eq!(record.notice(), Some(Notice::Recovered));
}
