#![no_main]

#[path = "../dtranx.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::segment(bytes));
