//! The fleet: pools, what joins them, and what nodes say. Facts enter control here and nowhere else.

pub(crate) mod authority;
pub(crate) mod change;
pub(crate) mod disruption;
pub(crate) mod facts;
pub(crate) mod gateway;
pub(crate) mod join;
pub(crate) mod join_token;
pub(crate) mod late;
pub(crate) mod node;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod renew;
