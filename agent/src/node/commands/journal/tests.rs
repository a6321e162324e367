//! What a journal remembers, across starts and whatever its file holds.

use super::*;

fn start(number: u8) -> StartId {
    StartId::from([number; 16])
}

fn id(number: u32) -> CommandId {
    CommandId::derived(&[&number.to_be_bytes()])
}

fn result(number: u32, report: &[u8]) -> CommandResult {
    CommandResult {
        id: id(number),
        succeeded: true,
        message: "done".to_owned(),
        report: report.to_vec(),
        code: String::new(),
    }
}

fn folder() -> (tempfile::TempDir, Paths) {
    let folder = tempfile::tempdir().unwrap();
    let paths = Paths::new(folder.path());
    durable::create_folder(&paths.state(), 0o700).unwrap();
    (folder, paths)
}

/// I26
#[test]
fn equal_ids_give_equal_results_whatever_starts_in_between() {
    let (_folder, paths) = folder();
    let mut journal = Journal::load(paths.clone(), start(1));
    let what = What::of(&Order::Diagnostics { collect: vec![] });
    assert_eq!(journal.look(&id(1)), Known::Nothing);
    journal.begin(id(1), what.clone(), &[]).unwrap();
    assert_eq!(journal.look(&id(1)), Known::Begun(what.clone()));
    let journal_again = Journal::load(paths.clone(), start(2));
    assert_eq!(journal_again.look(&id(1)), Known::Begun(what));
    journal.end(&result(1, b"report"));
    for number in 1..4 {
        let journal = Journal::load(paths.clone(), start(number));
        assert_eq!(journal.look(&id(1)), Known::Ended(result(1, b"report")));
    }
}

#[test]
fn a_restart_ends_with_the_next_start() {
    let (_folder, paths) = folder();
    let mut journal = Journal::load(paths.clone(), start(1));
    let what = What::of(&Order::Restart);
    journal.begin(id(1), what.clone(), &[]).unwrap();
    // The same start again is none.
    let same = Journal::load(paths.clone(), start(1));
    assert_eq!(same.look(&id(1)), Known::Begun(what));
    let next = Journal::load(paths.clone(), start(2));
    let Known::Ended(result) = next.look(&id(1)) else {
        panic!("it goes on");
    };
    assert!(result.succeeded);
    let later = Journal::load(paths, start(3));
    assert_eq!(later.look(&id(1)), Known::Ended(result));
}

#[test]
fn the_last_ends_are_kept_and_the_last_reports() {
    let (_folder, paths) = folder();
    let mut journal = Journal::load(paths.clone(), start(1));
    let many = u32::try_from(ENDED_COMMANDS_MAX + 10).unwrap();
    for number in 0..many {
        journal.end(&result(number, b"report"));
    }
    let journal = Journal::load(paths.clone(), start(2));
    assert_eq!(journal.look(&id(9)), Known::Nothing);
    assert_eq!(journal.look(&id(10)), Known::Ended(result(10, b"")));
    let last = many - 1;
    assert_eq!(
        journal.look(&id(last)),
        Known::Ended(result(last, b"report"))
    );
    let reports = std::fs::read_dir(paths.reports()).unwrap().count();
    assert_eq!(reports, KEPT_REPORTS_MAX);
}

/// Commands of starts that are over, which nobody asks for any more, must not keep the node from new ones for ever.
#[test]
fn what_nobody_asks_for_again_makes_room() {
    let (_folder, paths) = folder();
    let what = || What::of(&Order::Diagnostics { collect: vec![] });
    let mut journal = Journal::load(paths.clone(), start(1));
    for number in 0..u32::try_from(BEGUN_COMMANDS_MAX).unwrap() {
        journal.begin(id(number), what(), &[]).unwrap();
    }
    let mut journal = Journal::load(paths.clone(), start(2));
    journal.begin(id(100), what(), &[id(0)]).unwrap();
    assert_eq!(journal.look(&id(0)), Known::Begun(what()));
    let Known::Ended(given_up) = journal.look(&id(1)) else {
        panic!("it may begin again");
    };
    assert_eq!(given_up.code, code::FORGOTTEN);
    let all: Vec<_> = (0..200).map(id).collect();
    assert!(journal.begin(id(101), what(), &all).is_err());
    assert_eq!(
        Journal::load(paths, start(3)).look(&id(1)),
        Known::Ended(given_up)
    );
}

#[test]
fn what_is_written_can_be_read_whatever_the_messages_hold() {
    let (_folder, paths) = folder();
    let mut journal = Journal::load(paths.clone(), start(1));
    let many = u32::try_from(ENDED_COMMANDS_MAX).unwrap();
    for number in 0..many {
        let mut ended = result(number, b"");
        ended.message = "\u{1}".repeat(1024);
        journal.end(&ended);
    }
    let journal = Journal::load(paths, start(2));
    assert!(matches!(journal.look(&id(many - 1)), Known::Ended(_)));
}

#[test]
fn a_journal_that_cannot_be_written_begins_nothing() {
    let (folder, paths) = folder();
    let mut journal = Journal::load(paths.clone(), start(1));
    std::fs::remove_dir_all(paths.state()).unwrap();
    let what = What::of(&Order::Restart);
    assert!(journal.begin(id(1), what, &[]).is_err());
    assert_eq!(journal.look(&id(1)), Known::Nothing);
    drop(folder);
}

/// I12
#[test]
fn nonsense_is_as_good_as_nothing() {
    let (_folder, paths) = folder();
    for bytes in [&b""[..], b"{", b"[]", b"{\"entries\":[{}]}", &[0; 5000]] {
        durable::replace_file(&paths.journal(), bytes, Mode::Private).unwrap();
        let mut journal = Journal::load(paths.clone(), start(1));
        assert_eq!(journal.look(&id(1)), Known::Nothing);
        journal
            .begin(id(1), What::of(&Order::Restart), &[])
            .unwrap();
    }
}
