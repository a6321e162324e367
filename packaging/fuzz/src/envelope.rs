//! Fuzzes what `protocol/tests/strangers/envelope.rs` says.
#![no_main]

#[path = "../../../protocol/tests/strangers/envelope.rs"]
mod envelope;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| envelope::hold(bytes));
