//! A helper whose client does everything that it should not.

mod race;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::Arc;

use bc_protocol::digest::Sha256;
use bc_protocol::id::AttemptId;
use bc_protocol::session::Outcome;
use nix::fcntl::OFlag;
use nix::unistd::{getegid, geteuid};
use proptest::prelude::*;
use tokio::net::UnixStream;

use super::frame;
use super::limits::{REPLY_BYTES_MAX, REQUEST_BYTES_MAX};
use super::server::serve;
use super::service::Service;
use super::wire::{Activate, Answer, Binary, Cancel, Confirm, Reply, Request, Stage, WireError};
use super::{Account, Helper};
use crate::updater::attempt::{Attempt, Ending};
use crate::updater::host::tests::home::{Home, Release};

fn service(home: &Home) -> Arc<Service> {
    Arc::new(Service::new(Helper {
        host: home.host.clone(),
        account: Account {
            uid: geteuid(),
            gid: getegid(),
        },
        config: "bcd.toml".into(),
        socket: "unused".into(),
        version: "9.9.9",
    }))
}

/// One connection: these bytes with these descriptors, and the answer.
async fn exchange(service: &Arc<Service>, bytes: &[u8], files: &[&File]) -> Answer {
    let (client, server) = UnixStream::pair().unwrap();
    let service = Arc::clone(service);
    let serving = tokio::spawn(async move { serve(&server, &service).await });
    let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
    let frame = [length.as_slice(), bytes].concat();
    let (first, rest) = frame.split_at(1);
    let descriptors: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = vec![std::mem::MaybeUninit::uninit(); 4096];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&descriptors)));
    }
    let flags = rustix::net::SendFlags::empty();
    let first = std::io::IoSlice::new(first);
    client.writable().await.unwrap();
    rustix::net::sendmsg(&client, &[first], &mut control, flags).unwrap();
    let mut rest = rest;
    while !rest.is_empty() {
        client.writable().await.unwrap();
        match client.try_write(rest) {
            Ok(written) => rest = &rest[written..],
            // It has heard enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let reply = frame::read(&client, REPLY_BYTES_MAX).await.unwrap();
    serving.await.unwrap();
    let reply = Reply::decode(&reply.bytes).unwrap();
    assert_eq!(reply.helper, "9.9.9");
    reply.answer
}

async fn ask(service: &Arc<Service>, request: Request, files: &[&File]) -> Answer {
    exchange(service, &request.encode().unwrap(), files).await
}

fn staging(release: &Release, binary: Binary) -> Request {
    Request::Stage(Stage {
        section: release.section(),
        binary,
    })
}

fn code(answer: Answer) -> String {
    match answer {
        Answer::Ended { code, .. } => code,
        other @ (Answer::Done {}
        | Answer::Standing { .. }
        | Answer::TrialWaits {}
        | Answer::NotOnTrial {}
        | Answer::Denied {}
        | Answer::Unsupported {}
        | Answer::Malformed { .. }
        | Answer::Busy {}) => panic!("expected an ending, found {other:?}"),
    }
}

fn file(folder: &Path, bytes: &[u8]) -> File {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(folder.join("download"))
        .unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[tokio::test]
async fn a_binary_is_taken_from_its_descriptor_and_tried_out() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let (service, release) = (service(&home), Release::good("1.1.0", 11));
    let download = file(folder.path(), &release.binary);
    let staged = ask(
        &service,
        staging(&release, Binary::Descriptor),
        &[&download],
    )
    .await;
    // All but the last step: what was staged is no program.
    assert_eq!(code(staged), "preflight");
    let section = release.section();
    let activate = || {
        Request::Activate(Activate {
            section: section.clone(),
        })
    };
    assert_eq!(ask(&service, activate(), &[]).await, Answer::Done {});
    assert_eq!(ask(&service, activate(), &[]).await, Answer::Done {});
    let digest = Sha256::of(&release.binary);
    let other = Sha256::of(b"other");
    let confirm = |digest| Request::Confirm(Confirm { digest });
    assert_eq!(
        ask(&service, confirm(other), &[]).await,
        Answer::NotOnTrial {}
    );
    assert_eq!(home.host.status().unwrap().floor().sequence().get(), 0);
    assert_eq!(ask(&service, confirm(digest), &[]).await, Answer::Done {});
    assert_eq!(ask(&service, confirm(digest), &[]).await, Answer::Done {});
    assert_eq!(home.host.status().unwrap().floor().sequence().get(), 11);
    let standing = ask(&service, Request::Status, &[]).await;
    assert!(
        matches!(standing, Answer::Standing { trial: None, floor, .. } if floor.sequence().get() == 11)
    );
}

/// I9, I14: whatever is asked of it, the helper installs what is signed, at or above its own floor.
#[tokio::test]
async fn what_root_would_refuse_itself_is_refused() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    home.upgrade(&Release::good("1.1.0", 11));
    let service = service(&home);
    let before = home.state();
    let good = Release::good("1.2.0", 12);
    let spoilt = |spoil: fn(&mut Release)| {
        let mut release = good.clone();
        spoil(&mut release);
        release
    };
    for (expected, release) in [
        ("rollback", spoilt(|release| release.sequence = 10)),
        ("threshold", spoilt(|release| release.signers = vec![1])),
        ("expired", spoilt(|release| release.expires_in = -1)),
    ] {
        let download = file(folder.path(), &release.binary);
        let answer = ask(
            &service,
            staging(&release, Binary::Descriptor),
            &[&download],
        )
        .await;
        assert_eq!(code(answer), expected);
        let section = release.section();
        let answer = ask(&service, Request::Activate(Activate { section }), &[]).await;
        assert_eq!(code(answer), expected);
    }
    // Signed, and never staged.
    let section = good.section();
    let answer = ask(&service, Request::Activate(Activate { section }), &[]).await;
    assert_eq!(code(answer), "disk");
    let in_place = ask(&service, staging(&good, Binary::InPlace), &[]).await;
    assert_eq!(code(in_place), "size");
    let digest = Sha256::of(&good.binary);
    let confirm = Request::Confirm(Confirm { digest });
    assert_eq!(ask(&service, confirm, &[]).await, Answer::NotOnTrial {});
    assert_eq!(home.state(), before);
}

