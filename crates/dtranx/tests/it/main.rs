//! Integration tests of `dtranx`: one program with a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod corpus;
mod disks;
mod limit;
mod log;
mod modules;
mod processes;
mod server;
mod stage;
mod storage;
mod wire;
mod wire_document;
