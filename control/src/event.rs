//! What happened, in order: written by whatever causes it, read by whoever wants to know.

pub(crate) mod cause;
pub(crate) mod filter;
pub(crate) mod kinds;
pub(crate) mod news;
pub(crate) mod outbox;
pub(crate) mod read;
pub(crate) mod sight;
pub(crate) mod watch;
pub(crate) mod webhook;
