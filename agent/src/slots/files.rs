//! The slots on the disk.
//!
//! Takes the record's word for which slot is spare, and writes no other. A binary gets its name when it is complete, on
//! the disk, and has the digest that was signed; what ran before keeps its bytes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use bc_protocol::digest::Sha256;
use bc_protocol::limits::{ARTIFACT_BYTES_MAX, PUBLISHED_BYTES_MAX};
use bc_protocol::session::Slot;

use crate::content::{self, Content, Seen, Stamp, content_of};
use crate::durable::{self, Mode};
use crate::paths::Paths;

/// How a download is named until it is complete.
const PARTIAL: &str = "bcd.partial";

/// Where the download keeps what it needs to go on.
const PARTIAL_ORIGIN: &str = "bcd.partial.origin";

/// The bits that everybody's right to execute has.
const EXECUTABLE: u32 = 0o111;

/// Both slots of one node.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    paths: Paths,
}

/// A binary that was put into its slot.
#[derive(Debug)]
pub(crate) struct Put {
    /// The stamp of the file in its place; none where it is not the one that was seen.
    pub(crate) stamp: Option<Stamp>,
    /// What lay there before. To forget a large file takes the kernel milliseconds, which begin when this is dropped.
    pub(crate) replaced: Option<File>,
}

impl Slots {
    pub(crate) fn new(paths: Paths) -> Self {
        Self { paths }
    }

    /// Makes both folders.
    pub(crate) fn create(&self) -> io::Result<()> {
        for slot in [Slot::A, Slot::B] {
            durable::create_folder(&self.paths.slot(slot), 0o755)?;
        }
        Ok(())
    }

    /// What the slot's binary is. It is read whole.
    pub(crate) fn content(&self, slot: Slot) -> io::Result<Content> {
        content_of(&mut self.open(slot)?)
    }

    /// Opens the slot's binary to read it whole.
    pub(crate) fn open(&self, slot: Slot) -> io::Result<File> {
        let binary = durable::open_unlinked(&self.paths.slot_binary(slot))?;
        let size = binary.metadata()?.len();
        if size > ARTIFACT_BYTES_MAX {
            // No release is that large, and a start must not wait until a giant has been read.
            let problem = format!("expected at most {ARTIFACT_BYTES_MAX} bytes, found {size}");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
        }
        Ok(binary)
    }

    /// Whether the slot's binary has that digest.
    pub(crate) fn holds(&self, slot: Slot, digest: Sha256) -> bool {
        match self.content(slot) {
            Ok(content) => content.digest == digest,
            Err(error) => {
                tracing::debug!(%slot, %error, "the slot's binary cannot be read");
                false
            }
        }
    }

    /// Gives the slot's binary its mode back where it cannot be executed. Its bytes stay as they are.
    pub(crate) fn mend_mode(&self, slot: Slot) -> io::Result<()> {
        let binary = durable::open_unlinked(&self.paths.slot_binary(slot))?;
        let mode = binary.metadata()?.permissions().mode();
        if mode & EXECUTABLE == EXECUTABLE {
            return Ok(());
        }
        tracing::warn!(%slot, "the slot's binary was not executable: it is again");
        durable::set_mode(&binary, Mode::Executable)
    }

    /// Whether the slot's binary has that size; cheap enough to ask before [`Self::holds`].
    pub(crate) fn has_size(&self, slot: Slot, size: u64) -> bool {
        fs::symlink_metadata(self.paths.slot_binary(slot))
            .is_ok_and(|found| found.is_file() && found.len() == size)
    }

    /// The slot's published manifest; none where the package's own binary lies.
    pub(crate) fn published(&self, slot: Slot) -> Option<Vec<u8>> {
        durable::read_unlinked(&self.paths.slot_release(slot), PUBLISHED_BYTES_MAX as u64)
            .ok()
            .flatten()
    }

    /// The same, if it was put there after the binary was.
    pub(crate) fn published_since(&self, slot: Slot) -> Option<Vec<u8>> {
        let changed = |path: PathBuf| {
            let found = fs::symlink_metadata(path).ok()?;
            Some((found.ctime(), found.ctime_nsec()))
        };
        let (binary, release) = (
            changed(self.paths.slot_binary(slot))?,
            changed(self.paths.slot_release(slot))?,
        );
        self.published(slot).filter(|_| binary <= release)
    }

