//! What a session costs a gateway: `cargo xtask bench gateway`.
//!
//! An optimised gateway with a stand-in for control, simulated nodes with real sessions, and beside them, in the same
//! rounds, what others' brokers take for as much, or bare floors: rustls alone for a handshake, a loop of writes for a
//! push. Everything is on this machine, and everything is started and ended here.

mod figures;
mod floor;
mod look;
mod server;

use std::{
    collections::BTreeMap, os::unix::process::CommandExt as _, path::PathBuf, process::Command,
    time::Duration,
};

use anyhow::{Context, Result};

pub use figures::Figures;

use self::{
    figures::Round,
    server::{Programs, Subject},
};
use crate::{
    build,
    load::{SESSIONS_PER_PROCESS, authority::Authority, open_files},
};

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Sessions that are there before anything is looked at.
    first: usize,
    /// Sessions whose cost is looked at.
    sessions: usize,
    beating: Duration,
    rounds: usize,
}

impl Extent {
    /// For the figures that are written down.
    pub const FULL: Self = Self {
        first: 2000,
        sessions: 10_000,
        beating: Duration::from_secs(8),
        rounds: 1,
    };

    /// For a look in between.
    pub const SHORT: Self = Self {
        first: 500,
        sessions: 2500,
        beating: Duration::from_secs(4),
        rounds: 1,
    };

    fn most(self) -> usize {
        self.first + self.sessions
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Order {
    /// How much.
    pub extent: Extent,
    /// How often everything is done, if not once.
    pub rounds: Option<usize>,
    /// Whether others' brokers take part.
    pub company: Company,
    /// For how long as many sessions are held as one process may.
    pub soak: Option<Duration>,
    /// An optimised gateway; this program is optimised then, too.
    pub gateway: PathBuf,
}

/// Who is measured beside the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Bare floors alone.
    Floors,
    /// nats-server and mosquitto too.
    Peers,
}

/// Builds gateway and this program as they are when they are quick, and goes on as that. It returns only if it cannot.
pub async fn again(arguments: impl Iterator<Item = String>) -> Result<()> {
    let built = build::optimised_gateway().await?;
    let mut command = Command::new(&built.own);
    command.args(arguments).arg("--gateway").arg(&built.gateway);
    Err(command.exec()).with_context(|| format!("run {}", built.own.display()))
}

/// Measures; `tell` is told as it goes.
pub async fn run(order: &Order, tell: impl Fn(&str)) -> Result<Figures> {
    open_files()?;
    let programs = Programs {
        own: std::env::current_exe().context("find this program")?,
        gateway: order.gateway.clone(),
    };
    let mut figures = Figures::default();
    if let Some(span) = order.soak {
        let soaked = look::soak(&programs, SESSIONS_PER_PROCESS, span, &tell).await?;
        figures.soak_kib = Some(soaked);
        return Ok(figures);
    }
    let subjects: &[Subject] = match order.company {
        Company::Floors => &[Subject::Ours],
        Company::Peers => &[Subject::Ours, Subject::Nats, Subject::Mosquitto],
    };
    for _ in 0..order.rounds.unwrap_or(order.extent.rounds) {
        let mut looks = BTreeMap::new();
        let own = Authority::new()?.own().clone();
        let bare_push = look::bare(&programs, order.extent, &own).await?;
        let bare_handshake = floor::handshake()?;
        tell(&format!(
            "bare: {bare_handshake:?} a handshake, all told within {bare_push:?}"
        ));
        for subject in subjects {
            let seen = look::look(*subject, &programs, order.extent, &tell).await?;
            looks.insert(*subject, seen);
        }
        figures.rounds.push(Round {
            bare_handshake,
            bare_push,
            looks,
        });
    }
    Ok(figures)
}
