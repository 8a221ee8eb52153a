//! Fuzzes the opening of a log segment of DTranx; the checks are in `dtranx.rs`.

#![no_main]

#[path = "../dtranx.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::segment(bytes));
