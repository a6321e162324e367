//! Fuzzes what `protocol/tests/strangers/manifest.rs` says.
#![no_main]

#[path = "../../../protocol/tests/strangers/manifest.rs"]
mod manifest;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| manifest::hold(bytes));
