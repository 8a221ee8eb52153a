//! What can go wrong between "start this program" and "it has ended".

use std::time::Duration;

/// A program could not be started, asked, signalled or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program could not be run.
    #[error("cannot run {program}: {source}")]
    Command {
        /// The program's name.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// A command was ended because it took too long.
    #[error("{program} did not finish within {limit:?}")]
    CommandTimeout {
        /// The program's name.
        program: String,
        /// Its time limit.
        limit: Duration,
    },
    /// An operation on a file or a process failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was being done, and to what.
        action: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// No free port was found on 127.0.0.1.
    #[error("no free port on 127.0.0.1 after {attempts} attempts")]
    NoFreePort {
        /// How many ports were tried.
        attempts: usize,
    },
    /// A program was killed and is still there.
    #[error("process {pid} is still there {limit:?} after SIGKILL")]
    WillNotEnd {
        /// Its process id.
        pid: u32,
        /// How long it was waited for.
        limit: Duration,
    },
    /// A signal could not be sent.
    #[error("cannot send {signal} to process {pid}: {source}")]
    Signal {
        /// The signal's name.
        signal: &'static str,
        /// The process it was meant for.
        pid: u32,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    /// Gives an I/O error the action it interrupted.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}
