//! A child process that ends when its handle is dropped, and also when this whole process
//! is killed.
//!
//! The leash is a pipe whose writing end only this process holds. `sh` starts a watchdog that reads
//! the other end, and then becomes the program itself, so that the child's id is the program's own.
//! Then:
//! - this process ends, in whatever way: the watchdog reads end-of-file, kills the program and
//!   removes its folder;
//! - the program ends first: a line through the leash makes the watchdog go without doing anything.
//!
//! A death signal tied to the parent (`PR_SET_PDEATHSIG`) would not do: it fires when the starting
//! *thread* ends.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::command::wait_until;
use crate::error::Error;
use crate::signal;

/// `$1` is the folder to remove (empty: none), the rest the program and its arguments. `$$` is the
/// program's id, in the watchdog too. The short wait lets the kernel finish with the program's
/// files before they are removed.
const LEASH: &str = r#"
folder=$1
shift
exec 3<&0 </dev/null
(
    read -r _ <&3 && exit 0
    kill -KILL $$
    for _ in 1 2 3 4 5; do kill -0 $$ || break; sleep 1; done
    [ -z "$folder" ] || rm -rf -- "$folder"
) >/dev/null 2>&1 &
exec "$@" 3<&-
"#;

/// Time that the kernel may take to end or stop a process after SIGKILL or SIGSTOP.
const SIGNAL_LIMIT: Duration = Duration::from_secs(30);
const STOP_POLL: Duration = Duration::from_millis(1);

/// A running (or just ended) program, in a process group of its own so that a Ctrl-C reaches it
/// through the leash only.
#[derive(Debug)]
pub struct Process {
    child: Child,
    leash: Option<ChildStdin>,
}

/// A program to start: its arguments, the file for its output, and a folder that is removed when
/// this process ends.
pub struct Start<'a> {
    /// The program: a path, or a name that is looked for on the `PATH`.
    pub program: &'a Path,
    /// Arguments of the program, without its name.
    pub args: &'a [OsString],
    /// The file to which the program's output is appended.
    pub console: &'a Path,
    /// The folder that goes when this process is killed.
    pub folder: &'a Path,
}

impl Process {
    /// Starts the program; it may not have written anything yet when this returns.
    ///
    /// # Errors
    /// [`Error::Command`], and [`Error::Io`] when the console cannot be opened.
    pub fn start(what: &Start<'_>) -> Result<Self, Error> {
        let console = |_| File::options().create(true).append(true).open(what.console);
        let name = what.console.display();
        let (out, err) =
            console(1).and_then(|out| Ok((out, console(2)?))).map_err(Error::io(format!("open {name}")))?;
        let mut child = Command::new("sh")
            .args(["-c", LEASH, "sh"])
            .arg(what.folder)
            .arg(what.program)
            .args(what.args)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Command { program: what.program.display().to_string(), source })?;
        let leash = child.stdin.take();
        Ok(Self { child, leash })
    }

    /// The program's own process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Exit status of the program; `None` while it runs.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>, Error> {
        let status = self.child.try_wait().map_err(Error::io("ask whether the program has ended"))?;
        if status.is_some() {
            self.release();
        }
        Ok(status)
    }

    /// Kills the program (SIGKILL) and waits until it is gone. Does nothing when it has ended
    /// already.
    ///
    /// # Errors
    /// [`Error::Signal`], [`Error::WillNotEnd`].
    pub fn kill(&mut self) -> Result<(), Error> {
        // In this order: the id stays the program's own until it is waited for, so a watchdog that
        // wakes up late cannot hit another process, and one that never wakes up is not needed any
        // more.
        self.child.kill().map_err(|source| Error::Signal { signal: "SIGKILL", pid: self.pid(), source })?;
        self.release();
        let ended =
            wait_until(&mut self.child, Instant::now() + SIGNAL_LIMIT).map_err(Error::io("wait for the program"))?;
        ended.map(|_| ()).ok_or(Error::WillNotEnd { pid: self.pid(), limit: SIGNAL_LIMIT })
    }

    /// Requests the program to end (SIGTERM), paused or not.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn terminate(&self) -> Result<(), Error> {
        signal::cont(self.pid())?;
        signal::terminate(self.pid())
    }

    /// Pauses the program (SIGSTOP) and waits until all its threads stand still, or it has ended.
    ///
    /// # Errors
    /// [`Error::Signal`].
    pub fn pause(&self) -> Result<(), Error> {
        signal::stop(self.pid())?;
        let failed = |source| Error::Signal { signal: "SIGSTOP", pid: self.pid(), source };
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
        // NOWAIT: only a look, so that the exit status stays available for a later wait.
        let look = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let deadline = Instant::now() + SIGNAL_LIMIT;
        while Instant::now() < deadline {
            if waitid(WaitId::Pid(pid), look).map_err(|errno| failed(errno.into()))?.is_some() {
                return Ok(());
            }
            sleep(STOP_POLL);
        }
        Err(failed(ErrorKind::TimedOut.into()))
    }

    /// Sends the watchdog the line that ends it. If it has ended before, the line is lost.
    fn release(&mut self) {
        if let Some(mut leash) = self.leash.take() {
            let _ = leash.write_all(b"released\n");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A failure cannot be reported here.
        let _ = self.kill();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    fn start(folder: &tempfile::TempDir, script: &str) -> Process {
        let args = ["-c".into(), script.into()];
        let console = folder.path().join("console");
        Process::start(&Start { program: Path::new("sh"), args: &args, console: &console, folder: folder.path() })
            .unwrap()
    }

    fn ended(process: &mut Process) -> ExitStatus {
        wait_until(&mut process.child, Instant::now() + Duration::from_secs(60)).unwrap().unwrap()
    }

    fn console(folder: &tempfile::TempDir) -> String {
        std::fs::read_to_string(folder.path().join("console")).unwrap()
    }

    fn until(condition: impl Fn() -> bool) {
        let met = (0..6000).any(|_| {
            sleep(Duration::from_millis(10));
            condition()
        });
        assert!(met);
    }

    #[test]
    fn the_id_is_the_programs_own() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(&folder, "echo $$; echo words >&2; exit 7");
        assert_eq!(ended(&mut process).code(), Some(7));
        assert_eq!(console(&folder), format!("{}\nwords\n", process.pid()));
    }

    #[test]
    fn dropping_ends_the_program_and_keeps_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let process = start(&folder, "exec sleep 600");
        let pid = process.pid();
        assert!(signal::exists(pid));
        drop(process);
        assert!(!signal::exists(pid));
        assert!(folder.path().exists());
    }

    #[test]
    fn a_leash_that_breaks_ends_the_program_and_removes_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut process = start(&folder, "echo up; exec sleep 600");
        // Before the program runs there is no watchdog yet, and a paused `sh` would never start it.
        until(|| console(&folder) == "up\n");
        process.pause().unwrap();
        // Closes the pipe as the kernel does when this process is killed.
        drop(process.leash.take());
        assert_eq!(ended(&mut process).signal(), Some(9));
        until(|| !folder.path().exists());
    }
}
