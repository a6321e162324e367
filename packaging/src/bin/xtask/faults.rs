//! `cargo xtask faults`: one subcommand a campaign.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use anyhow::{Result, ensure};
use clap::Subcommand;
use packaging::faults::{self, Extent, Part, kills};

use crate::tell;

#[derive(Debug, Subcommand)]
pub(crate) enum Campaign {
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
    /// Kills and stops two controls on one PostgreSQL, cuts their COMMITs, restarts it, and has operators call all the while.
    ///
    /// Nodes are simulated and hold real sessions. The database writes down every move, and after each rollout all of it
    /// is looked at. Needs PostgreSQL 15 under /usr/lib/postgresql.
    Control {
        /// How many rollouts, one after the other.
        #[arg(long, default_value_t = 200)]
        rounds: u64,
        /// Five of them: about a minute.
        #[arg(long, conflicts_with = "rounds")]
        short: bool,
        /// What decides the blows and the calls; another one each time by default.
        #[arg(long)]
        seed: Option<u64>,
        /// A folder with a control and a gateway that were built before, instead of building them now.
        #[arg(long, value_name = "DIR")]
        programs: Option<PathBuf>,
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

/// Runs one campaign, or everything that can happen to a node's updates, and prints its figures.
pub(crate) async fn run(extent: Extent, only: &[Part], campaign: Option<Campaign>) -> Result<()> {
    match campaign {
        None => report(&faults::run(extent, only, tell).await?),
        Some(Campaign::Race { tries }) => report(&faults::race::run(tries, tell).await?),
        Some(Campaign::Gateway {
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
        Some(Campaign::Control {
            rounds,
            short,
            seed,
            programs,
        }) => {
            strike_controls(faults::control::Campaign {
                rounds: if short { 5 } else { rounds },
                seed: seed.unwrap_or_else(rand::random),
                programs,
            })
            .await
        }
        Some(Campaign::Kills { rounds, seed }) => {
            let seed = seed.unwrap_or_else(rand::random);
            let findings = kills::run(kills::Campaign { rounds, seed }).await?;
            writeln!(io::stdout(), "{findings}")?;
            ensure!(
                findings.violations.is_empty(),
                "expected no violation; seed {seed}"
            );
            Ok(())
        }
    }
}

async fn strike_controls(campaign: faults::control::Campaign) -> Result<()> {
    let seed = campaign.seed;
    let Some(findings) = faults::control::run(campaign, tell).await? else {
        return Ok(());
    };
    writeln!(io::stdout(), "{findings}")?;
    ensure!(
        findings.violations.is_empty(),
        "expected no violation; seed {seed}:\n{}",
        findings.violations.join("\n")
    );
    Ok(())
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
