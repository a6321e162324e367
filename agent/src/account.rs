//! The user that a node runs as, where that is not root.
//!
//! Takes a name or a number, gives the account; hands folders over to it. A folder that is handed over is opened without
//! following a link, and so is everything in it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid, User, geteuid};
use thiserror::Error;

use crate::durable;
use crate::paths::Paths;

/// The user of a node, if nobody says otherwise.
pub(crate) const DEFAULT_USER: &str = "bcd";

/// One user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

/// Why there is no such user, or a folder is not the user's.
#[derive(Debug, Error)]
pub(crate) enum AccountError {
    #[error("expected a user of this machine, found none of the name \"{name}\"")]
    Unknown { name: String },
    #[error("expected to look up the user \"{name}\", found that it cannot be done")]
    Lookup {
        name: String,
        #[source]
        source: nix::Error,
    },
    #[error("expected to give {path} to the node's user, found that it cannot be done", path = path.display())]
    Give {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("expected {path} to belong to root or to the node's user, found user {found}", path = path.display())]
    Foreign { path: PathBuf, found: u32 },
}

impl Account {
    /// The user and the group that own nothing.
    pub(crate) const NOBODY: Self = Self {
        uid: Uid::from_raw(65_534),
        gid: Gid::from_raw(65_534),
    };

    /// The account of that name, or of that number.
    pub(crate) fn named(name: &str) -> Result<Self, AccountError> {
        let number = name.parse().ok().map(Uid::from_raw);
        let found = match number {
            Some(uid) => User::from_uid(uid),
            None => User::from_name(name),
        };
        let found = found.map_err(|source| AccountError::Lookup {
            name: name.to_owned(),
            source,
        })?;
        match (found, number) {
            (Some(user), _) => Ok(Self {
                uid: user.uid,
                gid: user.gid,
            }),
            // Containers run under numbers that nobody has named.
            (None, Some(uid)) => Ok(Self {
                uid,
                gid: Gid::from_raw(uid.as_raw()),
            }),
            (None, None) => Err(AccountError::Unknown {
                name: name.to_owned(),
            }),
        }
    }

    /// Makes the node's own folders this account's, with what is in them. Only root can, and needs to.
    pub(crate) fn prepare(&self, paths: &Paths) -> Result<(), AccountError> {
        if !geteuid().is_root() {
            return Ok(());
        }
        durable::create_folder(paths.root(), 0o755).map_err(giving(paths.root()))?;
        for folder in [paths.state(), paths.identity()] {
            durable::create_folder(&folder, 0o700).map_err(giving(&folder))?;
            self.give(&folder)?;
        }
        Ok(())
    }

    fn give(&self, folder: &Path) -> Result<(), AccountError> {
        let failed = giving(folder);
        let open = open(folder, OFlag::O_DIRECTORY).map_err(giving(folder))?;
        for entry in fs::read_dir(folder).map_err(giving(folder))? {
            let entry = entry.map_err(giving(folder))?.path();
            let file = match self::open(&entry, OFlag::empty()) {
                Ok(file) => file,
                // A link, or gone: neither is root's to give.
                Err(error) => {
                    tracing::debug!(path = %entry.display(), %error, "left as it is");
                    continue;
                }
            };
            let found = file.metadata().map_err(giving(&entry))?;
            // A second name of a file that lies elsewhere is not the node's.
            if found.is_file() && found.nlink() == 1 {
                self.own(&file, &entry)?;
            }
        }
        self.own(&open, folder)?;
        open.sync_all().map_err(failed)
    }

    fn own(&self, open: &File, path: &Path) -> Result<(), AccountError> {
        let found = open.metadata().map_err(giving(path))?.uid();
        if found == self.uid.as_raw() {
            return Ok(());
        }
        if found != 0 {
            let path = path.to_owned();
            return Err(AccountError::Foreign { path, found });
        }
        fchown(open, Some(self.uid.as_raw()), Some(self.gid.as_raw())).map_err(giving(path))
    }
}

fn open(path: &Path, flags: OFlag) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
}

fn giving(path: &Path) -> impl Fn(io::Error) -> AccountError {
    let path = path.to_owned();
    move |source| AccountError::Give {
        path: path.clone(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::Account;
    use crate::durable::{self, Mode};
    use crate::paths::Paths;
    use nix::unistd::geteuid;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};
    use std::path::Path;

    fn owner(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().uid()
    }

    /// Root hands over what is in the folder, and nothing that it only points to.
    #[test]
    fn a_folder_is_handed_over_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        let (victim, twin) = (folder.path().join("victim"), folder.path().join("twin"));
        let account = Account::named("65534").unwrap();
        for file in [&victim, &twin] {
            durable::replace_file(file, b"root's", Mode::Private).unwrap();
        }
        durable::create_folder(&paths.state(), 0o700).unwrap();
        durable::replace_file(&paths.session(), b"{}", Mode::Readable).unwrap();
        symlink(&victim, paths.state().join("link")).unwrap();
        fs::hard_link(&twin, paths.state().join("twin")).unwrap();
        account.prepare(&paths).unwrap();
        // Whoever is not root has nobody to hand anything to.
        let expected = if geteuid().is_root() {
            65_534
        } else {
            geteuid().as_raw()
        };
        assert_eq!(owner(&paths.state()), expected);
        assert_eq!(owner(&paths.session()), expected);
        assert_eq!(
            (owner(&victim), owner(&twin)),
            (geteuid().as_raw(), geteuid().as_raw())
        );
        account.prepare(&paths).unwrap();
        // And root reads neither: what they hold is not the node's.
        let foreign = durable::read_unlinked(&paths.state().join("twin"), 64);
        assert_eq!(foreign.is_err(), geteuid().is_root());
        assert!(durable::read_unlinked(&paths.state().join("link"), 64).is_err());
        assert!(durable::read_unlinked(&paths.session(), 64).is_ok());
    }

    #[test]
    fn a_folder_that_is_a_link_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths::new(folder.path());
        let elsewhere = tempfile::tempdir().unwrap();
        symlink(elsewhere.path(), paths.state()).unwrap();
        let prepared = Account::named("65534").unwrap().prepare(&paths);
        assert_eq!(prepared.is_err(), geteuid().is_root());
        assert_eq!(owner(elsewhere.path()), geteuid().as_raw());
    }

    #[test]
    fn a_user_that_nobody_knows_is_named() {
        let error = Account::named("no such user").unwrap_err();
        assert!(error.to_string().contains("no such user"), "{error}");
        assert_eq!(Account::named("4000000").unwrap().uid.as_raw(), 4_000_000);
    }
}
