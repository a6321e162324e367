//! What a file holds, by its bytes, and whether it still does.
//!
//! Takes open files. Bytes are read and hashed once, as they come by; afterwards the kernel's word that nobody has
//! touched the file stands for them, for as long as this process lives and no longer. Where that word is not to be had,
//! the file is read again.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use bc_protocol::digest::Sha256;

use crate::durable::WriteBehind;

/// Bytes of a file's beginning that are kept: enough to tell what it runs on.
pub(crate) const HEADER_BYTES: usize = 20;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 128 << 10;

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) size: u64,
    pub(crate) digest: Sha256,
    pub(crate) header: Vec<u8>,
}

/// What changes whenever a file's bytes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    bytes: (u64, u64, u64, i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of an open file, or of what lies at a path.
    pub(crate) fn of(file: &Metadata) -> Self {
        Self {
            bytes: (
                file.dev(),
                file.ino(),
                file.size(),
                file.mtime(),
                file.mtime_nsec(),
            ),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// Whether this is the same file with the same bytes, though its name or mode may be another.
    pub(crate) fn is_same_bytes(self, other: Self) -> bool {
        self.bytes == other.bytes
    }
}

/// An open file of which this process has seen every byte.
#[derive(Debug)]
pub(crate) struct Seen {
    file: File,
    content: Content,
    stamp: Stamp,
}

impl Seen {
    /// Reads a file.
    pub(crate) fn reading(mut file: File) -> io::Result<Self> {
        // Before the first byte: what is written meanwhile has to show.
        let stamp = Stamp::of(&file.metadata()?);
        let content = content_of(&mut file)?;
        Ok(Self {
            file,
            content,
            stamp,
        })
    }

    /// Takes a file that this process has just written, or read, from its first byte to its last.
    pub(crate) fn hashed(file: File, digest: Sha256) -> io::Result<Self> {
        let found = file.metadata()?;
        let mut header = Vec::with_capacity(HEADER_BYTES);
        let beginning = At { file: &file, at: 0 };
        beginning
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut header)?;
        let content = Content {
            size: found.size(),
            digest,
            header,
        };
        Ok(Self {
            stamp: Stamp::of(&found),
            file,
            content,
        })
    }

    /// The open file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// What it holds now: as it was seen, or, where somebody has touched it since, as it is read again.
    pub(crate) fn content(&mut self) -> io::Result<&Content> {
        let stamp = Stamp::of(&self.file.metadata()?);
        if stamp != self.stamp {
            self.content = content_of(&mut self.file)?;
            self.stamp = stamp;
        }
        Ok(&self.content)
    }

    /// The stamp of what [`Self::content`] told last.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }
}

/// What an open file holds, from its beginning.
pub(crate) fn content_of(file: &mut File) -> io::Result<Content> {
    file.seek(SeekFrom::Start(0))?;
    stream(file, |_, _| Ok(()))
}

/// Copies an open file, from its beginning, and tells what the copy holds.
pub(crate) fn copy(from: &File, to: &mut File) -> io::Result<Content> {
    copy_at_most(from, to, u64::MAX)
}

/// The same, and stops one byte beyond `size`: a file that grows meanwhile, or has no end, shows by that.
pub(crate) fn copy_at_most(from: &File, to: &mut File, size: u64) -> io::Result<Content> {
    // The position of a descriptor that was handed over is shared with whoever handed it over.
    let mut from = At { file: from, at: 0 }.take(size.saturating_add(1));
    let mut behind = WriteBehind::default();
    stream(&mut from, |piece, size| {
        to.write_all(piece)?;
        behind.grown(to, size);
        Ok(())
    })
}

struct At<'a> {
    file: &'a File,
    at: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at = self.at.saturating_add(read as u64);
        Ok(read)
    }
}

fn stream(
    from: &mut impl Read,
    mut keep: impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<Content> {
    let mut hasher = Sha256::hasher();
    let mut header = Vec::with_capacity(HEADER_BYTES);
    let mut size = 0_u64;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = chunk.get(..read).unwrap_or_default();
        hasher.update(piece);
        header.extend(piece.iter().take(HEADER_BYTES - header.len()));
        size = size.saturating_add(read as u64);
        keep(piece, size)?;
    }
    Ok(Content {
        size,
        digest: hasher.finish(),
        header,
    })
}

#[cfg(test)]
mod tests {
    use super::{Content, Seen, content_of, copy, copy_at_most};
    use bc_protocol::digest::Sha256;
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::path::Path;

    fn file(path: &Path, bytes: &[u8]) -> File {
        File::create(path).unwrap().write_all(bytes).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn what_was_written_is_what_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..700_000_u32).flat_map(u32::to_le_bytes).collect();
        let from = file(&folder.path().join("from"), &bytes);
        let path = folder.path().join("to");
        let mut to = File::create(&path).unwrap();
        let expected = Content {
            size: bytes.len() as u64,
            digest: Sha256::of(&bytes),
            header: bytes[..20].to_vec(),
        };
        assert_eq!(copy(&from, &mut to).unwrap(), expected);
        assert_eq!(
            content_of(&mut File::open(&path).unwrap()).unwrap(),
            expected
        );
        assert!(fs::read(&path).unwrap() == bytes);
        let hashed = Seen::hashed(File::open(&path).unwrap(), expected.digest);
        assert_eq!(*hashed.unwrap().content().unwrap(), expected);
    }

    #[test]
    fn a_copy_stops_one_byte_beyond() {
        let folder = tempfile::tempdir().unwrap();
        let from = file(&folder.path().join("from"), &[7; 300_000]);
        let mut to = File::create(folder.path().join("to")).unwrap();
        assert_eq!(copy_at_most(&from, &mut to, 1000).unwrap().size, 1001);
    }

    #[test]
    fn whoever_touches_the_file_has_it_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let signed = file(&path, b"signed");
        // The same length, through another descriptor: only the times tell.
        let mut other = File::options().write(true).open(&path).unwrap();
        other.set_modified(std::time::UNIX_EPOCH).unwrap();
        let mut seen = Seen::reading(signed).unwrap();
        let before = seen.stamp();
        assert_eq!(seen.content().unwrap().digest, Sha256::of(b"signed"));
        other.write_all(b"forged").unwrap();
        assert_eq!(seen.content().unwrap().digest, Sha256::of(b"forged"));
        assert!(!before.is_same_bytes(seen.stamp()));
    }

    #[test]
    fn another_name_or_mode_leaves_the_bytes_as_they_are() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (path, name) = (folder.path().join("file"), folder.path().join("name"));
        let mut seen = Seen::reading(file(&path, b"signed")).unwrap();
        let before = seen.stamp();
        fs::rename(&path, &name).unwrap();
        fs::set_permissions(&name, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(seen.content().unwrap().digest, Sha256::of(b"signed"));
        assert!(before.is_same_bytes(seen.stamp()));
    }
}
