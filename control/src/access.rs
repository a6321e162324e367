//! Who may do what.
//!
//! Takes a bearer token, gives its holder; takes a holder, an action and a thing, gives yes or a reason. Everything that
//! fails on the way means no.

pub(crate) mod action;
pub(crate) mod authzen;
pub(crate) mod bearer;
pub(crate) mod decide;
pub(crate) mod session;
pub(crate) mod token;
