//! The integration tests of `mongotx-bench`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod bank;
mod bench;
mod bench_docs;
mod bench_overhead;
mod bench_queries;
mod bench_report;
mod common;
mod demo;
mod demo_web;
mod generate;
mod modules;
mod results;
