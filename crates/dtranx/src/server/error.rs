//! Errors of a server.

use thiserror::Error;

use super::config::ConfigError;
use crate::core::{ServerId, StoreId};
use crate::log::LogError;
use crate::stage::StageError;
use crate::storage::StorageError;

/// Reason why a server does not start, or has ended.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The configuration is wrong, or cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data in its folder are not those of the configuration, or a part of them is missing.
    #[error("{file}: {what}")]
    Identity {
        /// The file that says whose the data are.
        file: String,
        /// Difference between the data and the configuration, for people.
        what: String,
    },
    /// A store cannot take the place of a lost one.
    #[error("--replace {lost}: {what}")]
    Replace {
        /// Id of the store that was named as lost.
        lost: StoreId,
        /// Reason why its place cannot be taken, for people.
        what: String,
    },
    /// The log of the server cannot be opened.
    #[error("the log: {0}")]
    Log(#[from] LogError),
    /// The storage of the server cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A stage failed while it ran.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// The log or the items of another server cannot be read.
    #[error("server {server}, in {folder}: {source}")]
    Other {
        /// Id of the server whose folder was to be read.
        server: ServerId,
        /// Folder that was given for it.
        folder: String,
        /// Reason why it cannot be read.
        source: Box<ServerError>,
    },
    /// The member was removed from its group. Its folder is of no use any more.
    #[error(
        "member {member} was removed from the group of server {server}, by entry {at} of the log, as member {by} says: \
         its folder can be deleted"
    )]
    Removed {
        /// Id of the group's server.
        server: ServerId,
        /// Number of the member that was removed.
        member: u8,
        /// Index of the entry of the log that has removed it.
        at: u64,
        /// Number of the member that says so.
        by: u8,
    },
    /// The operating system refused something.
    #[error("cannot {action}: {source}")]
    Io {
        /// Action that failed, as a verb with its object.
        action: String,
        /// Error that the operating system has reported.
        source: std::io::Error,
    },
}
