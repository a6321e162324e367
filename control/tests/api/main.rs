//! The API of the real service, over real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod access;
mod backup;
#[cfg(feature = "blob")]
mod blob;
mod codes;
mod contract;
mod downloads;
mod events;
mod full;
mod guard;
mod happened;
mod headers;
mod input;
mod joining;
mod limits;
mod methods;
mod pools;
mod postgres;
mod releases;
mod rollouts;
mod rows;
mod server;
mod start;
mod tenants;
mod webhooks;
