//! A small ext4 on a loop device, which can be cut off, filled, and made read-only.
//!
//! It commits nothing by itself; at a cut it is shut down without flushing its journal, and mounted again.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use nix::{errno::Errno, fcntl::posix_fallocate, sys::statvfs::statvfs};

use super::{passed_over, yard::copy};

/// Bytes of the disk: two slots, a download, a journal.
const DISK_BYTES: u64 = 16 << 20;

/// EXT4_IOC_SHUTDOWN with NOLOGFLUSH: as if the power went. Python knows how to call the kernel without unsafe code of
/// ours.
const CUT: &str = "import fcntl,os,struct,sys\n\
    fd=os.open(sys.argv[1],os.O_RDONLY)\n\
    fcntl.ioctl(fd,0x8004587d,struct.pack('I',2))";

/// Without the rename heuristics of ext4: a disk need not be so kind.
const OPTIONS: &str = "loop,commit=300,noauto_da_alloc";

/// Inodes of the disk: what a node needs, and some to use up.
const INODES: u32 = 128;

/// Whether disks can be made and mounted here; where everything is required, that they cannot is an error.
pub fn is_possible() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    match Disk::make(folder.path()).and_then(|disk| {
        disk.mount()?;
        disk.cut()
    }) {
        Ok(()) => Ok(true),
        Err(error) => passed_over("disks", &format!("{error:#}")),
    }
}

/// One such disk. It is unmounted when this goes.
#[derive(Debug)]
pub struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    fn make(folder: &Path) -> Result<Self> {
        Self::of(&folder.join("disk"), &folder.join("mounted"), DISK_BYTES)
    }

    /// A disk of that many bytes in the file `image`, to be mounted at `at`.
    pub fn of(image: &Path, at: &Path, bytes: u64) -> Result<Self> {
        let disk = Self {
            image: image.to_owned(),
            at: at.to_owned(),
        };
        fs::create_dir_all(&disk.at)?;
        File::create(&disk.image)?.set_len(bytes)?;
        call(
            Command::new("mkfs.ext4")
                // Nothing is kept back for root.
                .args(["-q", "-F", "-m", "0", "-N", &INODES.to_string()])
                .arg(&disk.image),
        )?;
        Ok(disk)
    }

    /// Mounts it.
    pub fn mount(&self) -> Result<()> {
        call(
            Command::new("mount")
                .args(["-o", OPTIONS])
                .args([&self.image, &self.at]),
        )
    }

    pub(super) fn unmount(&self) -> Result<()> {
        call(Command::new("umount").arg(&self.at))
    }

    /// The power goes, and comes back.
    pub(super) fn cut(&self) -> Result<()> {
        self.shut_down()?;
        self.come_back()
    }

    /// The power goes. Nothing reaches the disk any more, whoever writes.
    pub fn shut_down(&self) -> Result<()> {
        call(Command::new("python3").args(["-c", CUT]).arg(&self.at))
    }

    /// The power comes back; nobody may have anything open there.
    pub fn come_back(&self) -> Result<()> {
        self.unmount()?;
        let next = self.image.with_extension("next");
        copy_image(&self.image, &next)?;
        fs::rename(&next, &self.image)?;
        self.mount()
    }

    /// Where a node's folder lies on it.
    pub(super) fn state(&self) -> PathBuf {
        self.at.join("node")
    }
}

impl Disk {
    /// Uses up all its bytes but that many.
    pub(super) fn fill_but(&self, bytes: u64) -> Result<()> {
        let filler = File::create(self.at.join("filler"))?;
        let free = statvfs(&self.at)?;
        let free = free.blocks_available() * free.fragment_size();
        let wanted = free.saturating_sub(bytes);
        if wanted == 0 {
            return Ok(());
        }
        // The file needs blocks for its own map too: less is good enough.
        let mut length = i64::try_from(wanted)?;
        while let Err(error) = posix_fallocate(&filler, 0, length) {
            ensure!(
                error == Errno::ENOSPC && length > 4096,
                "fill the disk: {error}"
            );
            length -= 4096;
        }
        filler.sync_all()?;
        Ok(())
    }

    /// Uses up all its inodes but that many.
    pub(super) fn populate_but(&self, inodes: usize) -> Result<()> {
        let folder = self.at.join("fillers");
        fs::create_dir(&folder)?;
        let mut made = Vec::new();
        loop {
            let path = folder.join(made.len().to_string());
            match File::create(&path) {
                Ok(_) => made.push(path),
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error.into()),
            }
        }
        for path in made.iter().take(inodes) {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// Gives back what was used up.
    pub(super) fn relieve(&self) -> Result<()> {
        let (file, folder) = (self.at.join("filler"), self.at.join("fillers"));
        if file.exists() {
            fs::remove_file(file)?;
        }
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        Ok(())
    }

    /// Takes away and gives back the right to write.
    pub(super) fn remount(&self, how: &str) -> Result<()> {
        call(
            Command::new("mount")
                .args(["-o", &format!("remount,{how}")])
                .arg(&self.at),
        )
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may not be mounted; if it is, its folder could not be removed.
        // Lazily: a process that was killed just now may still have it open.
        drop(call(Command::new("umount").arg("--lazy").arg(&self.at)));
    }
}

fn call(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{} ended with {}: {}",
        command.get_program().display(),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// An image of a disk with the folder on it, cleanly unmounted.
pub(super) fn fresh(folder: &Path, snapshot: &Path) -> Result<PathBuf> {
    let disk = Disk::make(folder)?;
    disk.mount()?;
    copy(snapshot, &disk.state())?;
    disk.unmount()?;
    let kept = folder.join("fresh");
    fs::rename(&disk.image, &kept)?;
    Ok(kept)
}

/// A mounted disk like that one.
pub(super) fn disk_of(folder: &Path, fresh: &Path) -> Result<Disk> {
    let disk = Disk {
        image: folder.join("disk"),
        at: folder.join("mounted"),
    };
    copy_image(fresh, &disk.image)?;
    disk.mount()?;
    Ok(disk)
}

/// Copies an image to a new file. A disk that something still has, a process that was killed or another one's mounts, lives
/// on behind its loop device; and a mount of the same file would be a mount of the same disk, shut down as it is.
fn copy_image(from: &Path, to: &Path) -> Result<()> {
    call(
        Command::new("cp")
            .args(["--sparse=always", "--remove-destination"])
            .args([from, to]),
    )
}
