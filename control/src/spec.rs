//! Nodes' desired state: computed from rows whenever it is read, never stored as a decision.

pub(crate) mod store;

pub(crate) mod compute;

#[cfg(test)]
pub(crate) mod tests;
