//! Fuzzes `bcd::strangers::helper_frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bcd::strangers::helper_frame(bytes));
