//! Files of keys, manifests and artifacts.
//!
//! Takes paths, gives their content within its limits, or writes so that a power cut leaves the old bytes or the new
//! ones. Never overwrites a key.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bc_protocol::digest::Sha256;
use bc_protocol::limits::{ARTIFACT_BYTES_MAX, PUBLISHED_BYTES_MAX};
use bc_protocol::release::PublicKey;
use bc_protocol::release::sign::SigningKey;
use zeroize::Zeroizing;

use super::failure::Failure;

/// What a folder's manifest is called.
pub(super) const MANIFEST_NAME: &str = "manifest.json";

/// A manifest, whether it is named itself or by the folder that it lies in.
pub(super) fn manifest_at(path: PathBuf) -> PathBuf {
    if path.is_dir() {
        path.join(MANIFEST_NAME)
    } else {
        path
    }
}

/// Says that others than its owner can read a private key, if they can.
pub(super) fn warn_of_readers(key: &Path, out: &mut dyn Write) -> io::Result<()> {
    let mode = fs::metadata(key).map_or(0, |found| found.permissions().mode() & 0o777);
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let shown = key.display();
    writeln!(
        out,
        "warning: others can read {shown} (mode {mode:03o}): chmod 600 {shown}"
    )
}

/// Reads a published manifest: one byte more than it may have is enough to see that it has too many.
pub(super) fn read_published(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = || Failure::file("read", path);
    let mut published = Vec::new();
    let bound = u64::try_from(PUBLISHED_BYTES_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    File::open(path)
        .map_err(failed())?
        .take(bound)
        .read_to_end(&mut published)
        .map_err(failed())?;
    Ok(published)
}

/// Reads a private key; its text is overwritten in memory.
pub(super) fn read_signing_key(path: &Path) -> Result<SigningKey, Failure> {
    let pem = read_pem(path)?;
    SigningKey::from_pem(&pem).map_err(|source| Failure::Key {
        path: path.to_owned(),
        source,
    })
}

/// Reads a public key.
pub(super) fn read_public_key(path: &Path) -> Result<PublicKey, Failure> {
    let pem = read_pem(path)?;
    PublicKey::from_pem(&pem).map_err(|source| Failure::PublicKey {
        path: path.to_owned(),
        source,
    })
}

fn read_pem(path: &Path) -> Result<Zeroizing<String>, Failure> {
    /// A P-256 key in PEM has about 240 bytes; comments around it are somebody's, but not many kilobytes.
    const PEM_BYTES_MAX: u64 = 16 << 10;
    let failed = || Failure::file("read", path);
    let mut pem = Zeroizing::new(String::new());
    File::open(path)
        .map_err(failed())?
        .take(PEM_BYTES_MAX)
        .read_to_string(&mut pem)
        .map_err(failed())?;
    Ok(pem)
}

/// The digest and size of a file, read in pieces and no further than an artifact may go.
pub(super) fn measure(path: &Path) -> Result<(Sha256, u64), Failure> {
    let failed = || Failure::file("read", path);
    let mut file = File::open(path)
        .map_err(failed())?
        .take(ARTIFACT_BYTES_MAX.saturating_add(1));
    let mut digest = DigestWriter {
        hasher: Sha256::hasher(),
    };
    let size = io::copy(&mut file, &mut digest).map_err(failed())?;
    Ok((digest.hasher.finish(), size))
}

struct DigestWriter {
    hasher: bc_protocol::digest::Sha256Hasher,
}

impl Write for DigestWriter {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        self.hasher.update(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How a manifest's name begins while it is being written. A killed signer leaves one behind, and the next must not take
/// it for a file of the release.
pub(super) const STAGED_PREFIX: &str = ".manifest.json.";

/// Replaces `path` so that a power cut leaves the old bytes or the new ones, never a mix.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    replace_durably(path, bytes).map_err(Failure::file("write", path))
}

fn replace_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = folder_of(path);
    // A manifest is public; the umask has the last word.
    let mut staged = tempfile::Builder::new()
        .prefix(STAGED_PREFIX)
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(&folder)?;
    staged.write_all(bytes)?;
    staged.as_file().sync_all()?;
    staged.persist(path)?;
    sync_folder(&folder)
}

/// A file that did not exist before, and is gone again unless it is kept.
pub(super) struct NewFile {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl NewFile {
    /// Makes the file with those permissions, if there is none of that name.
    pub(super) fn create(path: PathBuf, mode: u32) -> Result<Self, Failure> {
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path);
        match made {
            Ok(file) => Ok(Self {
                path,
                file,
                kept: false,
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::Exists { path })
            }
            Err(source) => Err(Failure::File {
                verb: "create",
                path,
                source,
            }),
        }
    }

    /// Fills it, durably.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.file
            .write_all(bytes)
            .and_then(|()| self.file.sync_all())
            .and_then(|()| sync_folder(&folder_of(&self.path)))
            .map_err(Failure::file("write", &self.path))
    }

    /// From here on it stays.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: a half-written key is of no use to anybody, and says so when it is read.
            let _gone = fs::remove_file(&self.path);
        }
    }
}

/// The folder that a path lies in: a bare file name lies in the current one.
pub(super) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// A rename or a new name is lost with the folder's page unless that is flushed too.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
