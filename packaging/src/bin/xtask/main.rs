//! `cargo xtask`: what the workspace can do besides building.

mod bench;
mod faults;
mod pictures;
mod ship;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use packaging::{
    docs,
    faults::{Extent, Part},
    fuzz, load,
    quickstart::{self, Audience, Ending, Quickstart},
};
use tokio::signal::unix::{SignalKind, signal};

/// Everything that this workspace can do besides building.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Shows the main job on this machine: a good release goes through a real fleet, a bad one stops at its canary.
    ///
    /// Builds everything, starts control, a gateway and nodes as processes in a temporary folder on loopback, and ends
    /// and removes all of it afterwards. Soak, watchdog and stability hold are short, so that it takes a minute.
    Quickstart {
        /// How many nodes; at least 2.
        #[arg(long, default_value_t = 6)]
        nodes: usize,
        /// Let the fleet run on until Ctrl-C.
        #[arg(long)]
        keep: bool,
        /// With `json`, the last line of standard output is one object with both rollouts and every node.
        #[arg(long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
    /// Builds everything that is shipped into one folder: static programs, packages, an SBOM, digests, a signed release.
    ///
    /// The same checkout gives the same bytes in any folder. A release build of everything takes about a quarter of an
    /// hour on two cores. Needs dpkg-deb; with rpmbuild there are packages for Fedora's kin too.
    Dist(ship::DistArgs),
    /// Takes pictures for the README of fleets that it starts for them: of the console, and of a rollout at a terminal.
    ///
    /// Those of the console need Debian's chromium and chromium-driver. Takes about a minute after the build.
    Pictures(pictures::Order),
    /// Writes the pages of the guides that follow from the programs: metrics and configuration.
    ///
    /// What somebody wrote above their tables stays. It prints the pages that it renewed.
    Docs,
    /// Measures; the last line is the figures as `key=value` pairs.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Breaks things on purpose; the last line is the figures, and any violation is a failure.
    ///
    /// Without a campaign, one node's updates are stopped everywhere, and what is left is looked at: kills and errors at
    /// system calls, power cuts, rotten files. Builds with one deliberate mistake each show that it would be noticed.
    /// Needs strace, and for power cuts loop devices, so root.
    Faults {
        /// Only the calls that change something, with one kind of error, and fewer cuts: a minute or two.
        #[arg(long)]
        short: bool,
        /// Only these parts.
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<Part>,
        #[command(subcommand)]
        campaign: Option<faults::Campaign>,
    },
    /// Opens real sessions of simulated nodes, to see what a control and its gateways can hold.
    ///
    /// The nodes join, hold TLS sessions with certificates of their own, answer, and come back at a real agent's pace;
    /// they install nothing. Without --control, a control and a gateway of this build are started for them on loopback. The
    /// last line is the figures; a session that was lost is a failure. Whom the system trusts, or the file in
    /// SSL_CERT_FILE, is who vouches for control's https.
    Fleet {
        /// How many nodes.
        #[arg(long)]
        nodes: usize,
        /// Control's API.
        #[arg(long, value_name = "URL", requires = "token")]
        control: Option<String>,
        /// A file with a join token for that many nodes.
        #[arg(long, value_name = "FILE", requires = "control")]
        token: Option<PathBuf>,
        /// How long to hold the sessions once all are open.
        #[arg(long, value_name = "TIME", default_value = "30s")]
        hold: humantime::Duration,
        /// How long they may take to open.
        #[arg(long, value_name = "TIME", default_value = "5m")]
        within: humantime::Duration,
        /// Sessions in one process; more of them are more processes.
        #[arg(long, default_value_t = load::SESSIONS_PER_PROCESS)]
        per_process: usize,
    },
    /// A part of a load in a process of its own; for other tasks.
    #[command(hide = true)]
    LoadWorker,
    /// Nodes on machines with a real systemd, installed from our package, through everything that may happen to them.
    ///
    /// A Debian is made by debootstrap the first time; every machine is a copy of it that systemd-nspawn boots. Further
    /// machines carry gateway and control, Fedora's kind of package, a container, and in the full form an Ansible role. The
    /// last line is the figures, and any violation is a failure. Needs root.
    SystemdFleet(ship::MachinesArgs),
    /// Simulates planner, gateways and nodes under one scheduler and one virtual clock, with faults from a seed.
    ///
    /// What decides is what is shipped; disks, sockets, processes and SQL are made up. After every step it looks at what
    /// must hold, and in the end whether everybody has arrived; then deliberate mistakes show that it would notice. The
    /// last line is the figures; a violation, or a mistake that nobody noticed, is a failure. `--short` runs 2,000 seeds,
    /// `--seeds N` that many, `--seed S` one of them, with everything that happens; `--help` shows the rest.
    #[command(disable_help_flag = true)]
    Simulate {
        /// Given to the simulator.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Makes up what strangers could send, led by what it makes the parsers do; the last line is the figures.
    ///
    /// What breaks something lies in `target/fuzz/found` afterwards, and what led further in `target/fuzz/corpus`. Needs
    /// a C++ compiler. Building takes minutes the first time.
    Fuzz {
        /// The targets; all of them by default.
        #[arg(value_enum)]
        targets: Vec<fuzz::Target>,
        /// Seconds for each target.
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

fn main() -> ExitCode {
    let task = Xtask::parse().task;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let code = runtime.block_on(async {
        tokio::select! {
            done = run(task) => match done {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failed(&error),
            },
            // Leaving here drops the fleet, which ends its processes and removes its folder.
            code = interrupted() => ExitCode::from(code),
        }
    });
    // What still waits for a process that was ended just now is not waited for.
    runtime.shutdown_background();
    code
}

async fn run(task: Task) -> Result<()> {
    match task {
        Task::Quickstart {
            nodes,
            keep,
            output,
        } => {
            let ending = if keep { Ending::Stay } else { Ending::Leave };
            let audience = match output {
                Output::Text => Audience::People,
                Output::Json => Audience::Program,
            };
            let outcome = quickstart::run(Quickstart {
                nodes,
                ending,
                audience,
            })
            .await?;
            if output == Output::Json {
                writeln!(io::stdout(), "{}", serde_json::to_string(&outcome)?)?;
            }
        }
        Task::Pictures(order) => pictures::run(&order).await?,
        Task::Docs => write_pages().await?,
        Task::Bench(bench) => bench::run(bench).await?,
        Task::Dist(args) => ship::pack(args).await?,
        Task::Simulate { args } => packaging::build::simulator(&args).await?,
        Task::Faults {
            short,
            only,
            campaign,
        } => {
            let extent = if short { Extent::Short } else { Extent::Full };
            faults::run(extent, &only, campaign).await?;
        }
        Task::Fleet {
            nodes,
            control,
            token,
            hold,
            within,
            per_process,
        } => {
            let request = load::fleet::Request {
                nodes,
                control: control.zip(token),
                hold: hold.into(),
                patience: within.into(),
                per_process,
            };
            let figures = load::fleet::run(&request, tell).await?;
            writeln!(io::stdout(), "{figures}")?;
            ensure!(figures.is_whole(), "expected every session to hold");
        }
        Task::LoadWorker => load::worker::serve().await?,
        Task::SystemdFleet(args) => ship::run_machines(args).await?,
        Task::Fuzz { targets, seconds } => {
            let figures = fuzz::run(&fuzz::Order { targets, seconds }).await?;
            writeln!(io::stdout(), "{figures}")?;
            ensure!(
                figures.found.is_empty(),
                "expected nothing to break, found {:?}",
                figures.found
            );
        }
    }
    Ok(())
}

async fn write_pages() -> Result<()> {
    for page in docs::renew().await? {
        writeln!(io::stdout(), "{}", page.display())?;
    }
    Ok(())
}

fn tell(line: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "{line}"));
}

/// Resolves at Ctrl-C, when the terminal closes, or at a polite request to end; gives the exit code that shells expect.
async fn interrupted() -> u8 {
    let (Ok(mut interrupt), Ok(mut hangup), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::hangup()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => 130,
        _ = hangup.recv() => 129,
        _ = terminate.recv() => 143,
    }
}

fn failed(error: &anyhow::Error) -> ExitCode {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "error: {error:#}"));
    ExitCode::FAILURE
}
