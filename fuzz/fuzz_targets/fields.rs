//! Fuzzes the reader of a command's fields; the checks are in `harness.rs`.

#![no_main]

#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::fields(bytes));
