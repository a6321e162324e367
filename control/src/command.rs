//! What nodes are to do once.
//!
//! Rows are the truth: gateways forget, nodes repeat themselves, and a command still has one end. [`lifecycle`] says what
//! may follow what and is pure; the rest reads and writes rows. What leaves for a node comes from rows that a transaction
//! has committed.

pub(crate) mod dispatch;
pub(crate) mod due;
pub(crate) mod lifecycle;
pub(crate) mod limits;
mod row;
pub(crate) mod settle;
pub(crate) mod store;
mod upgrade;

#[cfg(test)]
mod tests;
