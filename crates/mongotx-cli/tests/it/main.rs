//! The integration tests of `mongotx-cli`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod bank;
mod bench;
mod bench_docs;
mod bench_overhead;
mod bench_queries;
mod bench_report;
mod checkpoint;
mod common;
mod demo;
mod demo_web;
mod doc_links;
mod failover;
mod mongod_path;
mod serve;
mod serve_operations;
mod tools;
mod user;
