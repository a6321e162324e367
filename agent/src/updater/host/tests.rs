//! A host that is asked for everything that it must not do.

pub(crate) mod home;

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::session::{Outcome, Slot};
use bc_protocol::spec::DaemonSection;

use super::{HostError, Source};
use crate::durable::{self, Mode};
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::record::TransitionError;

use home::{Home, Release, download, elf};

fn code(error: &HostError) -> String {
    error.ending().code
}

#[test]
fn a_good_release_is_staged_tried_and_confirmed() {
    let home = Home::new();
    let release = Release::good("1.1.0", 11);
    let staged = home.stage(&release).unwrap();
    assert_eq!(home.host.status().unwrap().trial(), None);
    let record = home.host.activate(&release.section(), &staged).unwrap();
    let trial = record.trial().unwrap().clone();
    assert_eq!(
        (trial.slot, trial.starts, trial.sequence.get()),
        (Slot::B, 0, 11)
    );
    assert_eq!(record.floor().sequence().get(), 0);
    let digest = Sha256::of(&release.binary);
    let record = home.host.confirm(digest).unwrap();
    assert_eq!(record.floor().sequence().get(), 11);
    assert_eq!(home.host.confirm(digest).unwrap(), record);
    assert_eq!(home.host.status().unwrap(), record);
    // The next one goes where the first one was.
    home.upgrade(&Release::good("1.2.0", 12));
    assert_eq!(home.host.status().unwrap().confirmed().slot, Slot::A);
}

#[test]
fn what_is_refused_is_named_and_changes_nothing() {
    let home = Home::new();
    home.upgrade(&Release::good("1.1.0", 11));
    let good = Release::good("1.2.0", 12);
    let before = home.state();
    let spoilt = |spoil: fn(&mut Release)| {
        let mut release = good.clone();
        spoil(&mut release);
        release.section()
    };
    let flipped = || {
        let mut section = good.section();
        let middle = section.signature.len() / 2;
        section.signature[middle] ^= 1;
        section
    };
    for (code_expected, section) in [
        ("threshold", spoilt(|release| release.signers = vec![1])),
        ("threshold", spoilt(|release| release.signers = vec![3, 4])),
        ("product", spoilt(|release| release.product = "other")),
        ("expired", spoilt(|release| release.expires_in = -1)),
        ("rollback", spoilt(|release| release.sequence = 10)),
        ("rollback", spoilt(|release| release.sequence = 11)),
        (
            "platform",
            spoilt(|release| release.platform = "linux-arm64"),
        ),
        (
            "malformed",
            DaemonSection {
                signature: b"{}".to_vec(),
                ..good.section()
            },
        ),
        (
            "version",
            DaemonSection {
                version: "1.3.0".parse().unwrap(),
                ..good.section()
            },
        ),
        (
            "digest",
            DaemonSection {
                sha256: Sha256::of(b"other"),
                ..good.section()
            },
        ),
    ] {
        let error = home.host.admit(&section).unwrap_err();
        assert_eq!(code(&error), code_expected);
        assert_eq!(error.ending().outcome, Outcome::Refused);
        assert!(home.host.stage(&section, None).is_err(), "{code_expected}");
    }
    let error = home.host.admit(&flipped()).unwrap_err();
    assert_eq!(error.ending().outcome, Outcome::Refused);
    assert_eq!(home.state(), before);
}

#[test]
fn a_file_that_is_not_the_signed_one_never_gets_the_binarys_name() {
    let home = Home::new();
    let good = Release::good("1.1.0", 11);
    let mut longer = good.binary.clone();
    longer.push(0);
    let mut flipped = good.binary.clone();
    flipped[30 % good.binary.len()] ^= 1;
    for (code_expected, bytes) in [("size", longer), ("digest", flipped), ("size", vec![])] {
        let Source::Download(partial) = home.host.admit(&good.section()).unwrap().source else {
            panic!("expected a download");
        };
        let file = download(&partial, &bytes);
        let error = home.host.stage(&good.section(), Some(file)).unwrap_err();
        assert_eq!(code(&error), code_expected);
        assert!(!home.host.paths().slot_binary(Slot::B).exists());
    }
}

