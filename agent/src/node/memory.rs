//! What a node remembers of its session: the last spec, for itself, and whether there is a session, for people.
//!
//! Takes and gives small files of `state/`. A file that cannot be read is as good as none: the gateway sends the spec
//! anew, and no start may fail for a note.

use std::{io, path::Path};

use bc_protocol::{spec::NodeSpec, time::Timestamp, version::Version};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{sync::watch, task::spawn_blocking};

use super::limits::STATE_FILE_BYTES_MAX;
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
}

impl SessionNote {
    /// No session, from now on.
    pub(super) fn none(version: Version) -> Self {
        Self {
            connected: false,
            gateway: None,
            since: clock::wall(),
            version,
            helper: None,
        }
    }

    /// A session that has just begun.
    pub(super) fn begin(&mut self, gateway: String) {
        self.connected = true;
        self.gateway = Some(gateway);
        self.since = clock::wall();
    }

    /// The session is over; with whom it was stays known.
    pub(super) fn end(&mut self) {
        self.connected = false;
        self.since = clock::wall();
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

/// The note, for people. Whoever was killed could not take it back: no node, no session.
pub(crate) fn session(paths: &Paths) -> Option<SessionNote> {
    let note: SessionNote = load(&paths.session())?;
    Some(SessionNote {
        connected: note.connected && is_running(paths),
        ..note
    })
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
    let read = durable::read_unlinked(path, STATE_FILE_BYTES_MAX);
    let json = match read {
        Ok(json) => json?,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a file of the node cannot be read");
            return None;
        }
    };
    match serde_json::from_slice(&json) {
        Ok(value) => Some(value),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "a file of the node cannot be understood");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn node() -> (tempfile::TempDir, Paths) {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        durable::create_folder(&paths.state(), 0o700).unwrap();
        (folder, paths)
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
            assert_eq!(session(&paths), None);
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
        let mut note = SessionNote::none("1.0.0".parse().unwrap());
        note.begin("wss://one/".to_owned());
        note.save(&paths);
        assert!(!session(&paths).unwrap().connected, "nobody runs");
        let lock = File::create(paths.node_lock()).unwrap();
        lock.lock().unwrap();
        let note = session(&paths).unwrap();
        assert!(note.connected);
        assert_eq!(note.gateway.as_deref(), Some("wss://one/"));
        drop(lock);
        assert!(!session(&paths).unwrap().connected);
    }
}
