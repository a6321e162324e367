//! Power cuts: the disk forgets whatever was not flushed to it.
//!
//! A small ext4 on a loop device that commits nothing by itself; at the cut it is shut down without flushing its
//! journal, and mounted again. A missing flush of a folder shows only where a step had said that it was done.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};

use super::{
    Extent, Figures,
    checker::{self, look},
    explore::{Walk, after_stop, recovered},
    passed_over,
    script::Step,
    trace,
    yard::{Exit, Yard, copy},
};

/// Bytes of the disk: two slots, a download, a journal.
const DISK_BYTES: u64 = 16 << 20;

/// EXT4_IOC_SHUTDOWN with NOLOGFLUSH: as if the power went. Python knows how to call the kernel without unsafe code of
/// ours.
const CUT: &str = "import fcntl,os,struct,sys\n\
    fd=os.open(sys.argv[1],os.O_RDONLY)\n\
    fcntl.ioctl(fd,0x8004587d,struct.pack('I',2))";

/// Without the rename heuristics of ext4: a disk need not be so kind.
const OPTIONS: &str = "loop,commit=300,noauto_da_alloc";

/// Whether disks can be made and mounted here.
pub(super) fn are_possible() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    match Disk::make(folder.path()).and_then(|disk| {
        disk.mount()?;
        disk.cut()
    }) {
        Ok(()) => Ok(true),
        Err(error) => passed_over("power cuts", &format!("{error:#}")),
    }
}

struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    fn make(folder: &Path) -> Result<Self> {
        let disk = Self {
            image: folder.join("disk"),
            at: folder.join("mounted"),
        };
        fs::create_dir_all(&disk.at)?;
        File::create(&disk.image)?.set_len(DISK_BYTES)?;
        call(
            Command::new("mkfs.ext4")
                .args(["-q", "-F"])
                .arg(&disk.image),
        )?;
        Ok(disk)
    }

    fn mount(&self) -> Result<()> {
        call(
            Command::new("mount")
                .args(["-o", OPTIONS])
                .args([&self.image, &self.at]),
        )
    }

    fn unmount(&self) -> Result<()> {
        call(Command::new("umount").arg(&self.at))
    }

    /// The power goes, and comes back.
    fn cut(&self) -> Result<()> {
        call(Command::new("python3").args(["-c", CUT]).arg(&self.at))?;
        self.unmount()?;
        self.mount()
    }

    fn state(&self) -> PathBuf {
        self.at.join("node")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // It may not be mounted; if it is, its folder could not be removed.
        drop(self.unmount());
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

/// Cuts every explored step off: after its end, and at its calls that change something.
pub(super) fn run(yard: &Yard, walk: &Walk, extent: Extent) -> Result<Figures> {
    let every = match extent {
        Extent::Short => 2,
        Extent::Full => 1,
    };
    let mut figures = Figures::default();
    for (step, snapshot) in walk.steps.iter().filter(|(step, _)| step.explored) {
        let traced = yard.folder.join("traced");
        copy(snapshot, &traced)?;
        let calls = trace::calls(yard, &traced, step)?;
        let folder = yard.folder.join("cut");
        fs::create_dir_all(&folder)?;
        let fresh = fresh(&folder, snapshot)?;
        let end = acknowledged(yard, &disk_of(&folder, &fresh)?, step)?;
        figures.count("cuts after the end", named(step, "after its end", end));
        for call in calls.iter().filter(|call| call.changes).step_by(every) {
            let disk = disk_of(&folder, &fresh)?;
            let before = look(&disk.state())?;
            let exit = yard.run(&disk.state(), step, &call.injected("signal=KILL"))?;
            disk.cut()?;
            let after = look(&disk.state())?;
            // Right behind a call that nobody had counted, it may have ended: that is another test.
            let exit = if exit == Exit::Done {
                Exit::Killed
            } else {
                exit
            };
            let mut wrong = after_stop(yard, step, exit, (&before, &after));
            wrong.extend(recovered(yard, &disk.state(), step, &before)?);
            let at = format!("at {} {}", call.name, call.number);
            figures.count("cuts", named(step, &at, wrong));
        }
    }
    Ok(figures)
}

/// Acknowledged, then cut: what was said to be done is done.
fn acknowledged(yard: &Yard, disk: &Disk, step: &Step) -> Result<Vec<String>> {
    let before = look(&disk.state())?;
    let exit = yard.run(&disk.state(), step, &[])?;
    disk.cut()?;
    let after = look(&disk.state())?;
    let mut wrong = checker::after_end(step, exit == Exit::Done, (&before, &after), &yard.known);
    wrong.extend(recovered(yard, &disk.state(), step, &before)?);
    Ok(wrong)
}

fn named(step: &Step, how: &str, wrong: Vec<String>) -> Vec<String> {
    let name = step.name;
    wrong
        .into_iter()
        .map(|problem| format!("{name} (cut {how}): {problem}"))
        .collect()
}

/// An image of a disk with the folder on it, cleanly unmounted.
fn fresh(folder: &Path, snapshot: &Path) -> Result<PathBuf> {
    let disk = Disk::make(folder)?;
    disk.mount()?;
    copy(snapshot, &disk.state())?;
    disk.unmount()?;
    let kept = folder.join("fresh");
    fs::rename(&disk.image, &kept)?;
    Ok(kept)
}

/// A mounted disk like that one.
fn disk_of(folder: &Path, fresh: &Path) -> Result<Disk> {
    let disk = Disk {
        image: folder.join("disk"),
        at: folder.join("mounted"),
    };
    call(
        Command::new("cp")
            .arg("--sparse=always")
            .args([fresh, disk.image.as_path()]),
    )?;
    disk.mount()?;
    Ok(disk)
}
