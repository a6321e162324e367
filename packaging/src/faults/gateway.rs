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

use std::fmt;

use anyhow::Result;

use super::Extent;
use crate::{build, fleet::now};

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

/// Does all of it; `tell` is told as it goes.
pub async fn run(extent: Extent, tell: impl Fn(&str)) -> Result<Figures> {
    let gateway = build::gateway().await?;
    let begun = now();
    let tell = |line: &str| tell(&format!("{:.0?} {line}", begun.elapsed()));
    let mut figures = Figures::default();
    let found = hostile::run(&gateway).await?;
    figures.points += found.points;
    figures.violations.extend(found.violations);
    tell(&format!(
        "peers that are no nodes: {} points",
        figures.points
    ));
    let found = cuts::run(&gateway).await?;
    figures.points += found.points;
    figures.violations.extend(found.violations);
    tell(&format!("cuts and clones: {} points", figures.points));
    let (returned, violations) = returns::run(&gateway, extent).await?;
    figures.returns = returned;
    figures.violations.extend(violations);
    tell(&format!("killed: {}", figures.returns));
    let (dripped, violations) = drip::run(&gateway, extent, &tell).await?;
    figures.drip = dripped;
    figures.violations.extend(violations);
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
