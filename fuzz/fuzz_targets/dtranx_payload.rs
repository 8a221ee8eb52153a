//! Fuzzes the readers of DTranx messages and log records; the checks are in `dtranx.rs`.

#![no_main]

#[path = "../dtranx.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::payload(bytes));