    /// Where a download for the spare slot gathers. One that was begun for the other slot is removed, so that no two ever
    /// lie here.
    pub(crate) fn partial(&self, spare: Slot) -> io::Result<PathBuf> {
        self.remove_download(spare.other())?;
        Ok(self.partial_path(spare))
    }

    /// Gives a finished download its place: `download` is the open file at [`Self::partial`]. Its bytes are on the disk
    /// afterwards; its name is once [`Self::keep_published`] is done.
    pub(crate) fn install(&self, spare: Slot, download: &Seen) -> io::Result<Put> {
        let (partial, binary) = (self.partial_path(spare), self.paths.slot_binary(spare));
        let replaced = durable::open_unlinked(&binary).ok();
        let file = download.file();
        let put = durable::put_bytes_in_place(&partial, file, &binary, Mode::Executable);
        // After a failure nobody knows which of its bytes are on the disk: it is not to be built upon.
        self.remove_download(spare)?;
        put?;
        let stamp = Stamp::of(&file.metadata()?);
        let is_the_one = stamp.is_same_bytes(download.stamp()) && self.is_untouched(spare, stamp);
        Ok(Put {
            stamp: is_the_one.then_some(stamp),
            replaced,
        })
    }

    /// Whether the slot's binary is the file of that stamp, and nobody has touched it since.
    pub(crate) fn is_untouched(&self, slot: Slot, stamp: Stamp) -> bool {
        fs::symlink_metadata(self.paths.slot_binary(slot))
            .is_ok_and(|found| found.is_file() && Stamp::of(&found) == stamp)
    }

    /// Copies a binary into the slot; the copy's digest is what is returned.
    pub(crate) fn install_copy(&self, spare: Slot, binary: &File) -> io::Result<Sha256> {
        let path = self.paths.slot_binary(spare);
        let staged = durable::staging_name(&path)?;
        let mut copy = durable::create_new(&staged)?;
        let content = content::copy(binary, &mut copy)?;
        durable::put_in_place(&staged, &copy, &path, Mode::Executable)?;
        Ok(content.digest)
    }

    /// Keeps the published manifest beside the binary, and sees both names to the disk.
    pub(crate) fn keep_published(&self, spare: Slot, published: &[u8]) -> io::Result<()> {
        let release = self.paths.slot_release(spare);
        if self.published(spare).as_deref() == Some(published) {
            return durable::sync_folder_of(&release);
        }
        durable::replace_file(&release, published, Mode::Readable)
    }

    /// Points the link for people and tools to the slot that runs.
    pub(crate) fn point_current(&self, slot: Slot) -> io::Result<()> {
        let target = Path::new("slots").join(slot.name());
        let link = self.paths.current();
        if fs::read_link(&link).is_ok_and(|found| found == target) {
            return Ok(());
        }
        durable::replace_link(&link, &target)
    }

    fn partial_path(&self, spare: Slot) -> PathBuf {
        self.paths.slot(spare).join(PARTIAL)
    }

