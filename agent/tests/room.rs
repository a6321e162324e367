//! A new binary tried out in a process of somebody else's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::fs::{self, File, Permissions};
use std::io::{IoSlice, Read as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use nix::unistd::geteuid;
use rustix::cmsg_space;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use tokio::time::timeout;

const BCD: &str = env!("CARGO_BIN_EXE_bcd");

const NOBODY: u32 = 65_534;

/// A room, and whoever asks there. Root starts it as nobody, as systemd would as somebody.
fn room(user: Option<u32>) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = Command::new(BCD);
    command.arg("room").stdin(OwnedFd::from(theirs));
    if let (true, Some(user)) = (geteuid().is_root(), user) {
        command.uid(user).gid(user);
    }
    (command.spawn().unwrap(), ours)
}

fn send(stream: &UnixStream, bytes: &[u8], file: &File) {
    let mut frame = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(bytes);
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let sent = sendmsg(
        stream,
        &[IoSlice::new(&frame)],
        &mut control,
        SendFlags::empty(),
    );
    assert_eq!(sent.unwrap(), frame.len());
}

fn ask(stream: &UnixStream, binary: &str, folder: &Path, asked: &Value) {
    let binary = File::open(binary).unwrap();
    send(stream, asked.to_string().as_bytes(), &binary);
    send(stream, &[], &File::open(folder).unwrap());
}

fn answer(mut stream: UnixStream) -> Value {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len(), u32::from_be_bytes(length) as usize);
    serde_json::from_slice(&bytes).unwrap()
}

fn asked(words: &[&str]) -> Value {
    json!({"version": 1, "user": null, "words": words})
}

/// What is handed over is what runs, in the folder that is handed over, though no way leads there.
#[test]
fn what_is_handed_over_open_is_what_runs() {
    let closed = tempfile::tempdir().unwrap();
    fs::set_permissions(closed.path(), Permissions::from_mode(0o700)).unwrap();
    let inside = closed.path().join("inside");
    fs::create_dir(&inside).unwrap();
    fs::set_permissions(&inside, Permissions::from_mode(0o755)).unwrap();
    let shown = inside.join("shown");
    fs::copy("/proc/self/comm", &shown).unwrap();
    fs::set_permissions(&shown, Permissions::from_mode(0o644)).unwrap();
    let expected = fs::read_to_string(&shown).unwrap();
    let (mut room, stream) = room(Some(NOBODY));
    ask(&stream, "/bin/cat", &inside, &asked(&["shown"]));
    let said = answer(stream);
    assert_eq!(said["said"], "ended", "{said}");
    assert_eq!(said["passed"], true, "{said}");
    assert_eq!(said["said"], "ended");
    assert_eq!(said["output"], expected.trim_end(), "{said}");
    assert!(room.wait().unwrap().success());
}

#[test]
fn how_it_fails_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (mut room, stream) = room(Some(NOBODY));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    ask(&stream, "/bin/cat", folder.path(), &asked(&["missing"]));
    let said = answer(stream);
    assert_eq!(said["passed"], false, "{said}");
    assert_eq!(said["status"], "exit status: 1", "{said}");
    assert!(said["complaint"].as_str().unwrap().contains("missing"));
    assert!(room.wait().unwrap().success());
}

/// Nobody waits for the answer any more: nothing runs on.
#[tokio::test]
async fn it_ends_with_whoever_asked() {
    let (mut room, stream) = room(Some(NOBODY));
    ask(&stream, "/bin/sleep", Path::new("/"), &asked(&["600"]));
    let children = format!("/proc/{0}/task/{0}/children", room.id());
    let child = loop {
        let listed = fs::read_to_string(&children).unwrap();
        if let Some(child) = listed.split_whitespace().next() {
            break child.to_owned();
        }
        std::thread::yield_now();
    };
    drop(stream);
    room.wait().unwrap();
    // Struck is not gone yet: the kernel carries it out when that one's turn comes.
    let gone = async {
        while runs(&child) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(30), gone)
        .await
        .expect("it runs on");
}

/// Whether there is more of it than its remains.
fn runs(child: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    !status.is_empty() && !status.contains(") Z ") && !status.contains(") X ")
}

/// Root tries nothing out, and no user does for another.
#[test]
fn a_room_of_somebody_elses_says_so() {
    if geteuid().is_root() {
        let (_, stream) = room(None);
        ask(&stream, "/bin/true", Path::new("/"), &asked(&[]));
        assert_eq!(answer(stream)["said"], "not-here");
    }
    let (mut room, stream) = room(Some(NOBODY));
    let other = json!({"version": 1, "user": 4_000_000, "words": []});
    ask(&stream, "/bin/true", Path::new("/"), &other);
    assert_eq!(answer(stream)["said"], "not-here");
    assert!(room.wait().unwrap().success());
}

/// An order that cannot be read, or without its descriptors, ends the room with a reason.
#[test]
fn nonsense_is_refused() {
    for order in ["", "{}", r#"{"version":2,"user":null,"words":[]}"#] {
        let (mut room, stream) = room(Some(NOBODY));
        send(&stream, order.as_bytes(), &File::open("/").unwrap());
        drop(stream);
        assert_eq!(room.wait().unwrap().code(), Some(1), "{order}");
    }
}
