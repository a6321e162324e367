//! The one way to change what must survive a power cut, and the only code that renames.
//!
//! Takes paths and bytes. After `Ok` the change is on the disk; after `Err`, and after a cut at any point, the old
//! bytes or the new ones are there, never a mix. A leftover is at most one file of a known name.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::libc;

use crate::faults::{Fault, planted};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Its owner alone.
    Private,
    /// Everybody.
    Readable,
    /// Everybody, and run it too.
    Executable,
}

impl Mode {
    fn bits(self) -> u32 {
        match self {
            Self::Private => 0o600,
            Self::Readable => 0o644,
            Self::Executable => 0o755,
        }
    }
}

/// Replaces the file at `path`. Two callers at once on one path need a lock of their own.
pub(crate) fn replace_file(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    Coming::begin(path, bytes)?.arrive(mode)
}

/// A file's new bytes, on their way to the disk beside it. What a file system writes for one file it writes for those that
/// are on their way too, so the second of two waits for little.
#[derive(Debug)]
pub(crate) struct Coming<'a> {
    path: &'a Path,
    staged: PathBuf,
    file: File,
}

impl<'a> Coming<'a> {
    /// Begins to replace the file at `path`, which stays as it is until [`Self::arrive`].
    pub(crate) fn begin(path: &'a Path, bytes: &[u8]) -> io::Result<Self> {
        if planted(Fault::InPlace) {
            File::create(path)?.write_all(bytes)?;
        }
        let staged = staging_name(path)?;
        let mut file = create_new(&staged)?;
        file.write_all(bytes)?;
        begin_writing(&file, 0, bytes.len() as u64);
        Ok(Self { path, staged, file })
    }

    /// The file that is being replaced.
    pub(crate) fn path(&self) -> &'a Path {
        self.path
    }

    /// Gives the bytes their name, and sees both to the disk.
    pub(crate) fn arrive(self, mode: Mode) -> io::Result<()> {
        put_in_place(&self.staged, &self.file, self.path, mode)
    }
}

/// The same, but for the name: a power cut may bring the old file back, whole, until [`sync_folder_of`].
pub(crate) fn replace_bytes(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let staged = staging_name(path)?;
    let mut file = create_new(&staged)?;
    file.write_all(bytes)?;
    put_bytes_in_place(&staged, &file, path, mode)
}

/// Replaces a small file that nothing rests on: after a power cut it may be gone, or nonsense.
pub(crate) fn replace_note(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let staged = staging_name(path)?;
    let mut file = create_new(&staged)?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode.bits()))?;
    rename_over(&staged, path)
}

/// Gives the finished file at `staged` the name `path`; both are in one folder. `file` is the open `staged`.
pub(crate) fn put_in_place(staged: &Path, file: &File, path: &Path, mode: Mode) -> io::Result<()> {
    put_bytes_in_place(staged, file, path, mode)?;
    // The rename itself is lost with the folder's page unless that is flushed too.
    sync_folder_of(path)
}

/// The same, but for the name, which a power cut may still take back: until [`sync_folder_of`].
pub(crate) fn put_bytes_in_place(
    staged: &Path,
    file: &File,
    path: &Path,
    mode: Mode,
) -> io::Result<()> {
    set_mode(file, mode)?;
    rename_over(staged, path)
}

/// Gives an open file its mode, and sees it to the disk with all that was written.
pub(crate) fn set_mode(file: &File, mode: Mode) -> io::Result<()> {
    // The mode is set on the file, not at its creation: the umask must have no say.
    file.set_permissions(Permissions::from_mode(mode.bits()))?;
    if planted(Fault::NoFsync) {
        return Ok(());
    }
    file.sync_all()
}

/// Replaces the link at `path` so that it points to `target`, which is never followed.
pub(crate) fn replace_link(path: &Path, target: &Path) -> io::Result<()> {
    let staged = staging_name(path)?;
    remove_if_there(&staged)?;
    symlink(target, &staged)?;
    rename_over(&staged, path)?;
    sync_folder_of(path)
}

/// A folder in a file's place would keep the file from its name for ever, and no code of ours makes one: it is set aside.
fn rename_over(staged: &Path, path: &Path) -> io::Result<()> {
    match fs::rename(staged, path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            set_aside(path)?;
            fs::rename(staged, path)
        }
        renamed => renamed,
    }
}

/// Moves a folder out of the way, to one known name beside it; what was set aside before goes.
fn set_aside(folder: &Path) -> io::Result<()> {
    let aside = hidden_name(folder, ".aside")?;
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    tracing::warn!(folder = %folder.display(), aside = %aside.display(), "a folder lies in a file's place: it is set aside");
    fs::rename(folder, aside)
}

/// Creates a file that nobody else has open: whatever lies at `path`, a link included, is gone first.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    match remove_if_there(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => set_aside(path)?,
        removed => removed?,
    }
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(Mode::Private.bits())
        .open(path)
}

