//! Many simulated nodes, each with a real session.
//!
//! A [`swarm`] opens TLS 1.3 connections with a client certificate a node, says Hello, answers pings, takes specs,
//! reports and comes back at the pace of a real agent. It installs nothing: what is loaded is gateway and control. Nodes
//! come from control's join tokens, or of an [`authority`] of one's own for a gateway that has a stand-in for control
//! ([`link`]). One process holds as many nodes as it may open files; a [`worker`] is another process with more of
//! them. [`peers`] speaks to others' brokers in the same way, for comparison.

pub mod authority;
pub mod crew;
pub mod fleet;
pub mod link;
pub mod peers;
pub mod plan;
pub mod processors;
pub mod publisher;
pub mod swarm;
pub mod worker;

mod bare;
mod conversation;
mod credentials;
mod node;
mod tally;

use std::time::Duration;

use anyhow::Result;
use nix::{
    sys::resource::{Resource, getrlimit, setrlimit},
    time::{ClockId, clock_gettime},
};

pub use plan::{Manner, Plan, Source, Speech, Status};
pub use swarm::Swarm;

/// Sessions that one process holds: a process may open 20,000 files on the smallest machines.
pub const SESSIONS_PER_PROCESS: usize = 18_000;

/// Lets this process, and those that it starts from now on, open as many files as the system allows them.
pub fn open_files() -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, most, most)?)
}

/// A clock that all processes of a machine read alike, from some moment in the past.
pub fn monotonic() -> Duration {
    // It cannot fail for this clock; and a load generator that reads zero shows it in every figure.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}
