//! Crash at every step: a client's process, and mongod itself, die at each named step of the protocol.
//!
//! [`plan`] lives each scenario once undisturbed and notes which steps it reaches and how often; [`client`] kills the
//! client's process at each of them, [`server`] the server. After each, `common::verify` checks the properties. [`holes`]
//! kills the server where un-journaled writes matter most.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod client;
mod holes;
mod plan;
mod server;

/// What runs in the processes that are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_process() {
    common::worker::live_or_check_words().await;
}
