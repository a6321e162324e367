//! Builds with one deliberate mistake each: whoever watches must notice every one.

use std::path::Path;

use anyhow::Result;

use super::{Extent, Figures, cuts, explore, rot, trace, yard::Yard};

/// The mistakes that are about a node's folder, by the words that the agent knows them by.
const WORDS: [&str; 20] = [
    "no-fsync",
    "no-folder-fsync",
    "in-place",
    "one-copy",
    "no-healing",
    "first-copy",
    "no-checksum",
    "floor-before-welcome",
    "confirm-in-two",
    "confirm-any",
    "floor-forgotten",
    "no-floor",
    "start-not-counted",
    "endless-starts",
    "no-digest",
    "install-first",
    "manifest-forgotten",
    "wrong-slot",
    "blind-boot",
    "no-watchdog",
];

/// Tries each; gives how many there are, and those that nobody noticed.
pub(super) fn run(
    bcd: &Path,
    folder: &Path,
    tell: &dyn Fn(&str),
) -> Result<(usize, Vec<&'static str>)> {
    let (can_stop, can_cut) = (trace::is_there()?, cuts::are_possible()?);
    let mut tried = 0;
    let mut missed = Vec::new();
    for word in WORDS {
        let yard = Yard::new(bcd, &folder.join(word), Some(word))?;
        let needs_cuts = word.ends_with("fsync");
        if needs_cuts && !(can_stop && can_cut) {
            continue;
        }
        tried += 1;
        let found = first_violation(&yard, can_stop, needs_cuts)?;
        match found {
            Some(problem) => tell(&format!("{word}: {problem}")),
            None => missed.push(word),
        }
        // What it left is of no further use, and there are many.
        std::fs::remove_dir_all(&yard.folder)?;
    }
    Ok((tried, missed))
}

fn first_violation(yard: &Yard, can_stop: bool, can_cut: bool) -> Result<Option<String>> {
    let walk = explore::walk(yard)?;
    let first = |figures: Figures| figures.violations.into_iter().next();
    if let Some(problem) = first(walk.figures.clone()) {
        return Ok(Some(problem));
    }
    if let Some(problem) = first(rot::run(yard, &walk)?) {
        return Ok(Some(problem));
    }
    if can_cut {
        return Ok(first(cuts::run(yard, &walk, Extent::Short)?));
    }
    if can_stop {
        return Ok(first(explore::kills(yard, &walk, Extent::Short)?));
    }
    Ok(None)
}
