//! Control: the registry of releases, the planner of rollouts, the computer of specs, the API; and the command line.
//!
//! One binary: `better-compute serve` is the service, everything else talks to one or works offline.

mod access;
mod api;
mod backup;
#[cfg(feature = "bench")]
pub mod bench;
mod chance;
pub mod cli;
mod clock;
mod command;
mod config;
mod console;
mod daemon;
mod db;
mod docs;
mod downloads;
mod event;
mod files;
mod fleet;
mod http;
mod link;
mod metrics;
mod peers;
mod release;
mod rollout;
mod serve;
#[cfg(any(test, feature = "simulation"))]
pub mod simulation;
mod spec;
mod workflow;
