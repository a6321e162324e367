//! What the API takes and gives: one set of types for the server, the command line and the API's description.
//!
//! Every request refuses fields that it does not know. Checks that need no database are in the types themselves;
//! the rest is the business of whoever carries the request out.

pub(crate) mod access;
pub(crate) mod command;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod fleet;
pub(crate) mod freeze;
pub(crate) mod gateway;
mod object;
pub(crate) mod reason;
pub(crate) mod release;
pub(crate) mod rollout;
pub(crate) mod words;
pub(crate) mod workflow;
