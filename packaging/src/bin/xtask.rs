//! `cargo xtask`: what the workspace can do besides building.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};
use packaging::{
    bench,
    dist::{self, Builds, Dist, Signing},
    faults::{self, Extent, kills::Campaign},
    fuzz, load,
    quickstart::{self, Audience, Ending, Quickstart},
    systemd,
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
    Dist(DistArgs),
    /// Measures; the last line is the figures as `key=value` pairs.
    #[command(subcommand)]
    Bench(Bench),
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
        only: Vec<faults::Part>,
        #[command(subcommand)]
        campaign: Option<Faults>,
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
    /// A Debian is made by debootstrap the first time; every machine is a copy of it that systemd-nspawn boots. The last
    /// line is the figures, and any violation is a failure. Needs root.
    SystemdFleet {
        /// Every case once.
        #[arg(long)]
        short: bool,
    },
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

#[derive(Debug, Args)]
struct DistArgs {
    /// Where everything goes.
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
    /// The agent's version, instead of the workspace's.
    #[arg(long)]
    version: Option<String>,
    /// Programs as they are tested every day, not as they are shipped: a look at the packages in a minute.
    #[arg(long)]
    daily: bool,
    /// The private keys that sign the release; each one's public key lies beside it.
    #[arg(long, value_name = "FILE", requires = "sequence")]
    key: Vec<PathBuf>,
    /// The release's place in the order of releases.
    #[arg(long, requires = "key")]
    sequence: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// From a node's report to the arrival of the next node's spec, in a pool that takes one node at a time.
    ///
    /// Control and the gateway are real; the nodes are simulated: they hold real sessions and answer at once.
    Road {
        /// How many nodes the rollout has.
        #[arg(long, default_value_t = 200)]
        nodes: usize,
    },
    /// The planner on SQLite and on PostgreSQL: rollouts created, passes, starts and pauses, from inside one process.
    ///
    /// What is written is compared with the same rows written with nothing around them, in the same run. The worse database
    /// counts. A goal that is missed by far is a failure. Needs PostgreSQL 15 under /usr/lib/postgresql for its part. For
    /// figures worth keeping set CARGO_PROFILE_DEV_OPT_LEVEL=2.
    Control {
        /// 100,000 nodes instead of 1,000,000, and each thing once: about a minute.
        #[arg(long)]
        short: bool,
    },
    /// The agent as it is shipped: its size, what it costs while it is idle, and its updates against the least possible.
    ///
    /// Real nodes, supervised, update themselves again and again from loopback; between their updates run a one-pass
    /// download as the floor, and curl, tee and sha256sum. Ratios are medians of each round's own. Helper and watchdog
    /// are looked at too, by root. The first time it takes minutes to build; after that, about two. Needs curl and
    /// strace.
    Agent {
        /// Fewer rounds, and a shorter look at the idle node: about a minute.
        #[arg(long)]
        short: bool,
        /// A static agent that was built before, instead of building it now.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
    /// Updates of the agent as it is shipped, and with --peers the same by systemd-sysupdate, in the same rounds.
    ///
    /// That runs out of a Debian trixie in a folder, which debootstrap makes where there is none. Needs root.
    Update {
        /// Against systemd-sysupdate too.
        #[arg(long)]
        peers: bool,
        /// Where the Debian is, or is to be.
        #[arg(long, value_name = "DIR", default_value = "target/peers/trixie")]
        root: PathBuf,
        /// A static agent that was built before, instead of building it now.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum Faults {
    /// Changes a file in every way while a real helper takes it, and looks whether anything unsigned gets in.
    ///
    /// Builds that look before they copy, or that go by the file's name, have to lose within a second.
    Race {
        /// How many requests.
        #[arg(long, default_value_t = 500_000)]
        tries: u64,
    },
    /// Does to a real gateway what no node does, kills it with all its sessions, and lets thousands of clients drip.
    ///
    /// Nodes are simulated, at the pace of real ones. Honest ones must notice nothing. The full form has ten thousand
    /// sessions and ten thousand dripping clients for ten minutes, and is for a machine that does nothing else.
    Gateway {
        /// Some hundred sessions and clients: about a minute.
        #[arg(long)]
        short: bool,
        /// Only these parts.
        #[arg(long, value_enum, value_delimiter = ',')]
        only: Vec<faults::gateway::Part>,
        /// For how long clients drip: ten minutes in the full form.
        #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
        drip: Option<std::time::Duration>,
        /// A gateway that was built before, instead of building it now.
        #[arg(long, value_name = "FILE")]
        gateway: Option<PathBuf>,
    },
    /// Kills and freezes control, gateway, supervisors and nodes at random while rollouts run.
    ///
    /// Every rollout has to complete, and node and control have to agree about it afterwards.
    Kills {
        /// How many rollouts, one after the other.
        #[arg(long, default_value_t = 6)]
        rounds: u64,
        /// What decides who is struck, how and when; another one each time by default.
        #[arg(long)]
        seed: Option<u64>,
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
        Task::Bench(bench) => run_bench(bench).await?,
        Task::Dist(args) => run_dist(args).await?,
        Task::Simulate { args } => packaging::build::simulator(&args).await?,
        Task::Faults {
            short,
            only,
            campaign,
        } => {
            let extent = if short { Extent::Short } else { Extent::Full };
            run_faults(extent, &only, campaign).await?;
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
        Task::SystemdFleet { short } => run_machines(short).await?,
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

async fn run_bench(bench: Bench) -> Result<()> {
    match bench {
        Bench::Road { nodes } => {
            let figures = bench::road::run(nodes).await?;
            writeln!(io::stdout(), "{figures}")?;
        }
        Bench::Control { short } => {
            use bench::control::Extent;
            let extent = if short { Extent::SHORT } else { Extent::FULL };
            let figures = bench::control::run(extent, tell).await?;
            writeln!(io::stdout(), "{figures}")?;
            let missed = figures.missed();
            ensure!(missed.is_empty(), "{}", missed.join("\n"));
        }
        Bench::Agent { short, agent } => {
            use bench::agent::Extent;
            let extent = if short { Extent::SHORT } else { Extent::FULL };
            let figures = bench::agent::run(extent, agent.as_deref(), |line| {
                drop(writeln!(io::stderr(), "{line}"));
            })
            .await?;
            writeln!(io::stdout(), "{figures}")?;
        }
        Bench::Update { peers, root, agent } => {
            let tell = |line: &str| drop(writeln!(io::stderr(), "{line}"));
            let figures = if peers {
                bench::agent::against_sysupdate(&root, agent.as_deref(), tell)
                    .await?
                    .to_string()
            } else {
                bench::agent::run(bench::agent::Extent::SHORT, agent.as_deref(), tell)
                    .await?
                    .to_string()
            };
            writeln!(io::stdout(), "{figures}")?;
        }
    }
    Ok(())
}

async fn run_dist(args: DistArgs) -> Result<()> {
    let DistArgs {
        out,
        version,
        daily,
        key: keys,
        sequence,
    } = args;
    let what = Dist {
        out,
        version,
        builds: if daily {
            Builds::Daily
        } else {
            Builds::Shipped
        },
        signing: sequence.map(|sequence| Signing { sequence, keys }),
    };
    writeln!(io::stdout(), "{}", dist::run(what, tell).await?)?;
    Ok(())
}

async fn run_machines(short: bool) -> Result<()> {
    let extent = if short {
        systemd::Extent::Short
    } else {
        systemd::Extent::Full
    };
    let findings = systemd::run(extent).await?;
    writeln!(io::stdout(), "{findings}")?;
    ensure!(findings.violations.is_empty(), "expected no violation");
    Ok(())
}

async fn run_faults(extent: Extent, only: &[faults::Part], campaign: Option<Faults>) -> Result<()> {
    match campaign {
        None => report(&faults::run(extent, only, tell).await?),
        Some(Faults::Race { tries }) => report(&faults::race::run(tries, tell).await?),
        Some(Faults::Gateway {
            short,
            only,
            drip,
            gateway,
        }) => {
            let order = faults::gateway::Order {
                extent: if short { Extent::Short } else { Extent::Full },
                only,
                drip,
                gateway,
            };
            let figures = faults::gateway::run(&order, tell).await?;
            writeln!(io::stdout(), "{figures}")?;
            ensure!(
                figures.is_good(),
                "expected no violation:\n{}",
                figures.violations.join("\n")
            );
            Ok(())
        }
        Some(Faults::Kills { rounds, seed }) => {
            let seed = seed.unwrap_or_else(rand::random);
            let findings = faults::kills::run(Campaign { rounds, seed }).await?;
            writeln!(io::stdout(), "{findings}")?;
            ensure!(
                findings.violations.is_empty(),
                "expected no violation; seed {seed}"
            );
            Ok(())
        }
    }
}

/// Prints the figures; violations and mistakes that nobody noticed are an error.
fn report(figures: &faults::Figures) -> Result<()> {
    writeln!(io::stdout(), "{figures}")?;
    ensure!(
        figures.is_good(),
        "expected no violation, and every deliberate mistake to be noticed:\n{}",
        figures.violations.join("\n")
    );
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
