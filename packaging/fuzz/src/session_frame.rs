//! Fuzzes what `protocol/tests/strangers/session_frame.rs` says.
#![no_main]

#[path = "../../../protocol/tests/strangers/session_frame.rs"]
mod session_frame;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| session_frame::hold(bytes));
