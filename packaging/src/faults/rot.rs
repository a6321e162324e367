//! One copy of the record spoiled in every way, and the start after it.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use anyhow::{Context, Result};

use super::{
    Figures,
    checker::look,
    explore::Walk,
    script::BOOT,
    yard::{Exit, Yard, copy},
};

const COPIES: [&str; 2] = ["update.json", "update.json.1"];

/// What can have happened to a file.
#[derive(Clone, Copy, Debug)]
enum Rot {
    Missing,
    Empty,
    Zeroed,
    Truncated,
    /// A higher counter and no floor, under the old checksum.
    Forged,
    /// Restored from a backup, when the floor was lower.
    Old,
    Giant,
}

const ALL: [Rot; 7] = [
    Rot::Missing,
    Rot::Empty,
    Rot::Zeroed,
    Rot::Truncated,
    Rot::Forged,
    Rot::Old,
    Rot::Giant,
];

/// Spoils each copy in each way.
pub(super) fn run(yard: &Yard, walk: &Walk) -> Result<Figures> {
    let mut figures = Figures::default();
    let old = walk
        .steps
        .iter()
        .find(|(step, _)| step.name == "confirm again")
        .context("no old record")?;
    let state = yard.folder.join("rotten");
    for name in COPIES {
        for rot in ALL {
            copy(&walk.last, &state)?;
            let before = look(&state)?;
            spoil(&state.join(name), &old.1.join(name), rot)?;
            let done = yard.run(&state, &BOOT, &[])? == Exit::Done;
            let after = look(&state)?;
            let mut wrong = after.moved_from(&before, &BOOT);
            wrong.extend(after.copies_agree().err());
            if !done {
                wrong.push("I12: bcd boot fails".to_owned());
            }
            if !after.stands_as(&before) {
                wrong.push("I2: the node stands otherwise than before".to_owned());
            }
            let wrong = wrong
                .into_iter()
                .map(|problem| format!("{name} {rot:?}: {problem}"));
            figures.count("rotten copies", wrong.collect());
        }
    }
    Ok(figures)
}

fn spoil(path: &Path, old: &Path, rot: Rot) -> Result<()> {
    let bytes = fs::read(path)?;
    let text = String::from_utf8(bytes)?;
    let length = text.len();
    let bytes = match rot {
        Rot::Missing => return Ok(fs::remove_file(path)?),
        Rot::Giant => return Ok(File::create(path)?.set_len(1 << 30)?),
        Rot::Empty => Vec::new(),
        Rot::Zeroed => vec![0; length],
        Rot::Truncated => text.into_bytes().into_iter().take(length / 2).collect(),
        Rot::Forged => text
            .replace("\"counter\":", "\"counter\":9")
            .replace("\"floor\":2", "\"floor\":0")
            .into_bytes(),
        Rot::Old => fs::read(old)?,
    };
    Ok(File::create(path)?.write_all(&bytes)?)
}