#[test]
fn a_signed_binary_for_another_machine_is_refused_by_its_header() {
    let home = Home::new();
    for binary in [elf(183, "arm"), b"#!/bin/sh\nexec true\n".to_vec()] {
        let release = Release {
            binary,
            ..Release::good("1.1.0", 11)
        };
        assert_eq!(code(&home.stage(&release).unwrap_err()), "platform");
        assert!(!home.host.paths().slot_binary(Slot::B).exists());
    }
}

#[test]
fn the_floor_holds_after_going_back() {
    let home = Home::new();
    home.upgrade(&Release::good("1.1.0", 11));
    let next = Release::good("1.2.0", 12);
    let staged = home.stage(&next).unwrap();
    home.host.activate(&next.section(), &staged).unwrap();
    let attempt = next.section().attempt;
    let ending = Ending::new(Outcome::NoWelcome, "no-welcome", "none came");
    let record = home.host.cancel(&attempt, ending.clone()).unwrap();
    assert_eq!(record.floor().sequence().get(), 11);
    assert_eq!(record.chosen().slot, Slot::B);
    assert_eq!(home.host.cancel(&attempt, ending).unwrap(), record);
    // The other slot still holds it: nothing is downloaded, and an ended attempt stays ended.
    assert_eq!(
        home.host.admit(&next.section()).unwrap().source,
        Source::InPlace
    );
    let staged = home.stage(&next).unwrap();
    assert!(matches!(
        home.host.activate(&next.section(), &staged),
        Err(HostError::Transition(TransitionError::Ended { .. }))
    ));
}

#[test]
fn a_clock_that_was_set_back_makes_no_release_valid_again() {
    let home = Home::new();
    let next = Release {
        expires_in: 1800,
        ..Release::good("1.2.0", 12)
    };
    home.host.admit(&next.section()).unwrap();
    // What is confirmed was signed an hour from now: it is at least that late.
    home.upgrade(&Release {
        issued_in: 3600,
        expires_in: 7200,
        ..Release::good("1.1.0", 11)
    });
    assert_eq!(
        code(&home.host.admit(&next.section()).unwrap_err()),
        "expired"
    );
}

#[test]
fn nothing_is_activated_without_a_watchdog() {
    let mut home = Home::new();
    let release = Release::good("1.1.0", 11);
    let staged = home.stage(&release).unwrap();
    drop(home.watchdog.take());
    assert!(matches!(
        home.host.activate(&release.section(), &staged),
        Err(HostError::NoWatchdog(_))
    ));
    assert_eq!(home.host.status().unwrap().trial(), None);
    // Asking did not take the lock away from a watchdog that comes.
    let watchdog = File::open(home.host.paths().supervise_lock()).unwrap();
    assert!(!matches!(
        watchdog.try_lock(),
        Err(TryLockError::WouldBlock)
    ));
}

#[test]
fn a_binary_that_changed_after_staging_is_not_activated() {
    let home = Home::new();
    let release = Release::good("1.1.0", 11);
    let staged = home.stage(&release).unwrap();
    let path = home.host.paths().slot_binary(Slot::B);
    durable::replace_file(&path, b"other", Mode::Executable).unwrap();
    assert!(matches!(
        home.host.activate(&release.section(), &staged),
        Err(HostError::Changed { slot: Slot::B })
    ));
}

#[test]
fn activating_twice_is_one_trial_and_a_second_release_waits() {
    let home = Home::new();
    let release = Release::good("1.1.0", 11);
    let staged = home.stage(&release).unwrap();
    let first = home.host.activate(&release.section(), &staged).unwrap();
    let again = home.host.activate(&release.section(), &staged).unwrap();
    assert_eq!(first, again);
    assert!(matches!(
        home.host.admit(&Release::good("1.2.0", 12).section()),
        Err(HostError::Transition(TransitionError::OnTrial { .. }))
    ));
    let note = Attempt::begun(AttemptId::derived(&[b"other"]), "1.2.0");
    assert!(home.host.note(note).is_err());
}

