//! What a node remembers of its session: the last spec, for itself, and whether there is a session, for people.
//!
//! Takes and gives small files of `state/`. A file that cannot be read is as good as none: the gateway sends the spec
//! anew, and no start may fail for a note.

use std::{io, path::Path};

use bc_protocol::{
    release::Trust,
    session::{Goodbye, GoodbyeReason},
    spec::NodeSpec,
    time::Timestamp,
    version::Version,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{sync::watch, task::spawn_blocking};

use super::{limits::STATE_FILE_BYTES_MAX, session::Ending};
use crate::{
    clock,
    durable::{self, Mode},
    paths::Paths,
};

/// Whether there is a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionNote {
    /// Whether a gateway has welcomed the node and was not lost since.
    pub(crate) connected: bool,
    /// The gateway of the session, or of the last one.
    pub(crate) gateway: Option<String>,
    /// Since when.
    pub(crate) since: Timestamp,
    /// The version of the image that wrote this.
    pub(crate) version: Version,
    /// The version of the helper that answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) helper: Option<Version>,
    /// Why there is no session, as of the last try.
    #[serde(default)]
    pub(crate) lost: Option<String>,
    /// Whether a gateway has said that the fleet has removed the node, and none has welcomed it since.
    #[serde(default)]
    pub(crate) removed: bool,
    /// Whom the process that wrote this believes, as [`whom`] says it.
    #[serde(default)]
    pub(crate) trust: String,
    /// Whether there is such a process still.
    #[serde(skip)]
    pub(crate) running: bool,
}

/// A threshold and its pins, to be compared.
pub(crate) fn whom(trust: &Trust) -> String {
    let mut text = trust.threshold().to_string();
    for pin in trust.pins() {
        text.push(' ');
        text.push_str(&pin.to_string());
    }
    text
}

impl SessionNote {
    /// No session, from now on.
    pub(super) fn none(version: Version, trust: &Trust) -> Self {
        Self {
            connected: false,
            gateway: None,
            since: clock::wall(),
            version,
            helper: None,
            lost: None,
            removed: false,
            trust: whom(trust),
            running: true,
        }
    }

    /// A session that has just begun.
    pub(super) fn begin(&mut self, gateway: String) {
        self.connected = true;
        self.gateway = Some(gateway);
        self.since = clock::wall();
        (self.lost, self.removed) = (None, false);
    }

    /// The session is over, or a try to begin one; with whom the last was stays known. Whether that is news.
    pub(super) fn end(&mut self, ending: Option<&Ending>) -> bool {
        let mut news = self.connected;
        if news {
            self.connected = false;
            self.since = clock::wall();
        }
        if let Some(ending) = ending {
            let why = Some(ending.to_string());
            news |= self.lost != why;
            self.lost = why;
            self.removed |= matches!(
                ending,
                Ending::Goodbye(Goodbye {
                    reason: GoodbyeReason::Removed,
                    ..
                })
            );
        }
        news
    }

    /// Keeps the note.
    pub(super) fn save(&self, paths: &Paths) {
        // It says nothing that a power cut leaves true, and must keep nobody waiting for a disk.
        let saved = serde_json::to_vec(self)
            .map_err(io::Error::other)
            .and_then(|json| durable::replace_note(&paths.session(), &json, Mode::Readable));
        if let Err(error) = saved {
            tracing::warn!(%error, "the session's note cannot be kept");
        }
    }
}

/// The note, for people. Whoever was killed could not take it back: no node, no session. An error says that it may not
/// be looked at.
pub(crate) fn session(paths: &Paths) -> io::Result<Option<SessionNote>> {
    let Some(note) = look::<SessionNote>(&paths.session())? else {
        return Ok(None);
    };
    let running = is_running(paths);
    Ok(Some(SessionNote {
        connected: note.connected && running,
        running,
        ..note
    }))
}

/// The last spec.
pub(crate) fn spec(paths: &Paths) -> Option<NodeSpec> {
    load(&paths.node_spec())
}

/// Keeps specs, the newest of those that came meanwhile, one after the other and beside everything else: no update waits
/// for it. What is said about a spec, `kept`, follows the disk. Where that does not take it, the gateway sends it again.
pub(super) fn keep_specs(
    paths: Paths,
    mut specs: watch::Receiver<Option<NodeSpec>>,
    kept: impl Fn(u64),
) -> impl Future<Output = ()> {
    // Now, and not when the task first runs: what arrives in between is not on the disk.
    let mut last = specs.borrow_and_update().clone();
    async move {
        while specs.changed().await.is_ok() {
            let Some(newest) = specs.borrow_and_update().clone() else {
                continue;
            };
            if last.as_ref() != Some(&newest) {
                let (paths, spec) = (paths.clone(), newest.clone());
                match spawn_blocking(move || keep_spec(&paths, &spec)).await {
                    Ok(Ok(())) => last = Some(newest.clone()),
                    Ok(Err(error)) => tracing::warn!(%error, "the spec cannot be kept"),
                    Err(error) => tracing::warn!(%error, "the spec was not kept"),
                }
            }
            kept(newest.generation);
        }
    }
}

