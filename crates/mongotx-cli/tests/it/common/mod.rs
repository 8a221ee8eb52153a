//! Runs the real binary and looks at what it leaves behind.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "test code")]

use std::process::{Command, Stdio};

pub use local_mongod::{status_and_output, until};

/// The binary with these arguments.
pub fn mongotx<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mongotx"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the binary. Returns its exit status and all that it wrote.
pub fn run_mongotx<'a>(args: impl IntoIterator<Item = &'a str>) -> (i32, String) {
    status_and_output(&mongotx(args).output().unwrap())
}
