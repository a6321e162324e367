//! Fuzzes what `protocol/tests/strangers/link_frame.rs` says.
#![no_main]

#[path = "../../../protocol/tests/strangers/link_frame.rs"]
mod link_frame;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| link_frame::hold(bytes));
