//! Fuzzes `bcd::strangers::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bcd::strangers::record(bytes));
