//! Running the real binary and looking at what it leaves behind.

#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "test code")]

use std::{
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

/// The binary with these arguments.
pub fn mongotx_bench<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mongotx-bench"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Its exit status and everything it wrote.
pub fn run_bench<'a>(args: impl IntoIterator<Item = &'a str>) -> (i32, String) {
    told(&mongotx_bench(args).output().unwrap())
}

/// The exit status and both outputs in one text.
pub fn told(output: &Output) -> (i32, String) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), said.concat())
}

/// The command lines of all processes that mention one of these words.
pub fn processes_with(words: &[&str]) -> Vec<String> {
    let lines = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| words.iter().any(|word| line.contains(word))).collect()
}

/// Waits until it is true, for minutes if need be.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("never came true: {what}");
}
