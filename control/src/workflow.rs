//! Workflows: work on single nodes that shares the pools' budgets with rollouts.
//!
//! A workflow is somebody else's: control does not carry it out. It only counts, from its creation to its end, so that
//! no rollout starts a node beyond the budget beside it. It asks no budget itself: what repairs a node must not wait
//! for what could break more of them, and over the bound no rollout starts anything.

pub(crate) mod error;
pub(crate) mod lifecycle;
pub(crate) mod store;