#[tokio::test]
async fn only_a_file_of_the_signed_size_and_bytes_is_copied() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let (service, release) = (service(&home), Release::good("1.1.0", 11));
    let before = home.state();
    let here = |name: &str| folder.path().join(name);
    nix::unistd::mkfifo(&here("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("pipe", here("link")).unwrap();
    let opened = |path: &Path, flags: OFlag| {
        let flags = (flags | OFlag::O_NONBLOCK).bits();
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags).open(path).unwrap()
    };
    let (one, _other) = StdStream::pair().unwrap();
    let giant = File::create(here("giant")).unwrap();
    giant.set_len(1 << 40).unwrap();
    let unreadable = File::create(here("unreadable")).unwrap();
    unreadable.set_len(release.binary.len() as u64).unwrap();
    let mut wrong = release.binary.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let longer = [release.binary.as_slice(), b"more"].concat();
    for (expected, file) in [
        ("descriptor", opened(&here("pipe"), OFlag::O_RDONLY)),
        (
            "descriptor",
            opened(&here("link"), OFlag::O_PATH | OFlag::O_NOFOLLOW),
        ),
        ("descriptor", opened(folder.path(), OFlag::O_DIRECTORY)),
        (
            "descriptor",
            opened(Path::new("/dev/zero"), OFlag::O_RDONLY),
        ),
        ("descriptor", File::from(std::os::fd::OwnedFd::from(one))),
        ("size", opened(&here("giant"), OFlag::O_RDONLY)),
        ("digest", file(folder.path(), &wrong)),
        (
            "size",
            file(
                &{
                    let path = here("other");
                    fs::create_dir(&path).unwrap();
                    path
                },
                &longer,
            ),
        ),
        // It may be looked at and not read.
        ("disk", unreadable),
    ] {
        let answer = ask(&service, staging(&release, Binary::Descriptor), &[&file]).await;
        assert_eq!(code(answer), expected);
    }
    assert_eq!(home.state(), before);
    let left = home.host.paths().slot(bc_protocol::session::Slot::B);
    assert_eq!(fs::read_dir(left).unwrap().count(), 0);
}

