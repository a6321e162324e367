//! Rollouts: one release, moved through a fleet in waves.
//!
//! Takes facts from `fleet` and releases from `release`, and decides which node is told what, and when. The deciding
//! modules are pure: a snapshot goes in, a plan comes out. Never sees a session, and never knows what a spec looks like.

pub(crate) mod controller;
pub(crate) mod service;
pub(crate) mod state;
pub(crate) mod target;

mod budget;
mod explain;
mod forecast;
mod gate;
mod hold;
mod late;
pub(crate) mod limits;
mod operator;
mod plan;
mod settle;
#[cfg(any(test, feature = "simulation"))]
pub(crate) mod simulation;
mod snapshot;
mod store;
pub(crate) mod unread;
mod waker;
pub(crate) mod waves;

pub(crate) use forecast::NOBODY_TAKES_IT;
pub(crate) use store::{board, census::refusing, listing};

/// What measurements need of the inside.
#[cfg(feature = "bench")]
pub(crate) mod bench {
    pub(crate) use super::{
        controller::{pass_over, spawn},
        waker::News,
        waves::sort_key,
    };

    /// That everything is to be looked at.
    pub(crate) fn everything() -> News {
        News::everything()
    }
}

#[cfg(test)]
pub(crate) mod tests;
