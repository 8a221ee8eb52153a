//! The integration tests of `txbench`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod acid;
mod bank;
mod checkin;
mod common;
mod engine;
mod every_target;
mod example;
mod matrix;
mod modules;
mod mvcc;
mod nodes;
mod papers;
mod recipe;
mod refused;

mod tpcc;

// The examples of `docs/workbench.md` name the library's modules as from within it.
use txbench::{error, targets, workload};
