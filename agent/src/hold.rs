//! The owner's hold: while it lasts, his node begins no update.
//!
//! It is one file in `state/`, whose presence is the hold. Takes the owner's word from the command line, gives it to the
//! node that runs as soon as it changes: the kernel tells, nothing polls. A trial that runs goes on.

use std::{io, path::PathBuf};

use bc_protocol::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    changes::Changes,
    clock,
    durable::{self, Mode},
    node::limits::STATE_FILE_BYTES_MAX,
    paths::Paths,
};

const FILE: &str = "hold.json";

/// What is reported where the owner gave no reason, or where his file cannot be read: he wanted a hold all the same.
const NO_REASON: &str = "by the owner";

/// Of a reason, that many characters are kept: it stands in tables of people who run thousands of nodes.
pub(crate) const REASON_CHARS_MAX: usize = 200;

/// As the file has it.
#[derive(Debug, Serialize, Deserialize)]
struct Held {
    reason: String,
    since: Timestamp,
}

/// A hold that lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Why.
    pub(crate) reason: String,
    /// Since when; unknown where the file cannot be read.
    pub(crate) since: Option<Timestamp>,
}

/// Why the node is held; none where it is not.
pub(crate) fn reason(paths: &Paths) -> Option<String> {
    seen(paths).unwrap_or_else(|error| unread(&error))
}

fn unread(error: &io::Error) -> Option<String> {
    tracing::warn!(%error, "the owner's hold cannot be read");
    Some(NO_REASON.to_owned())
}

/// The same, for who has to know that it may not be looked at.
pub(crate) fn seen(paths: &Paths) -> io::Result<Option<String>> {
    Ok(looked_at(paths)?.map(|hold| hold.reason))
}

/// The same, and since when.
pub(crate) fn looked_at(paths: &Paths) -> io::Result<Option<Hold>> {
    let json = match durable::read_unlinked(&file(paths), STATE_FILE_BYTES_MAX) {
        Ok(Some(json)) => json,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
        Err(error) => {
            let hold = unread(&error).map(|reason| Hold {
                reason,
                since: None,
            });
            return Ok(hold);
        }
    };
    let held = serde_json::from_slice::<Held>(&json).ok();
    let since = held.as_ref().map(|held| held.since);
    let reason = held.map(|held| held.reason).filter(|text| !text.is_empty());
    Ok(Some(Hold {
        reason: reason.unwrap_or_else(|| NO_REASON.to_owned()),
        since,
    }))
}

/// Where the hold lies.
pub(crate) fn file(paths: &Paths) -> PathBuf {
    paths.state().join(FILE)
}

/// Holds the node; a hold that there is lasts since it began, and keeps its reason unless a new one is given.
pub(crate) fn hold(paths: &Paths, reason: &str) -> io::Result<()> {
    let before = looked_at(paths)?;
    let since = before.as_ref().and_then(|hold| hold.since);
    let reason = match before {
        Some(before) if reason.is_empty() => before.reason,
        Some(_) | None => reason.to_owned(),
    };
    let held = Held {
        reason: reason.chars().take(REASON_CHARS_MAX).collect(),
        since: since.unwrap_or_else(clock::wall),
    };
    durable::create_folder(&paths.state(), 0o755)?;
    let json = serde_json::to_vec(&held)?;
    durable::replace_file(&file(paths), &json, Mode::Readable)
}

/// Lets the node go on; that it is not held is as good.
pub(crate) fn release(paths: &Paths) -> io::Result<()> {
    durable::remove_durably(&file(paths))
}

/// Tells what holds the node now, and again whenever that may have changed.
pub(crate) async fn follow(paths: Paths, tell: impl Fn(Option<String>)) {
    // The watch first: what changes behind it is seen.
    let watch = Changes::of(&paths.state());
    let mut told = reason(&paths);
    tell(told.clone());
    let mut watch = match watch {
        Ok(watch) => watch,
        Err(error) => return blind(&error),
    };
    loop {
        if let Err(error) = watch.next().await {
            return blind(&error);
        }
        let now = reason(&paths);
        if now != told {
            tell(now.clone());
            told = now;
        }
    }
}

fn blind(error: &io::Error) {
    tracing::warn!(%error, "the owner's hold cannot be watched: it counts from the next start");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::mpsc, time::timeout};

    use super::*;

    #[test]
    fn a_hold_lasts_until_it_is_released() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        assert_eq!(reason(&paths), None);
        release(&paths).unwrap();
        hold(&paths, "").unwrap();
        assert_eq!(reason(&paths).as_deref(), Some(NO_REASON));
        hold(&paths, "a trade fair").unwrap();
        assert_eq!(reason(&paths).as_deref(), Some("a trade fair"));
        release(&paths).unwrap();
        assert_eq!(reason(&paths), None);
    }

    #[test]
    fn a_reason_stays_until_another_one_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        for (given, kept) in [
            ("a trade fair", "a trade fair"),
            ("", "a trade fair"),
            ("audit", "audit"),
        ] {
            hold(&paths, given).unwrap();
            assert_eq!(reason(&paths).as_deref(), Some(kept));
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_holds() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        hold(&paths, "x").unwrap();
        durable::replace_file(&paths.state().join(FILE), b"{", Mode::Readable).unwrap();
        assert_eq!(reason(&paths).as_deref(), Some(NO_REASON));
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        hold(&paths, &"ü".repeat(REASON_CHARS_MAX + 1)).unwrap();
        assert_eq!(reason(&paths).unwrap(), "ü".repeat(REASON_CHARS_MAX));
    }

    #[tokio::test]
    async fn a_change_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        durable::create_folder(&paths.state(), 0o755).unwrap();
        let (tell, mut told) = mpsc::unbounded_channel();
        let followed = follow(paths.clone(), move |reason| tell.send(reason).unwrap());
        let _follower = tokio::spawn(followed);
        let mut next = async || timeout(Duration::from_secs(10), told.recv()).await;
        assert_eq!(next().await.unwrap(), Some(None));
        // Other files of the folder are none of its business.
        let other = paths.state().join("session.json");
        durable::replace_file(&other, b"{}", Mode::Readable).unwrap();
        hold(&paths, "now").unwrap();
        assert_eq!(next().await.unwrap(), Some(Some("now".to_owned())));
        release(&paths).unwrap();
        assert_eq!(next().await.unwrap(), Some(None));
    }
}
