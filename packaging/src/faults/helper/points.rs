//! Every call that a helper makes for a request, and what comes of its failing there.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Helper, client::Silence};
use crate::{
    faults::{
        Extent, Figures,
        checker::look,
        explore::{self, Again, Walk},
        script::{Act, Step},
        trace::{self, Call},
        yard::{Exit, Yard, copy},
    },
    fleet::{now, text},
};

/// How long strace may take to attach.
const PATIENCE: Duration = Duration::from_secs(20);

/// Which thread of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// Takes requests and answers.
    Takes,
    /// Carries them out.
    Works,
}

/// What a call that failed was about.
///
/// Calls are known by their numbers, and threads wake each other by writes whose number depends on which of them is the
/// faster one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// The disk, as it was when the calls were counted.
    AsMeant,
    /// Nothing that can fail: a thread that cannot wake another one is at an end, and nobody has promised otherwise.
    Elsewhere,
}

/// Requests until an error comes at a call about the disk.
const TRIES_MAX: u32 = 20;

/// One place, and what happens there.
#[derive(Clone, Debug)]
struct Point<'a> {
    step: &'a Step,
    snapshot: &'a Path,
    thread: Thread,
    call: Call,
    what: &'static str,
}

impl fmt::Display for Point<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (step, call, what) = (self.step.name, &self.call, self.what);
        let thread = match self.thread {
            Thread::Takes => "takes",
            Thread::Works => "works",
        };
        let (name, number) = (&call.name, call.number);
        write!(
            f,
            "{step} (helper, {what} at {name} {number} where it {thread})"
        )
    }
}

/// Calls of a conversation that can fail for reasons of the other end or of this one's bounds.
const TALKING: [(&str, &str); 3] = [
    ("recvmsg", "error=ECONNRESET"),
    ("sendmsg", "error=EPIPE"),
    ("accept4", "error=EMFILE"),
];

/// Calls that only wait, and come as often as the machine likes.
const WAITING: [&str; 4] = ["futex", "restart_syscall", "epoll_wait", "sched_yield"];

/// Stops the helper everywhere.
pub(super) fn run(yard: &Yard, walk: &Walk, extent: Extent) -> Result<Figures> {
    let mut points = Vec::new();
    for (step, snapshot) in walk.steps.iter().filter(|(step, _)| is_asked(step)) {
        for thread in [Thread::Takes, Thread::Works] {
            for call in calls(yard, snapshot, step, thread)? {
                points.extend(
                    failures(&call, thread, extent)
                        .into_iter()
                        .map(|what| Point {
                            step,
                            snapshot,
                            thread,
                            call: call.clone(),
                            what,
                        }),
                );
            }
        }
    }
    explore::in_two(&points, |half, points| {
        let mut figures = Figures::default();
        let state = yard.folder.join(format!("helped-{half}"));
        for point in points {
            let name = format!("half-{half}");
            let found = stopped(yard, &state, point, &name).with_context(|| point.to_string())?;
            let how = if point.what == KILL {
                "kills of the helper"
            } else {
                "errors in the helper"
            };
            let found = found
                .into_iter()
                .map(|problem| format!("{point}: {problem}"));
            figures.count(how, found.collect());
        }
        Ok(figures)
    })
}

const KILL: &str = "signal=KILL";

fn is_asked(step: &Step) -> bool {
    step.explored && !step.act.is_a_start()
}

/// What is to happen at a call.
fn failures(call: &Call, thread: Thread, extent: Extent) -> Vec<&'static str> {
    if WAITING.contains(&call.name.as_str()) {
        return Vec::new();
    }
    let talking = TALKING.iter().find(|(name, _)| *name == call.name);
    let mut failures = Vec::new();
    match (thread, extent) {
        (Thread::Takes, Extent::Short) => {
            failures.extend(talking.map(|_| KILL));
        }
        (Thread::Takes, Extent::Full) => {
            failures.push(KILL);
            failures.extend(talking.map(|(_, error)| *error));
        }
        (Thread::Works, Extent::Short) if call.changes => failures.extend([KILL, "error=EIO"]),
        (Thread::Works, Extent::Short) => {}
        (Thread::Works, Extent::Full) => {
            failures.push(KILL);
            if call.is_fallible {
                failures.extend(["error=EIO", "error=ENOSPC", "error=EROFS", "error=EINTR"]);
            }
        }
    }
    failures
}