/// Keeps a spec: its bytes are on the disk. Should a power cut take the new name back, the whole spec before it is
/// there, the next Hello says so, and the gateway sends the newer one again.
fn keep_spec(paths: &Paths, spec: &NodeSpec) -> io::Result<()> {
    let json = serde_json::to_vec(spec)?;
    durable::replace_bytes(&paths.node_spec(), &json, Mode::Readable)
}

/// Whether a node holds its lock. Where the lock may not be looked at, the note is all there is.
fn is_running(paths: &Paths) -> bool {
    match durable::open_unlinked(&paths.node_lock()) {
        Ok(file) => file.try_lock_shared().is_err(),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

fn load<T: DeserializeOwned>(path: &Path) -> Option<T> {
    look(path).unwrap_or_else(|error| {
        unusable(path, &error);
        None
    })
}

/// The same, for who has to know that there may be something which he may not see.
fn look<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let read = match durable::read_unlinked(path, STATE_FILE_BYTES_MAX) {
        Ok(Some(json)) => serde_json::from_slice(&json).map(Some).map_err(Into::into),
        Ok(None) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(error) => Err(error),
    };
    Ok(read.unwrap_or_else(|error| {
        unusable(path, &error);
        None
    }))
}

fn unusable(path: &Path, error: &io::Error) {
    tracing::warn!(path = %path.display(), %error, "a file of the node cannot be used");
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use bc_protocol::digest::Pin;

    use super::*;

    fn node() -> (tempfile::TempDir, Paths) {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        durable::create_folder(&paths.state(), 0o700).unwrap();
        (folder, paths)
    }

    fn none() -> SessionNote {
        let trust = Trust::new([Pin::of_spki(b"one")], 1).unwrap();
        SessionNote::none("1.0.0".parse().unwrap(), &trust)
    }

    #[test]
    fn a_spec_outlives_the_process() {
        let (_folder, paths) = node();
        assert_eq!(spec(&paths), None);
        let kept = NodeSpec {
            generation: 7,
            daemon: None,
        };
        keep_spec(&paths, &kept).unwrap();
        assert_eq!(spec(&paths), Some(kept));
    }

    #[tokio::test]
    async fn what_is_said_about_a_spec_follows_the_disk() {
        let (_folder, paths) = node();
        let of = |generation| NodeSpec {
            generation,
            daemon: None,
        };
        let (specs, arriving) = watch::channel(None);
        let (told, mut heard) = watch::channel(0);
        let on_disk = paths.clone();
        tokio::spawn(keep_specs(paths, arriving, move |generation| {
            assert_eq!(spec(&on_disk).unwrap().generation, generation);
            told.send_replace(generation);
        }));
        for generation in [1, 2, 2, 7] {
            specs.send_replace(Some(of(generation)));
            heard.wait_for(|told| *told == generation).await.unwrap();
        }
    }

    #[test]
    fn nonsense_is_as_good_as_nothing() {
        let (_folder, paths) = node();
        for bytes in [
            b"".as_slice(),
            b"{",
            b"[]",
            b"{\"generation\":-1}",
            &[0; 5000],
        ] {
            durable::replace_file(&paths.node_spec(), bytes, Mode::Readable).unwrap();
            durable::replace_file(&paths.session(), bytes, Mode::Readable).unwrap();
            assert_eq!(spec(&paths), None);
            assert_eq!(session(&paths).unwrap(), None);
        }
        File::create(paths.node_spec())
            .unwrap()
            .set_len(1 << 30)
            .unwrap();
        assert_eq!(spec(&paths), None);
    }

    #[test]
    fn a_session_ends_with_its_node() {
        let (_folder, paths) = node();
        let mut note = none();
        note.begin("wss://one/".to_owned());
        note.save(&paths);
        assert!(!session(&paths).unwrap().unwrap().connected, "nobody runs");
        let lock = File::create(paths.node_lock()).unwrap();
        lock.lock().unwrap();
        let note = session(&paths).unwrap().unwrap();
        assert!(note.connected);
        assert_eq!(note.gateway.as_deref(), Some("wss://one/"));
        drop(lock);
        assert!(!session(&paths).unwrap().unwrap().connected);
    }

    fn goodbye(reason: GoodbyeReason) -> Ending {
        Ending::Goodbye(Goodbye {
            reason,
            reconnect_after_ms: 0,
            message: "so it is".to_owned(),
        })
    }

    #[test]
    fn why_there_is_no_session_is_said_once_and_a_removal_lasts_until_a_welcome() {
        let mut note = none();
        let away = Ending::Unreachable("nobody".to_owned());
        let tries = [&away, &away, &goodbye(GoodbyeReason::Removed), &away];
        let news = tries.map(|ending| note.end(Some(ending)));
        assert_eq!(news, [true, false, true, true]);
        assert!(note.removed);
        assert_eq!(note.lost, Some(away.to_string()));
        note.begin("wss://one/".to_owned());
        assert_eq!((&note.lost, note.removed), (&None, false));
        assert!(note.end(None) && !note.end(None));
        note.end(Some(&goodbye(GoodbyeReason::Overloaded)));
        assert!(!note.removed);
    }
}
