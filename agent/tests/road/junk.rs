//! Whatever lies in the node's own folder, the node starts (I12).

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use bc_protocol::session::GoodbyeReason;

use super::fleet::Fleet;
use super::node::Node;

/// What can lie in a file's place.
#[derive(Clone, Copy, Debug)]
enum Junk {
    Bytes(&'static [u8]),
    /// More than anybody wants to read, though it takes no room.
    Giant,
    Folder,
    Pipe,
    Loop,
    Socket,
}

impl Junk {
    fn put(self, path: &Path) {
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        }
        fs::remove_file(path).ok();
        match self {
            Self::Bytes(bytes) => {
                std::io::Write::write_all(&mut File::create(path).unwrap(), bytes).unwrap();
            }
            Self::Giant => File::create(path).unwrap().set_len(1 << 40).unwrap(),
            Self::Folder => fs::create_dir_all(path.join("theirs")).unwrap(),
            Self::Pipe => nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            Self::Loop => symlink(path.file_name().unwrap(), path).unwrap(),
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
        }
    }
}

const JUNK: [Junk; 10] = [
    Junk::Bytes(b""),
    Junk::Bytes(b"\0\0\0\0\0\0\0\0"),
    Junk::Bytes(b"{}"),
    Junk::Bytes(b"[[[[[[[["),
    Junk::Bytes(b"{\"generation\":1,\"daemon\":{\"version\":\"../../x\"}}"),
    Junk::Giant,
    Junk::Folder,
    Junk::Pipe,
    Junk::Loop,
    Junk::Socket,
];

#[tokio::test]
async fn a_node_has_its_session_whatever_lies_in_its_state_folder() {
    let fleet = Fleet::start().await;
    let node = Node::new(&fleet);
    node.join();
    {
        let supervise = node.supervise();
        let mut session = fleet.session().await;
        supervise.terminate();
        assert_eq!(session.read_until_goodbye().await, GoodbyeReason::Stopping);
    }
    for junk in JUNK {
        for name in [
            "state/trial.json",
            "state/node-spec.json",
            "state/session.json",
            "state/connect-seq",
            "state/hold.json",
            "state/attempt.json",
            "state/commands.json",
            "state/bcd.partial",
            "state/bcd.partial.origin",
            "state/.session.json.new",
            "slots/b/bcd",
            "slots/b/bcd.partial",
            "slots/b/.bcd.new",
            "slots/b/release.json",
            "update.json",
            "current",
        ] {
            junk.put(&node.path("state").join(name));
        }
        let mut supervise = node.supervise();
        let mut session = fleet.session().await;
        assert!(session.hello.facts.held.is_some(), "{junk:?}");
        supervise.terminate();
        session.read_until_goodbye().await;
        assert!(supervise.wait().await.success(), "{junk:?}");
    }
}
