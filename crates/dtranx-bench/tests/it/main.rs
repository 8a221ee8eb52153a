//! The integration tests of `dtranx-bench`: one program, a module for each topic.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bad_input;
mod dtranx;
mod modules;
mod techniques;