/// Where a file lies until it is complete: one known name beside `path`, so that leftovers never add up.
pub(crate) fn staging_name(path: &Path) -> io::Result<PathBuf> {
    hidden_name(path, ".new")
}

fn hidden_name(path: &Path, ending: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(ending);
    Ok(path.with_file_name(hidden))
}

/// Removes the file at `path`; that there is none is as good.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The same, and a power cut does not bring it back.
pub(crate) fn remove_durably(path: &Path) -> io::Result<()> {
    if !path.try_exists()? {
        return Ok(());
    }
    remove_if_there(path)?;
    sync_folder_of(path)
}

/// Makes a folder and those above it, all durably and with this mode. A folder that was there keeps its own.
pub(crate) fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        create_folder(above, mode)?;
    }
    match fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {}
        // Somebody else was as quick.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        Err(error) => return Err(error),
    }
    // A unit's umask must have no say in who may execute what lies in a slot.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    sync_folder_of(path)
}

/// The file's bytes, or an error where it has more than `bytes_max`: whatever lies there must not fill the memory.
pub(crate) fn read_bounded(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_with(path, OFlag::empty(), bytes_max)
}

/// As [`read_bounded`], where others may write to the folder: a link in the file's place is an error, never followed.
/// None where there is no file.
pub(crate) fn read_unlinked(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    match read_with(path, OFlag::O_NOFOLLOW, bytes_max) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a plain file to read it; a link, a pipe or a folder in its place is an error, and never waited for.
pub(crate) fn open_unlinked(path: &Path) -> io::Result<File> {
    open_with(path, OFlag::O_NOFOLLOW)
}

fn open_with(path: &Path, flags: OFlag) -> io::Result<File> {
    // Not blocking, in case somebody put a pipe there: opening it would wait for a writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags((flags | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("expected a file, found something else"));
    }
    Ok(file)
}

fn read_with(path: &Path, flags: OFlag, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_with(path, flags)?;
    // Room for all of it and one to see its end: small files are read in one go.
    let expected = file.metadata()?.len().min(bytes_max).saturating_add(1);
    let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
    if flags.contains(OFlag::O_NOFOLLOW) {
        check_names(path, &file)?;
    }
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let problem = format!("expected at most {bytes_max} bytes, found more");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

/// A second name is a link too. Whoever owns the folder could have given it to a file that is somebody else's.
fn check_names(path: &Path, file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    if found.nlink() > 1 {
        let folder = folder_of(path)?;
        if fs::metadata(folder)?.uid() != found.uid() {
            let problem = "expected a file of the folder's owner, found another's";
            return Err(io::Error::other(problem));
        }
    }
    Ok(())
}

/// Sees the names in `path`'s folder to the disk.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    if planted(Fault::NoFolderFsync) {
        return Ok(());
    }
    File::open(folder_of(path)?)?.sync_all()
}

/// The folder that `path`'s name is in. One without a folder in front of it is in this process's own.
fn folder_of(path: &Path) -> io::Result<&Path> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    match folder.as_os_str().is_empty() {
        true => Ok(Path::new(".")),
        false => Ok(folder),
    }
}

/// Bytes of a large file after which the disk is told to begin.
const WRITE_BEHIND_BYTES: u64 = 4 << 20;

/// More than the kernel keeps in one piece of what is written as we write it.
const SETTLED_BYTES: u64 = 512 << 10;

/// How far the disk was told to write a large file that is still growing: what is left to wait for at its end is short.
/// It makes nothing durable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriteBehind {
    told: u64,
}

impl WriteBehind {
    /// The file has grown to that size.
    pub(crate) fn grown(&mut self, file: &File, size: u64) {
        // The piece that the next bytes go into is left alone: it would be written twice.
        let settled = size - size % SETTLED_BYTES;
        if settled.saturating_sub(self.told) >= WRITE_BEHIND_BYTES {
            begin_writing(file, self.told, settled - self.told);
            self.told = settled;
        }
    }
}

/// Tells the disk to begin with a part of a file, and waits for nothing. Whatever goes wrong, the fsync at the end says.
#[expect(
    unsafe_code,
    reason = "no crate in use wraps this call; it takes a descriptor and three numbers, and touches no memory"
)]
fn begin_writing(file: &File, from: u64, bytes: u64) {
    let (Ok(from), Ok(bytes)) = (from.try_into(), bytes.try_into()) else {
        return;
    };
    // SAFETY: the descriptor is open for as long as `file` is borrowed.
    let told = unsafe {
        libc::sync_file_range(file.as_raw_fd(), from, bytes, libc::SYNC_FILE_RANGE_WRITE)
    };
    if told != 0 {
        tracing::trace!("the disk cannot be told to begin");
    }
}

#[cfg(test)]
mod tests;
