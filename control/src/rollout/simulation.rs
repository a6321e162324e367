//! Rollouts without a database.
//!
//! The one thing that a simulator has to make up is what the store does in SQL, so this is the store once more, as small
//! as it can be: rows in maps, snapshots read from them, plans written to them. What is decided is decided by the shipped
//! planner. A test drives the real store and these rows with one sequence of facts and calls, and holds the two against
//! each other. Compiled for tests and with the feature `simulation`.

pub(crate) use super::{
    operator::{Call, Flights},
    snapshot::{Freeze, Scope},
};

pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod create;
pub(crate) mod late;
pub(crate) mod pass;
pub(crate) mod rows;
pub(crate) mod standing;
pub(crate) mod view;
pub(crate) mod write;

#[cfg(test)]
mod tests;