/// The calls of one thread for one request.
fn calls(yard: &Yard, snapshot: &Path, step: &Step, thread: Thread) -> Result<Vec<Call>> {
    let state = yard.folder.join("helped-traced");
    copy(snapshot, &state)?;
    let _watchdog = yard.watchdog(&state, step)?;
    let helper = Helper::start(yard, &state, "traced")?;
    helper.settled()?;
    let file = yard.folder.join("helper-trace");
    let strace = Strace::attach(&helper, thread, &file, &[])?;
    helper.ask(&step.act)?;
    drop(helper);
    strace.ended()?;
    let text = fs::read_to_string(&file).context("read the trace")?;
    Ok(trace::numbered(&text))
}

/// One request to a helper that is stopped somewhere, and what follows.
fn stopped(yard: &Yard, state: &Path, point: &Point<'_>, name: &str) -> Result<Vec<String>> {
    for _ in 0..TRIES_MAX {
        copy(point.snapshot, state)?;
        let before = look(state)?;
        let struck = strike(yard, state, point, name)?;
        if point.what != KILL && struck.place == Place::Elsewhere {
            continue;
        }
        let mut wrong = struck.wrong;
        let seen = look(state)?;
        wrong.extend(explore::after_stop(
            yard,
            point.step,
            struck.exit,
            (&before, &seen),
        ));
        let again = Again {
            act: &|| super::asked(yard, state, point.step, name),
            starts_lost_max: 1,
        };
        wrong.extend(explore::recovered_by(
            yard, state, point.step, &before, &again,
        )?);
        return Ok(wrong);
    }
    bail!("expected an error at a call about the disk, found {TRIES_MAX} others")
}

/// What came of one request.
struct Struck {
    exit: Exit,
    wrong: Vec<String>,
    place: Place,
}

fn strike(yard: &Yard, state: &Path, point: &Point<'_>, name: &str) -> Result<Struck> {
    let step = point.step;
    let _watchdog = yard.watchdog(state, step)?;
    let helper = Helper::start(yard, state, name)?;
    let open = helper.settled()?;
    let injection = point.call.injection(point.what);
    let file = yard.folder.join(format!("{name}-strace"));
    let strace = Strace::attach(&helper, point.thread, &file, &injection)?;
    let heard = struck(&helper, point, open);
    drop(helper);
    strace.ended()?;
    let told = fs::read_to_string(&file).context("read what strace has seen")?;
    let told: Vec<&str> = told
        .lines()
        .filter(|line| trace::is_injected(line))
        .collect();
    let place = match told.iter().any(|line| trace::is_elsewhere(line)) {
        true => Place::Elsewhere,
        false => Place::AsMeant,
    };
    let (exit, wrong) = match heard {
        Ok(heard) => heard,
        Err(error) if error.is::<Silence>() => {
            (Exit::Killed, vec![format!("{error:#}; strace {told:?}")])
        }
        Err(error) => return Err(error),
    };
    Ok(Struck { exit, wrong, place })
}

/// The request itself, and whether the helper is well afterwards.
fn struck(helper: &Helper<'_>, point: &Point<'_>, open: usize) -> Result<(Exit, Vec<String>)> {
    let step = point.step;
    let mut wrong = Vec::new();
    let exit = helper.ask(&step.act)?;
    if point.what != KILL {
        // After a confirmation it makes room for the binary that was confirmed.
        let may_be_gone = matches!(step.act, Act::Confirm { .. });
        if !may_be_gone && !helper.answers()? && !helper.answers()? {
            wrong.push("I17: one error, and the helper answers nobody any more".to_owned());
        }
        if !helper.comes_back_to(open)? {
            wrong.push("I17: the helper keeps a descriptor".to_owned());
        }
    }
    Ok((exit, wrong))
}

/// One strace on one thread.
#[derive(Debug)]
struct Strace(Child);

impl Strace {
    /// Attaches; the next call of the thread is its first.
    fn attach(
        helper: &Helper<'_>,
        thread: Thread,
        output: &Path,
        injection: &[String],
    ) -> Result<Self> {
        let [takes, works] = helper.threads()?;
        let thread = match thread {
            Thread::Takes => takes,
            Thread::Works => works,
        };
        let child = Command::new("strace")
            // With paths, so that what is on no disk can be told from what is.
            .args(["-qq", "-y", "-o", &text(output)?])
            .args(injection)
            .args(["-p", &thread.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start strace")?;
        let strace = Self(child);
        let status = PathBuf::from(format!("/proc/{}/task/{thread}/status", helper.pid()));
        let until = now() + PATIENCE;
        loop {
            let told = fs::read_to_string(&status)?;
            let tracer = told
                .lines()
                .find_map(|line| line.strip_prefix("TracerPid:"));
            if tracer.is_some_and(|tracer| tracer.trim() != "0") {
                return Ok(strace);
            }
            ensure!(now() < until, "expected strace to attach");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until the one that it follows has ended.
    fn ended(mut self) -> Result<()> {
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
