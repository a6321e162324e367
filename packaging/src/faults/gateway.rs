//! What no peer, cut or kill may do to a gateway: `cargo xtask faults gateway`.
//!
//! Drives the real `bc-gateway` on loopback: real TLS sessions of simulated nodes, which keep the pace of real ones, and
//! a stand-in for control that believes everything and writes it down. Peers do what no node does, connections are cut
//! after each step, one credential is used in two places, ten thousand sockets drip, and the gateway is killed with all
//! its sessions. Whatever happens, an honest node beside it notices nothing.

mod cuts;
mod drip;
mod hostile;
mod house;
mod node;
mod raw;
mod records;
mod returns;

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::Result;
use clap::ValueEnum as _;

use super::Extent;
use crate::{build, fleet::now};

/// A part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// Peers that do what no node does.
    Strangers,
    /// Cuts, repeats, half-open connections and clones.
    Cuts,
    /// A kill with all sessions.
    Kill,
    /// Clients that drip.
    Drip,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// What peers did that no node does, and cuts.
    pub points: usize,
    /// What must not be and was.
    pub violations: Vec<String>,
    returns: returns::Figures,
    drip: drip::Figures,
}

impl Figures {
    /// Whether nothing was found that must not be.
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    fn add(&mut self, found: Found) {
        self.points += found.points;
        self.violations.extend(found.violations);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "points={} {} {} violations={}",
            self.points,
            self.returns,
            self.drip,
            self.violations.len(),
        )
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub struct Order {
    /// How much of it.
    pub extent: Extent,
    /// These parts, or all.
    pub only: Vec<Part>,
    /// For how long clients drip, if not as long as usual.
    pub drip: Option<Duration>,
    /// A gateway that was built before, instead of building it now.
    pub gateway: Option<PathBuf>,
}

/// Does what is ordered; `tell` is told as it goes.
pub async fn run(order: &Order, tell: impl Fn(&str)) -> Result<Figures> {
    let extent = order.extent;
    let gateway = match &order.gateway {
        Some(built) => built.clone(),
        None => build::gateway().await?,
    };
    let begun = now();
    let tell = |line: &str| tell(&format!("{:.0?} {line}", begun.elapsed()));
    let mut figures = Figures::default();
    let parts = match order.only.as_slice() {
        [] => Part::value_variants(),
        some => some,
    };
    for part in parts {
        match part {
            Part::Strangers => figures.add(hostile::run(&gateway).await?),
            Part::Cuts => figures.add(cuts::run(&gateway).await?),
            Part::Kill => {
                let (returned, violations) = returns::run(&gateway, extent).await?;
                figures.returns = returned;
                figures.violations.extend(violations);
            }
            Part::Drip => {
                let (dripped, violations) = drip::run(&gateway, extent, order.drip, &tell).await?;
                figures.drip = dripped;
                figures.violations.extend(violations);
            }
        }
        tell(&format!("{part:?}: {figures}"));
    }
    Ok(figures)
}

/// What a part has tried and found.
#[derive(Debug, Default)]
struct Found {
    points: usize,
    violations: Vec<String>,
}

impl Found {
    /// One more was tried, and this is what was wrong with it, if anything was.
    fn count(&mut self, what: &str, tried: Result<()>) {
        self.points += 1;
        if let Err(error) = tried {
            self.violations.push(format!("{what}: {error:#}"));
        }
    }
}
