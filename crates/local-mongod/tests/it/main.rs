//! The integration tests of `local-mongod`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod modules;
mod orphan;
mod replica_set;
mod server;
