//! Every call that a helper makes for a request, and what comes of its failing there.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::Helper;
use crate::{
    faults::{
        Extent, Figures,
        checker::look,
        explore::{self, Again, Walk},
        script::{Act, Step},
        trace::{self, Call},
        yard::{Yard, copy},
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

/// One place, and what happens there.
#[derive(Clone, Debug)]
struct Point<'a> {
    step: &'a Step,
    snapshot: &'a Path,
    thread: Thread,
    call: Call,
    what: &'static str,
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
            copy(point.snapshot, &state)?;
            let found = stopped(yard, &state, point, &format!("half-{half}"))?;
            let Point {
                step, call, what, ..
            } = point;
            let how = if *what == KILL {
                "kills of the helper"
            } else {
                "errors in the helper"
            };
            let at = format!(
                "{} (helper, {what} at {} {})",
                step.name, call.name, call.number
            );
            let found = found.into_iter().map(|problem| format!("{at}: {problem}"));
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
    let step = point.step;
    let before = look(state)?;
    let mut wrong = Vec::new();
    let exit;
    {
        let _watchdog = yard.watchdog(state, step)?;
        let helper = Helper::start(yard, state, name)?;
        let open = helper.settled()?;
        let strace = Strace::attach(
            &helper,
            point.thread,
            Path::new("/dev/null"),
            &point.call.injection(point.what),
        )?;
        exit = helper.ask(&step.act)?;
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
        drop(helper);
        strace.ended()?;
    }
    let seen = look(state)?;
    wrong.extend(explore::after_stop(yard, step, exit, (&before, &seen)));
    let again = Again {
        act: &|| super::asked(yard, state, step, name),
        starts_lost_max: 1,
    };
    wrong.extend(explore::recovered_by(yard, state, step, &before, &again)?);
    Ok(wrong)
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
