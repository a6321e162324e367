//! Events: what happened, written with the change that it reports.

pub(crate) mod outbox;
