//! Signals to processes, by their ids: end, pause, go on. Processes that this crate has started are
//! ended by `process`.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::error::Error;

/// Ends a process at once (SIGKILL); it gets no chance to clean up.
///
/// # Errors
/// [`Error::Signal`] when there is no such process, or it is not ours.
pub fn kill(pid: u32) -> Result<(), Error> {
    send(pid, Signal::KILL, "SIGKILL")
}

/// Pauses a process (SIGSTOP): it keeps its memory, files and connections and does nothing.
///
/// # Errors
/// As [`kill`].
pub fn stop(pid: u32) -> Result<(), Error> {
    send(pid, Signal::STOP, "SIGSTOP")
}

/// Lets a paused process go on (SIGCONT).
///
/// # Errors
/// As [`kill`].
pub fn cont(pid: u32) -> Result<(), Error> {
    send(pid, Signal::CONT, "SIGCONT")
}

/// Requests a process to end (SIGTERM).
///
/// # Errors
/// As [`kill`].
pub fn terminate(pid: u32) -> Result<(), Error> {
    send(pid, Signal::TERM, "SIGTERM")
}

/// Returns true if there is a process of this id. A process that ended and was not waited for yet
/// counts as one.
pub fn exists(pid: u32) -> bool {
    to_pid(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
}

fn send(pid: u32, signal: Signal, name: &'static str) -> Result<(), Error> {
    let failed = |source| Error::Signal { signal: name, pid, source };
    let target = to_pid(pid).ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    kill_process(target, signal).map_err(|errno| failed(errno.into()))
}

/// Converts an id. Zero and the numbers that would read as negative name groups of processes, and
/// no process.
fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_paused_process_is_still_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        stop(child.id()).unwrap();
        assert!(exists(child.id()));
        kill(child.id()).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(!exists(child.id()));
    }

    #[test]
    fn a_process_goes_on_after_cont() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        stop(child.id()).unwrap();
        cont(child.id()).unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn groups_of_processes_are_never_signalled() {
        assert!(matches!(kill(0), Err(Error::Signal { pid: 0, .. })));
        assert!(matches!(kill(u32::MAX), Err(Error::Signal { .. })));
        assert!(!exists(0));
    }
}
