//! How a node replaces its own binary, and goes back by itself.
//!
//! [`record`] is the only truth about which slot runs. [`machine`] decides what an attempt does next and [`boot`] what
//! starts; both are pure. [`host`] carries out what needs the right to write slots and record. Nothing here knows what
//! a session is: `node` drives an attempt, and a supervisor judges a trial.

pub(crate) mod attempt;
pub(crate) mod boot;
pub(crate) mod executor;
pub(crate) mod expiry;
pub(crate) mod host;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod operations;
pub(crate) mod preflight;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod running;
pub(crate) mod watchdog;
