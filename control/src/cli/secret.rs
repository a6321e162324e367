//! Tokens on this machine.
//!
//! Takes bearer tokens from files and hands them to files that only their owner reads. Never shows one in a debug
//! print, and never leaves half of one behind.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use tempfile::NamedTempFile;
use zeroize::Zeroizing;

use super::limits::TOKEN_BYTES_MAX;

/// A bearer token.
#[derive(Clone)]
pub(super) struct Secret(Zeroizing<String>);

impl Secret {
    /// Without the white space around it, which no token has but every file and paste.
    pub(super) fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.trim().to_owned()))
    }

    /// The token itself, for the one who sends it.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Reads a file that holds a token and nothing else.
    pub(super) fn read(path: &Path) -> io::Result<Self> {
        let mut text = Zeroizing::new(String::new());
        File::open(path)?
            .take(TOKEN_BYTES_MAX)
            .read_to_string(&mut text)?;
        Ok(Self::new(&text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A file that will hold what only its owner may read. It is opened before the secret exists: a folder that cannot be
/// written to must not cost a token that is shown only once.
#[derive(Debug)]
pub(super) struct PrivateFile {
    path: PathBuf,
    staged: NamedTempFile,
}

impl PrivateFile {
    /// Makes room for `path`. The temporary file is readable by its owner only.
    pub(super) fn prepare(path: &Path) -> io::Result<Self> {
        let staged = NamedTempFile::new_in(folder(path))?;
        Ok(Self {
            path: path.to_owned(),
            staged,
        })
    }

    /// Replaces the file so that a power cut leaves the old bytes or the new ones, never a mix.
    pub(super) fn write(mut self, bytes: &[u8]) -> io::Result<()> {
        self.staged.write_all(bytes)?;
        self.staged.as_file().sync_all()?;
        self.staged.persist(&self.path)?;
        sync_folder_of(&self.path)
    }

    /// As [`write`](Self::write), and never over a file that somebody else has put there meanwhile.
    pub(super) fn write_new(mut self, bytes: &[u8]) -> io::Result<()> {
        self.staged.write_all(bytes)?;
        self.staged.as_file().sync_all()?;
        self.staged.persist_noclobber(&self.path)?;
        sync_folder_of(&self.path)
    }
}

/// The rename itself is lost with the folder's page unless that is flushed too.
fn sync_folder_of(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// The folder of a file that may be named without one.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_loses_the_white_space_around_it_and_shows_in_no_debug_print() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        PrivateFile::prepare(&path)
            .unwrap()
            .write(b"  bct_secret\n")
            .unwrap();
        let secret = Secret::read(&path).unwrap();
        assert_eq!(secret.expose(), "bct_secret");
        assert_eq!(format!("{secret:?}"), "Secret(…)");
    }

    #[test]
    fn a_private_file_is_its_owners_alone_even_where_it_replaces_an_open_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::File::create(&path)
            .unwrap()
            .set_permissions(std::fs::Permissions::from_mode(0o644))
            .unwrap();
        PrivateFile::prepare(&path).unwrap().write(b"x").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_new_file_replaces_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let (first, second) = (PrivateFile::prepare(&path), PrivateFile::prepare(&path));
        first.unwrap().write_new(b"first").unwrap();
        let refused = second.unwrap().write_new(b"second").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(Secret::read(&path).unwrap().expose(), "first");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn nothing_stays_behind_where_nothing_was_written() {
        let folder = tempfile::tempdir().unwrap();
        drop(PrivateFile::prepare(&folder.path().join("token")).unwrap());
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }
}
