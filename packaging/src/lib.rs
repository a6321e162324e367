//! What turns the programs into a product.
//!
//! Everything here uses the programs as their users do: it builds them, starts them as processes and reads what they
//! print. [`fleet`] is a whole fleet on this machine; the quickstart, the whole-system tests and the benchmarks are
//! written on top of it.

pub mod bench;
pub mod browser;
pub mod build;
pub mod cluster;
pub mod dist;
pub mod docs;
pub mod faults;
pub mod fleet;
pub mod fuzz;
pub mod guide;
pub mod load;
pub mod pair;
pub mod pictures;
pub mod quickstart;
#[cfg(feature = "simulation")]
pub mod simulate;
pub mod simulated;
pub mod systemd;
