//! Power cuts: the disk forgets whatever was not flushed to it.
//!
//! Once at every place, twice in a row, and right behind every word that something is done: a missing flush of a folder
//! shows nowhere else.

use std::{fs, path::Path};

use anyhow::Result;
use rand::{SeedableRng as _, rngs::StdRng, seq::IteratorRandom as _};

use super::{
    Extent, Figures,
    checker::{self, look},
    explore::{Again, Walk, after_stop, recovered, recovered_by},
    ext4::{Disk, disk_of, fresh},
    helper::Helper,
    script::{BOOT, Step},
    trace::{self, Call},
    yard::{Exit, Yard, copy},
};

/// Pairs of cuts that the short form takes of every step.
const PAIRS_SHORT: usize = 3;

/// Pairs of cuts that the full form takes of every step: more would say the same.
const PAIRS_FULL: usize = 60;

/// What decides which pairs those are.
const SEED: u64 = 20;

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
        if !step.act.is_a_start() {
            let end = acknowledged_by_helper(yard, &disk_of(&folder, &fresh)?, step)?;
            figures.count(
                "cuts behind the helper's answer",
                named(step, "behind the helper's answer", end),
            );
        }
        let changing: Vec<&Call> = calls.iter().filter(|call| call.changes).collect();
        for (first, second) in pairs(yard, &changing, snapshot, extent)? {
            let disk = disk_of(&folder, &fresh)?;
            let wrong = twice(yard, &disk, step, (&first, &second))?;
            let at = format!(
                "at {} {}, and the start at {} {}",
                first.name, first.number, second.name, second.number
            );
            figures.count("pairs of cuts", named(step, &at, wrong));
        }
        let end = acknowledged(yard, &disk_of(&folder, &fresh)?, step)?;
        figures.count("cuts after the end", named(step, "after its end", end));
        for call in changing.into_iter().step_by(every) {
            let disk = disk_of(&folder, &fresh)?;
            let before = look(&disk.state())?;
            let exit = yard.run(&disk.state(), step, &call.injected("signal=KILL"))?;
            disk.cut()?;
            let after = look(&disk.state())?;
            let mut wrong = after_stop(yard, step, killed(exit), (&before, &after));
            wrong.extend(recovered(yard, &disk.state(), step, &before)?);
            let at = format!("at {} {}", call.name, call.number);
            figures.count("cuts", named(step, &at, wrong));
        }
        if yard.has_shown(&figures) {
            break;
        }
    }
    Ok(figures)
}

/// Two cuts in a row: of the step, and of the start that follows.
fn twice(
    yard: &Yard,
    disk: &Disk,
    step: &Step,
    (first, second): (&Call, &Call),
) -> Result<Vec<String>> {
    let before = look(&disk.state())?;
    let exit = yard.run(&disk.state(), step, &first.injected("signal=KILL"))?;
    disk.cut()?;
    let mut wrong = after_stop(yard, step, killed(exit), (&before, &look(&disk.state())?));
    yard.run(&disk.state(), &BOOT, &second.injected("signal=KILL"))?;
    disk.cut()?;
    let after = look(&disk.state())?;
    wrong.extend(after.absolute(&yard.known));
    wrong.extend(after.moved_from(&before, step));
    let state = disk.state();
    let again = Again {
        act: &|| yard.run(&state, step, &[]),
        starts_lost_max: 2,
    };
    wrong.extend(recovered_by(yard, &state, step, &before, &again)?);
    Ok(wrong)
}

/// A sample of all pairs of a call of the step and a call of the start behind it.
fn pairs(
    yard: &Yard,
    changing: &[&Call],
    snapshot: &Path,
    extent: Extent,
) -> Result<Vec<(Call, Call)>> {
    let traced = yard.folder.join("traced-start");
    copy(snapshot, &traced)?;
    // Of a start that has one copy of the record to mend: that one writes the most.
    let lost = traced.join("update.json.1");
    if lost.exists() {
        fs::remove_file(lost)?;
    }
    let start = trace::calls(yard, &traced, &BOOT)?;
    let all = changing.iter().flat_map(|first| {
        let second = start.iter().filter(|call| call.changes);
        second.map(|second| ((*first).clone(), second.clone()))
    });
    let amount = match extent {
        Extent::Short => PAIRS_SHORT,
        Extent::Full => PAIRS_FULL,
    };
    Ok(all.sample(&mut StdRng::seed_from_u64(SEED), amount))
}

/// Right behind a call that nobody had counted, it may have ended: that is another test.
fn killed(exit: Exit) -> Exit {
    match exit {
        Exit::Done | Exit::Killed => Exit::Killed,
        Exit::Refused | Exit::Leaked => exit,
    }
}

/// The helper has answered, and the power goes while it still runs: what it said to be done is done.
fn acknowledged_by_helper(yard: &Yard, disk: &Disk, step: &Step) -> Result<Vec<String>> {
    let before = look(&disk.state())?;
    let exit = {
        let _watchdog = yard.watchdog(&disk.state(), step)?;
        let helper = Helper::start(yard, &disk.state(), "cut")?;
        let exit = helper.ask(&step.act)?;
        disk.shut_down()?;
        exit
    };
    disk.come_back()?;
    let after = look(&disk.state())?;
    let mut wrong = checker::after_end(step, exit == Exit::Done, (&before, &after), &yard.known);
    wrong.extend(recovered(yard, &disk.state(), step, &before)?);
    Ok(wrong)
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
