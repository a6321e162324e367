//! The agent as it is shipped: its size, what it costs while it has nothing to do, and how quickly it updates itself.
//!
//! Builds the static release binary and lets two real nodes run it under their supervisors, against a gateway and a
//! download server of the bench's own: one updates itself to large releases, the other to releases of the agent's own size. What an update is compared with runs between the updates, in the same rounds: a machine
//! that is busy is busy for all of them.

mod alone;
mod back;
mod downloads;
mod figures;
mod gateway;
pub(super) mod kernel;
mod node;
mod peers;
mod sysupdate;
mod update;

use std::{
    fs::{self, File, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

pub use figures::{Figures, PeerFigures};

use self::{
    figures::{Helped, Idle, Ratios, median},
    gateway::Session,
    node::Node,
    sysupdate::Sysupdate,
    update::{Bench, Look, Update},
};
use crate::{build, fleet::Service};

/// How long a node is left alone before anything is looked at.
const SETTLE: Duration = Duration::from_secs(4);

/// How often a node goes back, from either kind of release.
const BACK_ROUNDS: usize = 3;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    rounds: usize,
    idle: Duration,
}

impl Extent {
    /// For the figures that are written down.
    pub const FULL: Self = Self {
        rounds: 9,
        idle: Duration::from_secs(60),
    };

    /// For a look in between.
    pub const SHORT: Self = Self {
        rounds: 5,
        idle: Duration::from_secs(20),
    };
}

/// Releases of these sizes are measured, in megabytes; the smallest is the agent and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Bare,
    Ten,
    Hundred,
}

impl Size {
    fn bytes(self) -> usize {
        match self {
            Self::Bare => 0,
            Self::Ten => 10_000_000,
            Self::Hundred => 100_000_000,
        }
    }

    /// Whatever is measured replaces a file of its own size: to remove a large one takes time too.
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Ten => "ten",
            Self::Hundred => "hundred",
        }
    }
}

/// What one size took in one round.
#[derive(Clone, Copy, Debug)]
struct Round {
    floor: Duration,
    curl: Duration,
    ours: Update,
}

/// Measures nothing but how long a node takes to go back.
pub async fn going_back(built: Option<&Path>) -> Result<String> {
    let folder = tempfile::Builder::new().prefix("bcd-bench-").tempdir()?;
    let agent = provide(built, folder.path()).await?;
    let took = back::measure(&agent, &folder.path().join("back"), BACK_ROUNDS).await?;
    let most = took.iter().copied().fold(0.0, f64::max);
    Ok(format!(
        "back_ms={:.1} back_most_ms={most:.1}",
        median(took)
    ))
}

/// Measures updates of the agent as it is shipped, or of one that was built before, against systemd-sysupdate in a Debian
/// at `root`, which is made where there is none.
pub async fn against_sysupdate(
    root: &Path,
    built: Option<&Path>,
    tell: impl Fn(&str),
) -> Result<PeerFigures> {
    let folder = tempfile::Builder::new().prefix("bcd-bench-").tempdir()?;
    let agent = provide(built, folder.path()).await?;
    let mut peer = Sysupdate::open(root)?;
    let (mut bench, mut session) = Bench::open(&agent, &folder.path().join("node")).await?;
    let (mut tens, mut hundreds) = (Vec::new(), Vec::new());
    for number in 0..=Extent::SHORT.rounds {
        for (size, rounds) in [(Size::Ten, &mut tens), (Size::Hundred, &mut hundreds)] {
            let release = bench
                .node
                .next_release(bench.downloads.url(), size.bytes())?;
            let digests = format!(
                "{}  {}\n",
                release.section.sha256,
                peer.next_name(size.name())
            );
            bench.downloads.serve_listed(&release.bytes, &digests)?;
            let server = bench.downloads.url().trim_end_matches("/bcd").to_owned();
            let theirs = tokio::task::block_in_place(|| peer.update(&server, size.name()))?;
            let ours;
            (session, ours) = bench.update(session, release, Look::Away).await?;
            tell(&format!(
                "round {number}, {} MB, in ms: ours {:.1}, systemd-sysupdate {:.1}",
                size.bytes() / 1_000_000,
                ms(ours.took),
                ms(theirs)
            ));
            // The first round warms caches, and is not counted.
            if number > 0 {
                rounds.push((ms(ours.took), ms(theirs)));
            }
        }
    }
    Ok(PeerFigures::of(&tens, &hundreds))
}

