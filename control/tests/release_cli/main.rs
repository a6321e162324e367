//! The release ceremony and every way that it can be refused, with the real program and real files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod ceremony;
mod desk;
mod refusals;
