//! The fleet: pools, what joins them, and what nodes say. Facts enter control here and nowhere else.

pub(crate) mod disruption;
pub(crate) mod facts;
