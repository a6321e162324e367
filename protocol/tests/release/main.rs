//! The judgement on manifests, held against named vectors, public vectors and properties.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod cases;
mod ceremony;
mod forge;
mod json_test_suite;
mod limits;
mod properties;
mod vectors;
mod wycheproof;
