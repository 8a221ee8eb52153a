//! Running the real binary and looking at what it leaves behind.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "test code")]

use std::{
    process::{Command, Output, Stdio},
    thread::sleep,
    time::Duration,
};

/// The binary with these arguments.
pub fn mongotx<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mongotx"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Its exit status and everything it wrote.
pub fn run_mongotx<'a>(args: impl IntoIterator<Item = &'a str>) -> (i32, String) {
    told(&mongotx(args).output().unwrap())
}

/// The exit status and both outputs in one text.
pub fn told(output: &Output) -> (i32, String) {
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (output.status.code().unwrap_or(-1), said.concat())
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
