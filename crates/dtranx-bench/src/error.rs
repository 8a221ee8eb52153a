//! Errors of a benchmark, with the name of the option or of the rival.

/// A benchmark could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// Options that make no sense, alone or together.
    #[error("{0}")]
    Refused(String),
    /// A rival is not on this machine and cannot be made here.
    #[error("{rival} cannot be started: {reason}")]
    Missing {
        /// Name of the missing rival.
        rival: &'static str,
        /// Reason, and what to do about it.
        reason: String,
    },
    /// A store failed where it must not.
    #[error("{store}: {what}")]
    Store {
        /// Name of the store.
        store: &'static str,
        /// Message of the store.
        what: String,
    },
    /// The data is not what the acknowledged transactions left.
    #[error("{store} broke the data: {what}")]
    Broken {
        /// Name of the store.
        store: &'static str,
        /// Fault that was found in it.
        what: String,
    },
    /// A process could not be started or ended.
    #[error(transparent)]
    Process(#[from] child_processes::Error),
    /// The engine that measures and reports cannot go on.
    #[error(transparent)]
    Kit(#[from] benchkit::Error),
}

impl BenchError {
    /// An error with the message of a store.
    pub(crate) fn store(store: &'static str, what: impl std::fmt::Display) -> Self {
        Self::Store { store, what: what.to_string() }
    }
}
