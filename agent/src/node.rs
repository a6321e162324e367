//! The node's network side: it keeps a session, fetches what the updater asks for and reports what happens.

mod connect_seq;
pub(crate) mod fetch;
pub(crate) mod limits;
mod line;
mod session;
mod socket;
pub(crate) mod update;
