//! Fuzzes the reader of a server's message to the gateway; the checks are in `harness.rs`.

#![no_main]

#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::answer(bytes));
