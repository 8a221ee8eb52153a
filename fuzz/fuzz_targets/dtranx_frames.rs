//! Fuzzes the reader of DTranx connections; the checks are in `dtranx.rs`.

#![no_main]

#[path = "../dtranx.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::frames(bytes));
