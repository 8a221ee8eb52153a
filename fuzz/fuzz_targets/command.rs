//! Fuzzes the reader of a command's body and document sequences; the checks are in `harness.rs`.

#![no_main]

#[path = "../harness.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::command(bytes));
