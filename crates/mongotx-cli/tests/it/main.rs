//! The integration tests of `mongotx-cli`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod checkpoint;
mod common;
mod doc_links;
mod failover;
mod holder;
mod modules;
mod mongod_path;
mod serve;
mod serve_operations;
mod tools;
mod user;
