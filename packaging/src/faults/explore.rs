//! The script undisturbed, and then stopped at one place after the other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{
    Extent, Figures,
    checker::{self, Seen, look},
    script::{BOOT, Before, Expect, SCRIPT, Step},
    trace::{self, Call},
    yard::{Exit, Yard, copy},
};

/// The script, walked once: what the folder was before every step.
pub(super) struct Walk {
    pub(super) figures: Figures,
    pub(super) steps: Vec<(&'static Step, PathBuf)>,
    /// What it was after the last.
    pub(super) last: PathBuf,
}

/// Walks the script undisturbed.
pub(super) fn walk(yard: &Yard) -> Result<Walk> {
    walk_by(yard, "node", &|state, step| yard.run(state, step, &[]))
}

/// Walks the script undisturbed, on a folder of its own, with `act` for every step.
pub(super) fn walk_by(
    yard: &Yard,
    name: &str,
    act: &dyn Fn(&Path, &Step) -> Result<Exit>,
) -> Result<Walk> {
    let state = yard.folder.join(name);
    let mut walk = Walk {
        figures: Figures::default(),
        steps: Vec::new(),
        last: state.clone(),
    };
    for (number, step) in SCRIPT.iter().enumerate() {
        let snapshot = yard.folder.join(format!("{name}-before-{number}"));
        copy(&state, &snapshot)?;
        walk.steps.push((step, snapshot));
        let before = look(&state)?;
        rot(&state, step.before)?;
        let exit = act(&state, step)?;
        let after = look(&state)?;
        let mut wrong =
            checker::after_end(step, exit == Exit::Done, (&before, &after), &yard.known);
        if exit == Exit::Leaked {
            wrong = vec!["I17: a descriptor is kept".to_owned()];
        }
        if step.before == Before::RottenSpare {
            // The harness itself broke it.
            wrong.retain(|problem| !problem.starts_with("I5") && !problem.starts_with("I8"));
        }
        let failed = !wrong.is_empty();
        walk.figures.count("steps", named(step, "", wrong));
        if failed {
            break;
        }
    }
    Ok(walk)
}

fn rot(state: &Path, what: Before) -> Result<()> {
    match what {
        Before::Nothing => Ok(()),
        Before::RottenSpare => {
            // Confirmed is release 2, which lies in slot a by then.
            let spare = state.join("slots/b/bcd");
            let mut bytes = fs::read(&spare)?;
            if let Some(byte) = bytes.last_mut() {
                *byte ^= 1;
            }
            use std::io::Write as _;
            Ok(fs::File::create(&spare)?.write_all(&bytes)?)
        }
    }
}

fn named(step: &Step, how: &str, wrong: Vec<String>) -> Vec<String> {
    wrong
        .into_iter()
        .map(|problem| format!("{}{how}: {problem}", step.name))
        .collect()
}

/// Kills every explored step at its calls.
pub(super) fn kills(yard: &Yard, walk: &Walk, extent: Extent) -> Result<Figures> {
    every_point(yard, walk, "kills", &|call| {
        let taken = call.changes || extent == Extent::Full;
        if taken { vec!["signal=KILL"] } else { vec![] }
    })
}

/// Makes the calls of every explored step fail.
pub(super) fn errors(yard: &Yard, walk: &Walk, extent: Extent) -> Result<Figures> {
    every_point(yard, walk, "errors", &|call| match extent {
        Extent::Short if call.changes => vec!["error=EIO"],
        Extent::Full if call.is_fallible => {
            vec!["error=EIO", "error=ENOSPC", "error=EROFS"]
        }
        Extent::Short | Extent::Full => vec![],
    })
}

type Injections<'a> = &'a (dyn Fn(&Call) -> Vec<&'static str> + Sync);

fn every_point(
    yard: &Yard,
    walk: &Walk,
    how: &'static str,
    what: Injections<'_>,
) -> Result<Figures> {
    let mut points = Vec::new();
    for (step, snapshot) in walk.steps.iter().filter(|(step, _)| step.explored) {
        let state = yard.folder.join("traced");
        copy(snapshot, &state)?;
        for call in trace::calls(yard, &state, step)? {
            points.extend(
                what(&call)
                    .into_iter()
                    .map(|what| (*step, snapshot, call.clone(), what)),
            );
        }
    }
    in_two(&points, |half, points| {
        let mut figures = Figures::default();
        let state = yard.folder.join(format!("stopped-{half}"));
        for (step, snapshot, call, what) in points {
            copy(snapshot, &state)?;
            let wrong = stopped(yard, &state, step, &call.injected(what))?;
            let at = format!(" ({what} at {} {})", call.name, call.number);
            figures.count(how, named(step, &at, wrong));
            if yard.has_shown(&figures) {
                break;
            }
        }
        Ok(figures)
    })
}

/// Does a half of the points each in two threads: most of it is waiting for processes to start.
pub(super) fn in_two<T: Sync>(
    points: &[T],
    work: impl Fn(usize, &[T]) -> Result<Figures> + Sync,
) -> Result<Figures> {
    let work = &work;
    let halves = points.chunks(points.len().div_ceil(2).max(1)).enumerate();
    let done: Vec<Result<Figures>> = std::thread::scope(|scope| {
        let begun: Vec<_> = halves
            .map(|(half, points)| scope.spawn(move || work(half, points)))
            .collect();
        begun
            .into_iter()
            .map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a thread died")))
            })
            .collect()
    });
    let mut figures = Figures::default();
    for half in done {
        figures.add(half?);
    }
    Ok(figures)
}