#[test]
fn confirming_needs_the_digest_on_trial() {
    let home = Home::new();
    let release = Release::good("1.1.0", 11);
    let staged = home.stage(&release).unwrap();
    home.host.activate(&release.section(), &staged).unwrap();
    let before = home.state();
    for digest in [Sha256::of(b"package"), Sha256::of(b"other")] {
        assert!(matches!(
            home.host.confirm(digest),
            Err(HostError::Transition(TransitionError::NotOnTrial { .. }))
        ));
    }
    assert_eq!(home.state(), before);
}

#[test]
fn what_was_admitted_before_the_download_is_judged_by_the_record_of_now() {
    let home = Home::new();
    let (old, new) = (Release::good("1.1.0", 11), Release::good("1.2.0", 12));
    let admitted = home.host.admit(&old.section()).unwrap();
    home.upgrade(&new);
    let binary = download(&home.host.paths().download(), &old.binary);
    let staged = home
        .host
        .stage_admitted(&old.section(), &admitted, Some(binary));
    assert_eq!(code(&staged.unwrap_err()), "rollback");
}

#[test]
fn a_judgement_holds_for_its_own_manifest_alone() {
    let home = Home::new();
    let good = Release::good("1.1.0", 11);
    let admitted = home.host.admit(&good.section()).unwrap();
    let forged = DaemonSection {
        signature: Release {
            signers: vec![1],
            ..good.clone()
        }
        .published(),
        ..good.section()
    };
    let staged = home.host.stage_admitted(&forged, &admitted, None);
    assert_eq!(code(&staged.unwrap_err()), "threshold");
}

#[test]
fn a_judgement_of_before_spares_the_second_look() {
    let home = Home::new();
    let good = Release::good("1.1.0", 11);
    let admitted = home.host.admit(&good.section()).unwrap();
    let Source::Download(partial) = admitted.source.clone() else {
        panic!("expected a download");
    };
    let binary = download(&partial, &good.binary);
    let staged = home
        .host
        .stage_admitted(&good.section(), &admitted, Some(binary))
        .unwrap();
    let record = home.host.activate(&good.section(), &staged).unwrap();
    assert_eq!(record.trial().unwrap().sequence.get(), 11);
}

#[test]
fn a_manifest_that_changed_after_staging_is_not_activated() {
    let home = Home::new();
    let (good, other) = (Release::good("1.1.0", 11), Release::good("1.2.0", 12));
    let staged = home.stage(&good).unwrap();
    let release = home.host.paths().slot_release(Slot::B);
    for published in [other.published(), b"{}".to_vec()] {
        durable::replace_file(&release, &published, Mode::Readable).unwrap();
        assert!(home.host.activate(&good.section(), &staged).is_err());
    }
    durable::replace_file(&release, &good.published(), Mode::Readable).unwrap();
    home.host.activate(&good.section(), &staged).unwrap();
}

/// The binary changes hands between its own name and its manifest's: what a cut there leaves is found by its bytes.
#[test]
fn a_slot_that_holds_the_target_needs_no_download_whatever_its_manifest_says() {
    let home = Home::new();
    // Of one size, so that only bytes or manifest can tell them apart.
    let (one, other) = (Release::good("1.1.0", 11), Release::good("1.1.1", 12));
    home.stage(&one).unwrap();
    let source = |release: &Release| home.host.admit(&release.section()).unwrap().source;
    assert_eq!(source(&one), Source::InPlace);
    assert!(matches!(source(&other), Source::Download(_)));
    let paths = home.host.paths();
    let (binary, release) = (paths.slot_binary(Slot::B), paths.slot_release(Slot::B));
    let changed = |path| {
        let found = std::fs::metadata(path).unwrap();
        (found.ctime(), found.ctime_nsec())
    };
    // A kernel's clock moves in steps.
    while changed(&binary) <= changed(&release) {
        durable::replace_file(&binary, &other.binary, Mode::Executable).unwrap();
    }
    assert_eq!(source(&other), Source::InPlace);
    let staged = home.stage(&other).unwrap();
    home.host.activate(&other.section(), &staged).unwrap();
}
