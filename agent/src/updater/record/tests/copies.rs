//! Two copies of a record on the disk, and what befalls one of them.

use std::{fs, os::unix::fs::symlink};

use super::*;

#[test]
fn nothing_and_something_unreadable_are_told_apart() {
    let (_folder, paths, store) = home();
    assert_eq!(store.read(), Found::Nothing);
    fs::File::create(&paths.record_copies()[1]).unwrap();
    assert_eq!(store.read(), Found::Unreadable);
}

#[test]
fn one_copy_is_enough_and_the_other_is_mended() {
    for lost in 0..2 {
        let (_folder, paths, store) = home();
        store.lock().unwrap().write(&on_trial()).unwrap();
        let path = &paths.record_copies()[lost];
        for damage in [&b""[..], b"{}", &[0; 4096]] {
            crate::durable::replace_file(path, damage, crate::durable::Mode::Readable).unwrap();
            assert_eq!(store.read(), found(&on_trial()));
        }
        drop(store.lock().unwrap());
        let [one, other] = paths.record_copies().map(|path| fs::read(path).unwrap());
        assert_eq!(one, other);
    }
}

#[test]
fn the_higher_counter_wins_wherever_it_lies() {
    for old in 0..2 {
        let (_folder, paths, store) = home();
        store.lock().unwrap().write(&on_trial()).unwrap();
        let before = fs::read(&paths.record_copies()[old]).unwrap();
        let confirmed = on_trial().confirming(digest("seven")).unwrap();
        store.lock().unwrap().write(&confirmed).unwrap();
        // One copy comes back from an old backup: the floor stays.
        crate::durable::replace_file(
            &paths.record_copies()[old],
            &before,
            crate::durable::Mode::Readable,
        )
        .unwrap();
        assert_eq!(store.read(), found(&confirmed));
        let next = confirmed.with_notice(Some(Notice::Rescue));
        store.lock().unwrap().write(&next).unwrap();
        assert_eq!(store.read(), found(&next));
    }
}

#[test]
fn a_cut_while_one_copy_is_staged_leaves_the_record_and_no_leftovers() {
    let (folder, paths, store) = home();
    store.lock().unwrap().write(&on_trial()).unwrap();
    for path in paths.record_copies() {
        let staged = crate::durable::staging_name(&path).unwrap();
        fs::File::create(&staged).unwrap();
        assert_eq!(store.read(), found(&on_trial()));
    }
    store.lock().unwrap().write(&went_back()).unwrap();
    assert_eq!(store.read(), found(&went_back()));
    // Two copies and the lock.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn links_and_giants_in_a_copys_place_are_no_record() {
    let (folder, paths, store) = home();
    let elsewhere = folder.path().join("elsewhere");
    let bytes = file::encode(&Counted {
        counter: 9,
        record: on_trial(),
    })
    .unwrap();
    crate::durable::replace_file(&elsewhere, &bytes, crate::durable::Mode::Readable).unwrap();
    symlink(&elsewhere, &paths.record_copies()[0]).unwrap();
    let giant = fs::File::create(&paths.record_copies()[1]).unwrap();
    giant.set_len(1 << 30).unwrap();
    assert_eq!(store.read(), Found::Unreadable);
}

#[test]
fn the_lock_is_one_holders_at_a_time() {
    let (_folder, _paths, store) = home();
    let held = store.lock().unwrap();
    assert!(store.try_lock().unwrap().is_none());
    drop(held);
    assert!(store.try_lock().unwrap().is_some());
}

#[test]
fn a_change_is_kept_where_one_copy_can_be_written_and_refused_where_the_first_cannot() {
    for stuck in 0..2 {
        let (_folder, paths, store) = home();
        store.lock().unwrap().write(&on_trial()).unwrap();
        let path = &paths.record_copies()[stuck];
        fs::remove_file(path).unwrap();
        // Nothing is renamed over a folder that is not empty.
        fs::create_dir_all(path.join("in the way")).unwrap();
        let written = store.lock().unwrap().write(&went_back());
        let truth = store.read();
        match written {
            Ok(()) => assert_eq!(truth, found(&went_back())),
            Err(_) => assert_eq!(truth, found(&on_trial())),
        }
    }
}
