//! A test's process of its own, which can be killed: the test binary run again, with one exact test
//! and a job in the environment. It reports in lines that begin with `@`, because the test harness
//! writes to the same output.
//!
//! The test that is run is an ordinary one: without a job it has nothing to do but to check that
//! every job can be written and read.

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{ChildStdout, Command, Stdio},
};

/// First character of a line that is a report.
const REPORT: char = '@';

/// A command that starts this very program again, to run one test that has a job. Its output is a
/// pipe.
///
/// # Errors
/// Where the operating system does not know the path of this program.
pub fn again(test: &str, variable: &str, job: &str) -> std::io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(variable, job).stdout(Stdio::piped());
    Ok(command)
}

/// Calls `hear` with each report of a process, until it ends.
pub fn listen(out: ChildStdout, hear: impl Fn(String) + Send + 'static) {
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(words) = heard(&line) {
                hear(words.to_owned());
            }
        }
    });
}

/// The report in a line of a process, if it is one.
pub fn heard(line: &str) -> Option<&str> {
    line.strip_prefix(REPORT)
}

/// Reports to the test that has started this process. The harness may have left a line unfinished.
///
/// # Errors
/// Where no process reads the output any more.
pub fn report(words: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{REPORT}{words}")?;
    out.flush()
}

/// Waits until the test closes this process's input, or ends.
///
/// # Errors
/// Where the input cannot be read.
pub fn until_released() -> std::io::Result<()> {
    std::io::stdin().read_to_end(&mut Vec::new()).map(drop)
}
