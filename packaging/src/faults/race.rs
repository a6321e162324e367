//! A file that changes while the helper takes it: `cargo xtask faults race`.
//!
//! A real helper is asked for one release after the other, with a descriptor of a file whose bytes, length, mapped pages
//! and name others keep changing. Whatever it answers, nothing may lie in a slot that is not signed. A try is one
//! request on one connection; the file is wrong for most of the time, so that most tries cost no installation.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::{
    Figures,
    checker::look,
    ground::Ground,
    helper::{Helper, client::Request},
    script::BOOT,
    yard::Yard,
};
use crate::{build, fleet::now};

/// Bytes of a binary here: one page, so that a try is short.
const BINARY_BYTES: usize = 4096;

/// Clients that ask at once: while one is answered the next is read.
const CLIENTS: usize = 6;

/// Tries of a client after which the slots are looked at, whatever was answered.
const LOOK_EVERY: u64 = 256;

/// How long a build with a deliberate mistake may go without losing. Where nobody else wants the processors it loses
/// within a second.
const NAIVE: Duration = Duration::from_secs(30);

/// The mistakes that lose the race.
const NAIVE_WORDS: [&str; 2] = ["path-for-descriptor", "hash-then-copy"];

/// Changes a page that it keeps mapped, for as long as its standard input is open. Python knows how to map a file
/// without unsafe code of ours.
const MAPPED: &str = "import mmap,os,sys,select\n\
    f=os.open(sys.argv[1],os.O_RDWR)\n\
    m=mmap.mmap(f,4096)\n\
    at=3000\n\
    good=m[at]\n\
    print('mapped',flush=True)\n\
    while not select.select([0],[],[],0.0005)[0]:\n\
    \x20   for _ in range(20):\n\
    \x20       m[at]=good^1\n\
    \x20       m[at]=good\n";

/// When to stop.
#[derive(Clone, Copy, Debug)]
enum Until {
    Tries(u64),
    /// One was won, or the time is over.
    Won(Duration),
}

/// What came of some tries.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    tries: u64,
    /// The file was what was signed all the while.
    taken: u64,
    /// It was copied, and was not.
    copied: u64,
    /// Something else lies in a slot.
    won: u64,
}

/// Tries that often, and shows that builds with a mistake lose.
pub async fn run(tries: u64, tell: impl Fn(&str) + Send + 'static) -> Result<Figures> {
    ensure!(tries > 0, "--tries: expected at least 1");
    let ground = Ground::new(&in_memory())?;
    let folder = ground.path();
    let bcd = folder.join("bcd-with-faults");
    build::agent_with_faults(&bcd).await?;
    tokio::task::spawn_blocking(move || try_all(&bcd, &folder, tries, &tell)).await?
}

fn try_all(bcd: &Path, folder: &Path, tries: u64, tell: &dyn Fn(&str)) -> Result<Figures> {
    let mut figures = Figures::default();
    for word in NAIVE_WORDS {
        let yard = Yard::with_binaries(bcd, &folder.join(word), Some(word), BINARY_BYTES)?;
        figures.planted += 1;
        let begun = now();
        let tried = race(&yard, Until::Won(NAIVE))?;
        if tried.won > 0 {
            figures.caught += 1;
            tell(&format!(
                "{word} loses after {} tries and {:.0?}",
                tried.tries,
                now() - begun
            ));
        } else {
            tell(&format!("{word} was not noticed in {} tries", tried.tries));
        }
    }
    let yard = Yard::with_binaries(bcd, &folder.join("sound"), None, BINARY_BYTES)?;
    let begun = now();
    let tried = race(&yard, Until::Tries(tries))?;
    tell(&format!(
        "{} tries in {:.0?}: {} copies that were refused, {} of a file that was good all the while",
        tried.tries,
        now() - begun,
        tried.copied,
        tried.taken
    ));
    ensure!(
        tried.taken > 0,
        "expected some tries to end well, found none"
    );
    figures
        .points
        .insert("races", usize::try_from(tried.tries)?);
    if tried.won > 0 {
        let problem = format!("I15: {} of {} races were won", tried.won, tried.tries);
        figures.violations.push(problem);
    }
    Ok(figures)
}

/// Whether a build with that mistake loses; none where the mistake is about something else.
pub(super) fn loses(yard: &Yard, bcd: &Path, word: &'static str) -> Result<Option<String>> {
    if !NAIVE_WORDS.contains(&word) {
        return Ok(None);
    }
    let folder = yard.folder.join("race");
    let yard = Yard::with_binaries(bcd, &folder, Some(word), BINARY_BYTES)?;
    let tried = race(&yard, Until::Won(NAIVE))?;
    Ok((tried.won > 0).then(|| format!("I15: lost after {} tries", tried.tries)))
}

/// Where files cost no disk.
fn in_memory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    }
}

fn race(yard: &Yard, until: Until) -> Result<Tried> {
    let state = yard.folder.join("raced");
    yard.run(&state, &BOOT, &[])?;
    let helper = Helper::start(yard, &state, "race")?;
    let course = Course {
        yard,
        state: &state,
        helper: &helper,
        prey: [Prey::make(yard, 1)?, Prey::make(yard, 2)?],
        turn: AtomicU64::new(0),
        left: AtomicU64::new(match until {
            Until::Tries(tries) => tries,
            Until::Won(_) => u64::MAX,
        }),
        until: match until {
            Until::Tries(_) => None,
            Until::Won(patience) => Some(now() + patience),
        },
        won: AtomicBool::new(false),
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // What it meets is the helper's affair; a name that is gone for a moment is part of it.
                drop(course.prey().1.change());
            }
        });
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| course.run())).collect();
        let mut all = Tried::default();
        let mut failed = None;
        for client in clients {
            match client.join() {
                Ok(Ok(tried)) => all.add(tried),
                Ok(Err(error)) => failed = Some(error),
                Err(_) => failed = Some(anyhow!("a client died")),
            }
        }
        over.store(true, Ordering::Relaxed);
        failed.map_or(Ok(all), Err)
    })
}

