//! Files that must survive a power cut.
//!
//! Takes bytes, leaves the old file or the new one, never a mix, readable by the owner alone.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

/// Replaces `path`, or makes it, with mode 0600.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    // Temporary files are made with mode 0600, and renaming keeps that.
    let mut staged = tempfile::NamedTempFile::new_in(dir)?;
    staged.write_all(bytes)?;
    staged.as_file().sync_all()?;
    staged.persist(path)?;
    // The rename itself is lost with the folder's page unless that is flushed too.
    File::open(dir)?.sync_all()
}

/// The content of a file, or nothing where there is none.
pub(crate) fn read_if_present(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The mode of a file that others than its owner can read or write. What is no file, such as `/dev/null`, keeps nothing.
pub(crate) fn open_to_others(path: &Path) -> Option<u32> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let mode = found.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}
