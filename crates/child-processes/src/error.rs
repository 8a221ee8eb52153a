//! Errors of starting a program, of running it within a time limit, and of ending it. Each names
//! the program, the process, or what was to be done.

use std::time::Duration;

/// Error of starting, watching, signalling or ending a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program could not be run.
    #[error("cannot run {program}: {source}")]
    Command {
        /// Name of the program to start.
        program: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// A command was ended because it took too long.
    #[error("{program} did not finish within {limit:?}")]
    CommandTimeout {
        /// Name of the program that was run.
        program: String,
        /// Time limit that it has exceeded.
        limit: Duration,
    },
    /// An operation on a file or a process failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// The action that failed, with the file or folder.
        action: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// No free port was found on 127.0.0.1.
    #[error("no free port on 127.0.0.1 after {attempts} attempts")]
    NoFreePort {
        /// Number of ports that were tried.
        attempts: usize,
    },
    /// A program was killed and is still there.
    #[error("process {pid} is still there {limit:?} after SIGKILL")]
    WillNotEnd {
        /// Id of the process that lives on.
        pid: u32,
        /// Time that was allowed for its end.
        limit: Duration,
    },
    /// A signal could not be sent.
    #[error("cannot send {signal} to process {pid}: {source}")]
    Signal {
        /// Name of the signal, as in `SIGKILL`.
        signal: &'static str,
        /// Id of the process that was to get the signal.
        pid: u32,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

impl Error {
    /// Gives an I/O error the action that it interrupted.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
