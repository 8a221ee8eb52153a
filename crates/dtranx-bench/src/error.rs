//! What can go wrong in a benchmark, naming the option or the rival.

use std::path::PathBuf;

/// A benchmark could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// Options that make no sense, alone or together.
    #[error("{0}")]
    Refused(String),
    /// A rival is not on this machine and cannot be made here.
    #[error("{rival} cannot be started: {reason}")]
    Missing {
        /// Name of the rival.
        rival: &'static str,
        /// Why, and what to do about it.
        reason: String,
    },
    /// A store failed where it must not.
    #[error("{store}: {what}")]
    Store {
        /// Name of the store.
        store: &'static str,
        /// What it said.
        what: String,
    },
    /// The data is not what the acknowledged transactions left.
    #[error("{store} broke the data: {what}")]
    Broken {
        /// Which store.
        store: &'static str,
        /// What is wrong.
        what: String,
    },
    /// A process could not be started or ended.
    #[error(transparent)]
    Process(#[from] leash::Error),
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl BenchError {
    /// What a store said.
    pub(crate) fn store(store: &'static str, what: impl std::fmt::Display) -> Self {
        Self::Store { store, what: what.to_string() }
    }
}
