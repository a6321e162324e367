//! Disks that are full, by bytes or by inodes, or cannot be written: what a step leaves there, and after there is room.

use std::fs;

use anyhow::Result;

use super::{
    Extent, Figures,
    checker::look,
    explore::{Walk, after_stop, recovered},
    ext4::{Disk, disk_of, fresh},
    script::Step,
    yard::{Exit, Yard},
};

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug)]
enum Lack {
    /// So many bytes are left.
    Bytes(u64),
    /// So many inodes are left.
    Inodes(usize),
    /// Nothing can be written.
    ReadOnly,
}

/// Bytes left, in the short form: nothing, a copy of the record, half a binary, one.
const LEFT_SHORT: [u64; 4] = [0, 8 << 10, 72 << 10, 160 << 10];

/// Bytes left, in the full form: up to two binaries and everything beside them.
const LEFT_MAX: u64 = 360 << 10;

/// Runs every explored step on every such disk.
pub(super) fn run(yard: &Yard, walk: &Walk, extent: Extent) -> Result<Figures> {
    let mut figures = Figures::default();
    for (step, snapshot) in walk.steps.iter().filter(|(step, _)| step.explored) {
        let folder = yard.folder.join("full");
        fs::create_dir_all(&folder)?;
        let fresh = fresh(&folder, snapshot)?;
        for lack in lacks(extent) {
            let disk = disk_of(&folder, &fresh)?;
            let wrong = on(yard, &disk, step, lack)?;
            let named = wrong
                .into_iter()
                .map(|problem| format!("{} ({lack:?} left): {problem}", step.name));
            figures.count("lacking disks", named.collect());
        }
    }
    Ok(figures)
}

fn lacks(extent: Extent) -> Vec<Lack> {
    let bytes: Vec<u64> = match extent {
        Extent::Short => LEFT_SHORT.to_vec(),
        Extent::Full => (0..LEFT_MAX).step_by(8 << 10).collect(),
    };
    let inodes = match extent {
        Extent::Short => 0..2,
        Extent::Full => 0..5,
    };
    let bytes = bytes.into_iter().map(Lack::Bytes);
    bytes
        .chain(inodes.map(Lack::Inodes))
        .chain([Lack::ReadOnly])
        .collect()
}

fn on(yard: &Yard, disk: &Disk, step: &Step, lack: Lack) -> Result<Vec<String>> {
    let state = disk.state();
    let before = look(&state)?;
    // The lock of a watchdog that runs is there from before.
    drop(yard.watchdog(&state, step)?);
    match lack {
        Lack::Bytes(bytes) => disk.fill_but(bytes)?,
        Lack::Inodes(inodes) => disk.populate_but(inodes)?,
        Lack::ReadOnly => disk.remount("ro")?,
    }
    let exit = yard.run(&state, step, &[])?;
    let after = look(&state)?;
    let mut wrong = after_stop(yard, step, exit, (&before, &after));
    // Where nothing has to be written, a node starts whatever the disk is like.
    let is_settled = step.act.is_a_start() && before.is_settled();
    if is_settled && exit != Exit::Done {
        wrong.push("I6: a node without a trial does not start".to_owned());
    }
    match lack {
        Lack::Bytes(_) | Lack::Inodes(_) => disk.relieve()?,
        Lack::ReadOnly => disk.remount("rw")?,
    }
    wrong.extend(recovered(yard, &state, step, &before)?);
    Ok(wrong)
}