/// Measures the agent as it is shipped, or one that was built before.
pub async fn run(extent: Extent, built: Option<&Path>, tell: impl Fn(&str)) -> Result<Figures> {
    let folder = tempfile::Builder::new().prefix("bcd-bench-").tempdir()?;
    // A node without rights has to get through.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    let agent = provide(built, folder.path()).await?;
    measure(&agent, &folder, extent, tell).await
}

async fn provide(built: Option<&Path>, folder: &Path) -> Result<PathBuf> {
    let agent = folder.join("bcd");
    match built {
        Some(built) => drop(fs::copy(built, &agent).context("copy the agent")?),
        None => build::shipped_agent(&agent).await?,
    }
    Ok(agent)
}

async fn measure(
    agent: &Path,
    folder: &TempDir,
    extent: Extent,
    tell: impl Fn(&str),
) -> Result<Figures> {
    let (mut small, session) = Bench::open(agent, &folder.path().join("small")).await?;
    let mut small_session = session;
    let idle = idle(&small.node, &mut small_session, extent.idle).await?;
    tell("idle: measured");
    // Not before: a node whose pings nobody answers for that long dials again.
    let (mut large, session) = Bench::open(agent, &folder.path().join("large")).await?;
    let mut large_session = session;
    let (mut tens, mut hundreds, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..=extent.rounds {
        let ten;
        (large_session, ten) = round(&mut large, large_session, Size::Ten, folder.path()).await?;
        let hundred;
        (large_session, hundred) =
            round(&mut large, large_session, Size::Hundred, folder.path()).await?;
        let bare;
        (small_session, bare) = update(&mut small, small_session, (Size::Bare, Look::Away)).await?;
        tell(&told(number, &[ten, hundred], bare));
        // The first round warms caches, and is not counted.
        if number > 0 {
            tens.push(ten);
            hundreds.push(hundred);
            gaps.push(bare);
        }
    }
    drop((large, large_session));
    let counted = alone::count(agent, &folder.path().join("alone")).await?;
    let helped = match geteuid().is_root() {
        true => Some(helped(agent, &folder.path().join("helped")).await?),
        false => None,
    };
    let back_ms = back::measure(agent, &folder.path().join("back"), BACK_ROUNDS).await?;
    tell("going back: measured");
    let all = || tens.iter().chain(&hundreds);
    Ok(Figures {
        binary_bytes: fs::metadata(agent)?.len(),
        idle,
        helped,
        watchdog_kib: watchdog(agent, &folder.path().join("watched")).await?,
        written_ratio: counted.written_ratio,
        shared_written_ratio: median(written(&tens, Size::Ten))
            .max(median(written(&hundreds, Size::Hundred))),
        extra_mib: all()
            .map(|round| mib(round.ours.extra_kib))
            .fold(0.0, f64::max),
        syncs: counted.syncs,
        back_ms: median(back_ms.clone()),
        back_most_ms: back_ms.into_iter().fold(0.0, f64::max),
        gap_ms: median(gaps.iter().map(|bare| ms(bare.gap)).collect()),
        preflight_ms: median(all().map(|round| ms(round.ours.preflight)).collect()),
        ten: ratios(&tens),
        hundred: ratios(&hundreds),
    })
}

/// Floor, peer and update, one after the other, for one size.
async fn round(
    bench: &mut Bench,
    session: Session,
    size: Size,
    folder: &Path,
) -> Result<(Session, Round)> {
    let release = bench
        .node
        .next_release(bench.downloads.url(), size.bytes())?;
    bench.downloads.serve(&release.bytes)?;
    let (url, to) = (bench.downloads.url().to_owned(), folder.join(size.name()));
    fs::create_dir_all(&to)?;
    let (floor, curl) =
        spawn_blocking(move || anyhow::Ok((peers::floor(&url, &to)?, peers::curl(&url, &to)?)))
            .await??;
    let (session, ours) = bench.update(session, release, Look::Counters).await?;
    Ok((session, Round { floor, curl, ours }))
}

async fn update(
    bench: &mut Bench,
    session: Session,
    (size, look): (Size, Look),
) -> Result<(Session, Update)> {
    let release = bench
        .node
        .next_release(bench.downloads.url(), size.bytes())?;
    bench.downloads.serve(&release.bytes)?;
    bench.update(session, release, look).await
}

async fn idle(node: &Node, session: &mut Session, span: Duration) -> Result<Idle> {
    session.idle(SETTLE).await?;
    let (pid, supervisor) = (node.pid()?, node.supervisor.pid().context("no supervisor")?);
    let before = kernel::used(pid)?;
    session.idle(span).await?;
    let after = kernel::used(pid)?;
    let seconds = span.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let (wakeups, cpu_ns) = (
        (after.wakeups - before.wakeups) as f64,
        (after.cpu_ns - before.cpu_ns) as f64,
    );
    Ok(Idle {
        node_kib: kernel::rss_kib(pid)?,
        supervisor_kib: kernel::rss_kib(i32::try_from(supervisor)?)?,
        wakeups_per_second: wakeups / seconds,
        cpu_ms_per_minute: cpu_ns / 1e6 * 60.0 / seconds,
    })
}

/// A node that may not write, and the helper that does.
async fn helped(agent: &Path, folder: &Path) -> Result<Helped> {
    let (mut bench, mut session) = Bench::with_helper(agent, folder).await?;
    session.idle(SETTLE).await?;
    let helper = bench.helper_pid()?.context("no helper")?;
    let helper_kib = kernel::rss_kib(helper)?;
    let (_, ten) = update(&mut bench, session, (Size::Ten, Look::Counters)).await?;
    Ok(Helped {
        helper_kib,
        written_ratio: written_ratio(&ten, Size::Ten),
    })
}

/// The memory of a watchdog that waits for a trial.
async fn watchdog(agent: &Path, folder: &Path) -> Result<u64> {
    fs::create_dir_all(folder)?;
    let config = node::configure(agent, folder, ("", update::DEADLINE), &[])?;
    let booted = Command::new(agent)
        .args(["boot", "--log", "off", "--config"])
        .arg(&config)
        .status()?;
    ensure!(booted.success(), "bcd boot: {booted}");
    let mut watchdog = Service::new("watchdog", agent, folder);
    watchdog.args(["watchdog", "--restart", "true", "--config"]);
    watchdog.arg(&config).start()?;
    tokio::time::sleep(SETTLE).await;
    watchdog.check()?;
    let pid = watchdog.pid().context("no watchdog")?;
    kernel::rss_kib(i32::try_from(pid)?)
}

fn ratios(rounds: &[Round]) -> Ratios {
    let middle = |value: &dyn Fn(&Round) -> f64| median(rounds.iter().map(value).collect());
    Ratios {
        over_floor: middle(&|round| ms(round.ours.took) / ms(round.floor)),
        over_curl: middle(&|round| ms(round.ours.took) / ms(round.curl)),
        ours_ms: middle(&|round| ms(round.ours.took)),
        floor_ms: middle(&|round| ms(round.floor)),
        curl_ms: middle(&|round| ms(round.curl)),
    }
}

fn written(rounds: &[Round], size: Size) -> Vec<f64> {
    let ratio = |round: &Round| written_ratio(&round.ours, size);
    rounds.iter().map(ratio).collect()
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn written_ratio(update: &Update, size: Size) -> f64 {
    update.written as f64 / size.bytes() as f64
}

fn told(number: usize, rounds: &[Round; 2], bare: Update) -> String {
    let [ten, hundred] = rounds.map(|round| {
        format!(
            "ours {:.1} (processors {:.1}) + preflight {:.1}, floor {:.1}, curl {:.1}",
            ms(round.ours.took),
            ms(round.ours.cpu),
            ms(round.ours.preflight),
            ms(round.floor),
            ms(round.curl),
        )
    });
    format!(
        "round {number}, in ms: 10 MB: {ten}; 100 MB: {hundred}; gap {:.1}",
        ms(bare.gap)
    )
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1000.0
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// A bench's own files need no power cut.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = match path.starts_with("/proc") {
        true => File::options().write(true).open(path)?,
        false => File::create(path)?,
    };
    Ok(file.write_all(bytes)?)
}
