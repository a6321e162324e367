//! The real program against binaries that do everything wrong, without a network.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod boot;
mod trial;
mod watchdog;
mod world;