    /// Removes a download and what is known of where it came from.
    fn remove_download(&self, slot: Slot) -> io::Result<()> {
        durable::remove_if_there(&self.partial_path(slot))?;
        durable::remove_if_there(&self.paths.slot(slot).join(PARTIAL_ORIGIN))
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;
    use crate::content::Seen;
    use crate::paths::Paths;
    use bc_protocol::digest::Sha256;
    use bc_protocol::session::Slot;
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    fn slots(folder: &tempfile::TempDir) -> (Slots, Paths) {
        let paths = Paths::new(folder.path());
        let slots = Slots::new(paths.clone());
        slots.create().unwrap();
        (slots, paths)
    }

    #[test]
    fn a_finished_download_becomes_the_binary_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, paths) = slots(&folder);
        let digest = Sha256::of(b"binary");
        let partial = slots.partial(Slot::B).unwrap();
        File::create(&partial)
            .unwrap()
            .write_all(b"binary")
            .unwrap();
        File::create(partial.with_file_name("bcd.partial.origin")).unwrap();
        let download = Seen::reading(File::open(&partial).unwrap()).unwrap();
        let stamp = slots.install(Slot::B, &download).unwrap().stamp.unwrap();
        assert!(slots.is_untouched(Slot::B, stamp));
        assert!(slots.holds(Slot::B, digest));
        let mode = fs::metadata(paths.slot_binary(Slot::B)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_dir(paths.slot(Slot::B)).unwrap().count(), 1);
    }

    #[test]
    fn another_file_in_the_downloads_place_is_not_the_one_that_was_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, _) = slots(&folder);
        let partial = slots.partial(Slot::B).unwrap();
        File::create(&partial).unwrap().write_all(b"seen").unwrap();
        let download = Seen::reading(File::open(&partial).unwrap()).unwrap();
        fs::remove_file(&partial).unwrap();
        File::create(&partial).unwrap().write_all(b"late").unwrap();
        assert_eq!(slots.install(Slot::B, &download).unwrap().stamp, None);
    }

    #[test]
    fn a_binary_that_was_touched_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, paths) = slots(&folder);
        let partial = slots.partial(Slot::B).unwrap();
        File::create(&partial).unwrap().write_all(b"seen").unwrap();
        let mut late = File::options().write(true).open(&partial).unwrap();
        late.set_modified(std::time::UNIX_EPOCH).unwrap();
        let download = Seen::reading(File::open(&partial).unwrap()).unwrap();
        let stamp = slots.install(Slot::B, &download).unwrap().stamp.unwrap();
        late.write_all(b"late").unwrap();
        assert!(!slots.is_untouched(Slot::B, stamp));
        fs::remove_file(paths.slot_binary(Slot::B)).unwrap();
        assert!(!slots.is_untouched(Slot::B, stamp));
    }

    #[test]
    fn what_is_no_plain_file_holds_nothing_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, paths) = slots(&folder);
        let (binary, digest) = (paths.slot_binary(Slot::B), Sha256::of(b""));
        let good = folder.path().join("good");
        File::create(&good).unwrap();
        std::os::unix::fs::symlink(&good, &binary).unwrap();
        assert!(!slots.holds(Slot::B, digest), "a link");
        fs::remove_file(&binary).unwrap();
        nix::unistd::mkfifo(&binary, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!slots.holds(Slot::B, digest), "a pipe");
        fs::remove_file(&binary).unwrap();
        fs::create_dir(&binary).unwrap();
        assert!(!slots.holds(Slot::B, digest), "a folder");
        fs::remove_dir(&binary).unwrap();
        let giant = File::create(&binary).unwrap();
        giant.set_len(1 << 40).unwrap();
        assert!(!slots.holds(Slot::B, digest), "a giant");
        giant.set_len(0).unwrap();
        assert!(slots.holds(Slot::B, digest));
    }

    #[test]
    fn a_binary_that_lost_its_mode_is_executable_again() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, paths) = slots(&folder);
        let binary = paths.slot_binary(Slot::A);
        assert!(slots.mend_mode(Slot::A).is_err());
        File::create(&binary).unwrap();
        for lost in [0o644, 0o000, 0o711, 0o755] {
            fs::set_permissions(&binary, fs::Permissions::from_mode(lost)).unwrap();
            slots.mend_mode(Slot::A).unwrap();
            let mode = fs::metadata(&binary).unwrap().permissions().mode() & 0o7777;
            assert!(mode & 0o111 == 0o111, "{lost:o}: {mode:o}");
        }
    }

    #[test]
    fn only_one_download_ever_lies_here() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, paths) = slots(&folder);
        let left = |slot| fs::read_dir(paths.slot(slot)).unwrap().count();
        File::create(slots.partial(Slot::A).unwrap()).unwrap();
        File::create(slots.partial(Slot::B).unwrap()).unwrap();
        assert_eq!((left(Slot::A), left(Slot::B)), (0, 1));
        File::create(slots.partial(Slot::A).unwrap()).unwrap();
        assert_eq!((left(Slot::A), left(Slot::B)), (1, 0));
    }

    #[test]
    fn the_link_follows_the_record_from_whatever_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let (slots, paths) = slots(&folder);
        std::os::unix::fs::symlink("current", paths.current()).unwrap();
        for slot in [Slot::A, Slot::B] {
            slots.point_current(slot).unwrap();
            let target = fs::canonicalize(paths.current()).unwrap();
            assert_eq!(target, fs::canonicalize(paths.slot(slot)).unwrap());
        }
    }
}
