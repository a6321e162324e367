//! `cargo xtask simulate`: the product as one program, with faults from a seed.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::{Result, ensure};
use clap::Parser;
use packaging::simulate::{self, Campaign, Mistake};

/// Simulates planner, gateways and nodes under one scheduler and one virtual clock, with faults from a seed.
#[derive(Debug, Parser)]
struct Args {
    /// Seeds to run.
    #[arg(long, default_value_t = 2_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Run this seed alone, and print what happens.
    #[arg(long)]
    seed: Option<u64>,
    /// Plant this mistake, with `--seed`.
    #[arg(long, requires = "seed")]
    planted: Option<Mistake>,
    /// The short form: 2,000 seeds.
    #[arg(long, conflicts_with = "seeds")]
    short: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<()> {
    if let Some(seed) = args.seed {
        let broken = simulate::replay(seed, args.planted, tell);
        writeln!(io::stdout(), "seed={seed} violations={}", broken.len())?;
        ensure!(
            broken.is_empty(),
            "expected nothing to break:\n{}",
            broken.join("\n")
        );
        return Ok(());
    }
    let seeds = args.seeds;
    let campaign = Campaign {
        first: args.first,
        seeds,
    };
    let figures = simulate::run(campaign, tell)?;
    tell(&format!("{} steps", figures.steps));
    writeln!(io::stdout(), "{figures}")?;
    ensure!(
        figures.is_good(),
        "expected no violation and every mistake to be caught; missed: {:?}",
        figures.missed
    );
    Ok(())
}

fn tell(line: &str) {
    // Nobody is left to tell if standard error is closed.
    drop(writeln!(io::stderr(), "{line}"));
}