/// I17: every descriptor that came is closed again, whether it was wanted or not.
#[tokio::test]
async fn exactly_one_descriptor_comes_with_a_binary_and_none_without() {
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let (service, release) = (service(&home), Release::good("1.1.0", 11));
    let download = file(folder.path(), &release.binary);
    let path = fs::canonicalize(folder.path().join("download")).unwrap();
    let open = || {
        fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter(|entry| {
                fs::read_link(entry.as_ref().unwrap().path()).is_ok_and(|to| to == path)
            })
            .count()
    };
    for (binary, count) in [
        (Binary::Descriptor, 0),
        (Binary::Descriptor, 2),
        (Binary::Descriptor, 3),
        (Binary::Descriptor, 253),
        (Binary::InPlace, 1),
    ] {
        let files = vec![&download; count];
        let answer = ask(&service, staging(&release, binary), &files).await;
        assert!(
            matches!(answer, Answer::Malformed { .. }),
            "{count}: {answer:?}"
        );
        assert_eq!(open(), 1);
    }
}

/// What can be said without a release.
#[tokio::test]
async fn nonsense_is_named_and_changes_nothing() {
    let home = Home::new();
    let service = service(&home);
    let before = home.state();
    for (bytes, is_unsupported) in [
        (r#"{"version":2,"anything":true}"#.to_owned(), true),
        (
            r#"{"version":1,"operation":"update.later","arguments":{}}"#.to_owned(),
            true,
        ),
        (
            r#"{"version":1,"operation":"update.status","arguments":{"more":1}}"#.to_owned(),
            false,
        ),
        (
            r#"{"version":1,"operation":"update.status","arguments":{},"more":1}"#.to_owned(),
            false,
        ),
        (
            r#"{"version":1,"operation":"update.status"}"#.to_owned(),
            false,
        ),
        (String::new(), false),
        ("[".repeat(100_000), false),
        (" ".repeat(REQUEST_BYTES_MAX + 1), false),
    ] {
        let answer = exchange(&service, bytes.as_bytes(), &[]).await;
        let expected = if is_unsupported {
            matches!(answer, Answer::Unsupported {})
        } else {
            matches!(answer, Answer::Malformed { .. })
        };
        assert!(expected, "{answer:?}");
    }
    assert_eq!(home.state(), before);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_costs_nothing() {
    let home = Home::new();
    let service = service(&home);
    let frame = [
        &[0, 0, 0, 200],
        Request::Status.encode().unwrap().as_slice(),
    ]
    .concat();
    for length in 0..frame.len() {
        let (client, server) = UnixStream::pair().unwrap();
        client.writable().await.unwrap();
        assert!(length == 0 || client.try_write(&frame[..length]).unwrap() == length);
        drop(client);
        serve(&server, &service).await;
    }
    let standing = ask(&service, Request::Status, &[]).await;
    assert!(matches!(standing, Answer::Standing { .. }));
}

#[tokio::test]
async fn a_strangers_words_about_an_attempt_stay_short() {
    let home = Home::new();
    let service = service(&home);
    let mut ending = Ending::new(Outcome::Failed, "c".repeat(9999), "m".repeat(9999));
    ending.log = "l".repeat(9999);
    let attempt = Attempt::begun(AttemptId::derived(&[b"one"]), "t".repeat(9999)).ended(ending);
    let cancel = Request::Cancel(Cancel { attempt });
    assert_eq!(ask(&service, cancel, &[]).await, Answer::Done {});
    let record = home.host.status().unwrap();
    let facts = record.last_attempt().unwrap().facts();
    let lengths = (
        facts.target.len(),
        facts.code.len(),
        facts.message.len(),
        facts.log.len(),
    );
    assert_eq!(lengths, (64, 64, 1024, 0));
    assert_eq!(facts.tries, 1);
}

proptest! {
    #[test]
    fn any_bytes_are_a_request_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(Request::decode(&bytes).is_err());
        prop_assert!(Reply::decode(&bytes).is_err());
    }

    #[test]
    fn another_version_is_always_named(version in 2_u32.., operation in "[a-z.]{0,20}") {
        let text = format!(r#"{{"version":{version},"operation":"{operation}","arguments":{{}},"x":[]}}"#);
        prop_assert_eq!(Request::decode(text.as_bytes()), Err(WireError::Unsupported));
    }

    #[test]
    fn what_is_written_is_read(digest in any::<[u8; 32]>(), cut in any::<prop::sample::Index>()) {
        let request = Request::Confirm(Confirm { digest: Sha256::from(digest) });
        let bytes = request.encode().unwrap();
        prop_assert_eq!(Request::decode(&bytes).unwrap(), request);
        prop_assert!(Request::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }
}
