//! Runs the real binary and looks at what it leaves behind.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "test code")]

use std::process::{Command, Stdio};

pub use local_mongod::{status_and_output, until};

/// The binary with these arguments.
pub fn mongotx_bench<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mongotx-bench"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs `mongotx-bench`. Returns its exit status and all that it wrote.
pub fn run_bench<'a>(args: impl IntoIterator<Item = &'a str>) -> (i32, String) {
    status_and_output(&mongotx_bench(args).output().unwrap())
}

/// The command lines of all processes that mention one of these words.
pub fn processes_with(words: &[&str]) -> Vec<String> {
    let lines = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| words.iter().any(|word| line.contains(word))).collect()
}
