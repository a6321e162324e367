//! `cargo xtask bench`: one subcommand a benchmark.

use std::{
    io::{self, Write},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use packaging::bench;

use crate::tell;

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
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
    /// counts. A goal that is missed by far is a failure. Needs PostgreSQL 15 under /usr/lib/postgresql for its part. What is
    /// measured is optimised, in target/bench, which takes minutes to build the first time.
    Control {
        /// 100,000 nodes instead of 1,000,000, each thing once, and a daily build: about a minute, for no figures worth keeping.
        #[arg(long)]
        short: bool,
    },
    /// The console's pages with 10,000 nodes: how long each takes, and how much of it goes over the wire.
    ///
    /// Control and the gateway are real; the nodes are simulated, and joined and hold real sessions. A first page
    /// that misses its goal is a failure. For figures worth keeping set CARGO_PROFILE_DEV_OPT_LEVEL=2.
    Console {
        /// 500 nodes and fewer requests: about half a minute.
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
    /// How long a node takes to go back from a release that is no good, after its deadline.
    Back {
        /// An agent that was built before, instead of building the one that is shipped now.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
    /// How long the command line takes to start, beside a program that does nothing.
    ///
    /// Medians of many starts, one after the other. For figures worth keeping, give a program as it is shipped: this
    /// build's own is not optimised.
    Cli {
        /// 50 rounds instead of 500.
        #[arg(long)]
        short: bool,
        /// A `better-compute` that was built before, instead of building it now.
        #[arg(long, value_name = "FILE")]
        program: Option<PathBuf>,
    },
    /// What a session costs a gateway: memory, handshakes, ten thousand back after a kill, pushes, heartbeats.
    ///
    /// The gateway is optimised, its control a stand-in, the nodes simulated with real TLS sessions. --peers has
    /// nats-server and mosquitto do the same, over TLS 1.3 with client certificates too; they have to be installed, and
    /// are started and ended here. Without them there are only the floors: rustls alone, and a bare loop of writes. The
    /// first time it builds for minutes. Takes three minutes with peers, one without; best on a machine that does nothing
    /// else. For the storm on a processor of the server's own it needs taskset and two processors, of which it takes the first
    /// two.
    Gateway(GatewayArgs),
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

#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// Beside nats-server and mosquitto.
    #[arg(long)]
    peers: bool,
    /// A quarter of the sessions.
    #[arg(long)]
    short: bool,
    /// How often everything is done; figures are medians.
    #[arg(long)]
    rounds: Option<usize>,
    /// Instead of all that, hold 18,000 sessions for so long and look at the gateway's memory.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    soak: Option<Duration>,
    /// An optimised gateway that was built before; this program should be, too.
    #[arg(long, value_name = "FILE")]
    gateway: Option<PathBuf>,
}

async fn run_gateway(args: GatewayArgs) -> Result<()> {
    use bench::gateway::{Company, Extent, Order, again};
    let Some(gateway) = args.gateway else {
        return again(std::env::args().skip(1)).await;
    };
    let order = Order {
        extent: if args.short {
            Extent::SHORT
        } else {
            Extent::FULL
        },
        rounds: args.rounds,
        company: if args.peers {
            Company::Peers
        } else {
            Company::Floors
        },
        soak: args.soak,
        gateway,
    };
    let figures = bench::gateway::run(&order, tell).await?;
    writeln!(io::stdout(), "{figures}")?;
    Ok(())
}

/// Runs one benchmark and prints its figures.
pub(crate) async fn run(bench: Bench) -> Result<()> {
    match bench {
        Bench::Cli { short, program } => {
            let program = match program {
                Some(program) => program,
                None => packaging::build::programs().await?.control,
            };
            let rounds = if short { 50 } else { 500 };
            writeln!(io::stdout(), "{}", bench::cli::run(&program, rounds)?)?;
        }
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
        Bench::Console { short } => {
            use bench::console::Extent;
            let extent = if short { Extent::SHORT } else { Extent::FULL };
            let figures = bench::console::run(extent, tell).await?;
            writeln!(io::stdout(), "{figures}")?;
            let missed = figures.missed();
            ensure!(missed.is_empty(), "{}", missed.join("\n"));
        }
        Bench::Agent { short, agent } => {
            use bench::agent::Extent;
            let extent = if short { Extent::SHORT } else { Extent::FULL };
            let figures = bench::agent::run(extent, agent.as_deref(), tell).await?;
            writeln!(io::stdout(), "{figures}")?;
        }
        Bench::Back { agent } => {
            let figures = bench::agent::going_back(agent.as_deref()).await?;
            writeln!(io::stdout(), "{figures}")?;
        }
        Bench::Gateway(args) => run_gateway(args).await?,
        Bench::Update { peers, root, agent } => {
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