/// A step that is stopped somewhere, and the start after it.
fn stopped(yard: &Yard, state: &Path, step: &Step, under: &[String]) -> Result<Vec<String>> {
    let before = look(state)?;
    let exit = yard.run(state, step, under)?;
    let after = look(state)?;
    let mut wrong = after_stop(yard, step, exit, (&before, &after));
    wrong.extend(recovered(yard, state, step, &before)?);
    Ok(wrong)
}

/// What is wrong right after a step that was stopped.
pub(super) fn after_stop(
    yard: &Yard,
    step: &Step,
    exit: Exit,
    (before, after): (&Seen, &Seen),
) -> Vec<String> {
    let known = &yard.known;
    let mut wrong = after.absolute(known);
    wrong.extend(after.moved_from(before, step));
    let Expect::Done(want) = step.expect else {
        return wrong;
    };
    let is_done = after.stands(&want, known);
    match (exit, is_done) {
        (_, Ok(())) => {}
        // An unreadable binary is as good as a damaged one: then it goes back, and says so.
        (Exit::Done, Err(_)) if after.went_back_from(before) => {}
        (Exit::Done, Err(problem)) => wrong.push(format!("I10: said to be done, but {problem}")),
        (Exit::Leaked, Err(_)) => wrong.push("I17: a descriptor is kept".to_owned()),
        (Exit::Refused | Exit::Killed, Err(problem)) => {
            if !after.stands_as(before) && !after.went_back_from(before) {
                wrong.push(format!("neither as before nor done: {problem}"));
            }
        }
    }
    wrong
}

/// What is wrong after the start that follows, and after the step was done once more.
pub(super) fn recovered(
    yard: &Yard,
    state: &Path,
    step: &Step,
    before: &Seen,
) -> Result<Vec<String>> {
    let again = Again {
        act: &|| yard.run(state, step, &[]),
        starts_lost_max: 1,
    };
    recovered_by(yard, state, step, before, &again)
}

/// How a step is done once more, and how many starts of a trial what came before may have cost.
pub(super) struct Again<'a> {
    pub(super) act: &'a dyn Fn() -> Result<Exit>,
    pub(super) starts_lost_max: u64,
}

/// The same, with `again` for the step.
pub(super) fn recovered_by(
    yard: &Yard,
    state: &Path,
    step: &Step,
    before: &Seen,
    again: &Again<'_>,
) -> Result<Vec<String>> {
    let known = &yard.known;
    let Expect::Done(want) = step.expect else {
        return Ok(Vec::new());
    };
    if yard.run(state, &BOOT, &[])? != Exit::Done {
        return Ok(vec!["I6: bcd boot fails afterwards".to_owned()]);
    }
    let booted = look(state)?;
    let mut wrong = booted.absolute(known);
    wrong.extend(booted.copies_agree().err());
    wrong.extend(booted.moved_from(before, step));
    if !step.act.is_a_start() {
        // Where it was done already it may be refused now: what counts is how the node stands.
        (again.act)()?;
    }
    let after = look(state)?;
    wrong.extend(after.absolute(known));
    wrong.extend(after.moved_from(before, step));
    let stands = after.stands_but_for_starts(&want, again.starts_lost_max, known);
    if !stands && !after.went_back_from(before) {
        let problem = after.stands(&want, known).err().unwrap_or_default();
        wrong.push(format!("I6: once more does not help: {problem}"));
    }
    Ok(wrong
        .into_iter()
        .map(|problem| format!("afterwards: {problem}"))
        .collect())
}