impl Tried {
    fn add(&mut self, other: Self) {
        self.tries += other.tries;
        self.taken += other.taken;
        self.copied += other.copied;
        self.won += other.won;
    }
}

/// What all clients of one race have in common.
struct Course<'a> {
    yard: &'a Yard,
    state: &'a Path,
    helper: &'a Helper<'a>,
    prey: [Prey; 2],
    /// Counts the copies that were kept: the release that does not lie in the slot is the one to ask for.
    turn: AtomicU64,
    left: AtomicU64,
    until: Option<Instant>,
    won: AtomicBool,
}

impl Course<'_> {
    /// One client's tries.
    fn run(&self) -> Result<Tried> {
        let mut tried = Tried::default();
        while self.goes_on() {
            self.once(&mut tried)?;
        }
        Ok(tried)
    }

    /// Takes one try off what is left.
    fn goes_on(&self) -> bool {
        let is_late = self.until.is_some_and(|until| now() > until);
        let is_lost = self.until.is_some() && self.won.load(Ordering::Relaxed);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        !is_late && !is_lost && taken.is_ok()
    }

    fn prey(&self) -> (u64, &Prey) {
        let turn = self.turn.load(Ordering::Relaxed);
        let [even, odd] = &self.prey;
        (turn, if turn.is_multiple_of(2) { even } else { odd })
    }

    fn once(&self, tried: &mut Tried) -> Result<()> {
        let (turn, prey) = self.prey();
        let answer = Request::stage(&prey.section, &prey.open).ask(self.helper.socket())?;
        let answer = answer.context("I17: the helper went away")?;
        tried.tries += 1;
        let mut is_to_be_seen = tried.tries.is_multiple_of(LOOK_EVERY);
        match (answer.word.as_str(), answer.code.as_str()) {
            ("ended", "digest") => tried.copied += 1,
            ("ended", "size" | "platform") | ("busy", _) => {}
            // Whoever goes by a name may find none.
            ("ended", "disk") if !self.yard.is_sound() => {}
            // A binary that was kept and changed would not run either: what counts is what lies there.
            ("done", _) | ("ended", "preflight") => {
                tried.taken += 1;
                is_to_be_seen = true;
                // It lies in the slot now: only the other release is copied. Another client may have seen it first.
                let next = turn + 1;
                self.turn
                    .compare_exchange(turn, next, Ordering::Relaxed, Ordering::Relaxed)
                    .ok();
            }
            other => {
                let message = answer.message;
                bail!("expected a refusal or a copy, found {other:?}: {message}")
            }
        }
        if is_to_be_seen && self.is_unsigned() {
            tried.won += 1;
            self.won.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether something lies in a slot that nobody signed. What is renamed while one looks is looked at next time.
    fn is_unsigned(&self) -> bool {
        look(self.state).is_ok_and(|seen| !seen.absolute(&self.yard.known).is_empty())
    }
}

/// A release, and the file that is to be its binary.
#[derive(Debug)]
struct Prey {
    section: serde_json::Value,
    /// What the helper is given: opened once, read only.
    open: File,
    /// What a client keeps.
    kept: File,
    path: PathBuf,
    /// Of the same length, and not signed.
    bad: PathBuf,
    aside: PathBuf,
    last: u8,
    mapped: Child,
}

impl Prey {
    fn make(yard: &Yard, sequence: u64) -> Result<Self> {
        let path = yard.folder.join(format!("prey-{sequence}"));
        let good = fs::read(yard.folder.join(format!("binary-{sequence}")))?;
        File::create(&path)?.write_all(&good)?;
        let mut mapped = Command::new("python3")
            .args(["-c", MAPPED])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start python3")?;
        let mut word = [0; 6];
        let said = mapped.stdout.as_mut().context("python's output")?;
        std::io::Read::read_exact(said, &mut word).context("a mapped file")?;
        Ok(Self {
            section: yard.section(&format!("spec-{sequence}-first"))?,
            open: File::open(&path)?,
            kept: File::options().write(true).open(&path)?,
            bad: yard.folder.join(format!("bad-{sequence}")),
            aside: yard.folder.join(format!("aside-{sequence}")),
            last: good.last().copied().context("an empty binary")?,
            path,
            mapped,
        })
    }

    /// Once through everything that can be changed: good for a moment, then wrong for longer.
    fn change(&self) -> Result<()> {
        let at = BINARY_BYTES as u64 - 1;
        for _ in 0..16 {
            self.kept.write_all_at(&[self.last], at)?;
            for wrong in 1..16 {
                self.kept.write_all_at(&[self.last ^ wrong], at)?;
            }
        }
        // Shorter for a moment, and as long again.
        self.kept.set_len(at)?;
        self.kept.write_all_at(&[!self.last], at)?;
        // The name leads to another file for a while.
        fs::rename(&self.path, &self.aside)?;
        fs::hard_link(&self.bad, &self.path)?;
        fs::rename(&self.aside, &self.path)?;
        Ok(())
    }
}

impl Drop for Prey {
    fn drop(&mut self) {
        drop(self.mapped.kill());
        drop(self.mapped.wait());
    }
}
