//! Builds with one deliberate mistake each: whoever watches must notice every one.

use std::path::Path;

use anyhow::Result;

use super::{Extent, Figures, cuts, explore, ext4, helper, race, rot, trace, yard::Yard};

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

/// The mistakes that are looked for through the helper: its own, and those that a node's own steps show too.
const HELPER_WORDS: [&str; 7] = [
    "any-user",
    "path-for-descriptor",
    "hash-then-copy",
    "descriptor-kept",
    "answer-first",
    "no-floor",
    "confirm-any",
];

/// Tries each; gives how many there are, and those that nobody noticed.
pub(super) fn run(
    bcd: &Path,
    folder: &Path,
    tell: &dyn Fn(&str),
) -> Result<(usize, Vec<&'static str>)> {
    let (can_stop, can_cut) = (trace::is_there()?, ext4::is_possible()?);
    let mut tried = 0;
    let mut missed = Vec::new();
    for word in HELPER_WORDS {
        let yard = Yard::new(bcd, &folder.join(format!("helper-{word}")), Some(word))?;
        tried += 1;
        match first_by_helper(&yard, bcd, word)? {
            Some(problem) => tell(&format!("{word}, by the helper: {problem}")),
            None => missed.push(word),
        }
        std::fs::remove_dir_all(&yard.folder)?;
    }
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

fn first_by_helper(yard: &Yard, bcd: &Path, word: &'static str) -> Result<Option<String>> {
    if let Some(problem) = race::loses(yard, bcd, word)? {
        return Ok(Some(problem));
    }
    Ok(helper::run(yard)?.violations.into_iter().next())
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
