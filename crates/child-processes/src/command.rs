//! Runs an external command to its end within a time limit, and keeps its output.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Error;

const POLL: Duration = Duration::from_millis(20);

/// Exit status of a command, and its output: standard output and standard error in one text.
pub struct Finished {
    /// Exit status of the program.
    pub status: ExitStatus,
    /// Output of the program, both streams in one.
    pub said: String,
}

/// Runs `command` and waits for it. At `limit` the command and all it started are killed.
///
/// The output goes through a file and not a pipe, so that a command with much of it never blocks on
/// its reader.
///
/// # Errors
/// [`Error::Command`], [`Error::CommandTimeout`].
pub fn run_limited(mut command: Command, limit: Duration) -> Result<Finished, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |source| Error::Command { program: program.clone(), source };
    let mut words = tempfile::tempfile().map_err(failed)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(words.try_clone().map_err(failed)?)
        .stderr(words.try_clone().map_err(failed)?)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    match wait_until(&mut child, Instant::now() + limit).map_err(failed)? {
        Some(status) => Ok(Finished { status, said: read_all(&mut words).map_err(failed)? }),
        None => {
            end_group(&mut child);
            Err(Error::CommandTimeout { program, limit })
        }
    }
}

/// Waits for a child until `deadline`; `None` when it is still running then.
pub(crate) fn wait_until(child: &mut Child, deadline: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        sleep(POLL);
    }
}

fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The group may have ended by itself meanwhile; either way nothing of it is left.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = wait_until(child, Instant::now() + Duration::from_secs(5));
}

fn read_all(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_outputs_are_kept() {
        let done = run_limited(shell("echo out; echo err >&2; exit 3"), Duration::from_secs(60)).unwrap();
        assert_eq!(done.said, "out\nerr\n");
        assert_eq!(done.status.code(), Some(3));
    }

    #[test]
    fn a_command_over_its_limit_is_ended_and_named() {
        let error = run_limited(shell("sleep 600"), Duration::ZERO).err().unwrap();
        assert!(matches!(error, Error::CommandTimeout { ref program, .. } if program == "sh"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = run_limited(Command::new("no-such-program"), Duration::from_secs(60)).err().unwrap();
        assert!(error.to_string().contains("no-such-program"), "{error}");
    }
}
