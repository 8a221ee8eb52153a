//! Errors of a log. Every variant names the file, and the offset where there is one.

use std::io;

use super::entry::Position;
use crate::core::StoreId;

/// An error of the log. After any of them but those that say that nothing was written the log must
/// not be written again: what is on the medium is known only after it was opened anew.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The medium has no room for another file of the log.
    #[error("no room for {file}: {bytes} bytes are needed on the log's medium")]
    Full {
        /// The file that could not be created.
        file: String,
        /// Size in question, in bytes.
        bytes: u64,
    },
    /// Another process has the folder open, or another log of this one.
    #[error("the log in {folder} is in use by another server")]
    InUse {
        /// Folder that another log has open.
        folder: String,
    },
    /// The folder was removed or replaced while it was in use.
    #[error("the folder of the log, {folder}, was removed or replaced")]
    Gone {
        /// Folder in which the log was opened.
        folder: String,
    },
    /// An earlier write or sync has failed: nothing more is written, because it is not known what
    /// is on the medium.
    #[error("{file} is not written any more, because a write or a sync of it has failed")]
    Failed {
        /// Name of the file that is not written any more.
        file: String,
    },
    /// The operating system refused something.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// Action that failed, as a verb.
        action: &'static str,
        /// Name of the file that the action was about.
        file: String,
        /// Error that the operating system has reported.
        source: io::Error,
    },
    /// Bytes that had been persisted are not what was written. Nothing was changed; the file can be
    /// examined.
    #[error("{file} is damaged at offset {offset}: {what}")]
    Corrupt {
        /// Name of the damaged file.
        file: String,
        /// Offset at which the damage begins, in bytes.
        offset: u64,
        /// Kind of the damage, for people.
        what: String,
    },
    /// A segment between two others, or at the beginning, is not there.
    #[error("segment {missing} is missing: the log has {found}")]
    Missing {
        /// The first segment that is not there.
        missing: String,
        /// The file that was found in its place.
        found: String,
    },
    /// The file was written in a format that this version does not read.
    #[error("{file} has format version {found}; this version reads {supported}")]
    Version {
        /// Name of the file in the other format.
        file: String,
        /// Format version that the file says it has.
        found: u16,
        /// The version that is supported.
        supported: u16,
    },
    /// The file belongs to another server.
    #[error("{file} belongs to server {found}, not to server {expected}")]
    Foreign {
        /// Name of the file that the other server has written.
        file: String,
        /// Id of the server that has written the file.
        found: u16,
        /// Id of the server that opens the log.
        expected: u16,
    },
    /// The file belongs to another store of the same server: an older or newer one.
    #[error("{file} belongs to the store {found}, not to the store {expected}")]
    OtherStore {
        /// Name of the file that the other store has written.
        file: String,
        /// Id of the store in the file.
        found: StoreId,
        /// The store that this log is opened for.
        expected: StoreId,
    },
    /// The log of a store that was in use is not there.
    #[error("the log is gone: {missing} is missing, although the store was in use")]
    Lost {
        /// The file that is missing.
        missing: String,
    },
    /// A record is larger than the log takes. Nothing was written.
    #[error("a log record of {bytes} bytes is larger than the limit of {limit_bytes} bytes")]
    RecordTooLarge {
        /// Size of the record, in bytes.
        bytes: usize,
        /// Greatest size of a record, in bytes.
        limit_bytes: usize,
    },
    /// The state for the GC log is larger than a half of it. Nothing was written.
    #[error("a GC log record of {bytes} bytes is larger than the limit of {limit_bytes} bytes")]
    GcPayloadTooLarge {
        /// Size of the record, in bytes.
        bytes: usize,
        /// Greatest size of the state, in bytes.
        limit_bytes: usize,
    },
    /// A record was read whole, but its reader cannot make sense of it.
    #[error("a record in {file} cannot be replayed: {what}")]
    Unreadable {
        /// The file that holds it.
        file: String,
        /// Reason why the record makes no sense, for people.
        what: String,
    },
    /// An entry would make another one void that is known to be committed: this log, or that of
    /// the leader which sends the entry, is not what it was. Nothing was written.
    #[error("{theirs} would make {ours} void, which is committed")]
    Cut {
        /// The committed entry.
        ours: Position,
        /// The entry that would replace it.
        theirs: Position,
    },
    /// An entry does not follow what is in the log. Nothing was written.
    #[error("{found} cannot follow {before} in the log")]
    OutOfOrder {
        /// Place of the entry that it would follow.
        before: Position,
        /// The entry that was to be written.
        found: Position,
    },
    /// The log is that of a member of a group, and is read as that of a server that runs alone.
    #[error("{file} is of the log of a member of a group, in term {term}; this server runs alone")]
    OfGroup {
        /// Name of the file that shows it.
        file: String,
        /// Term of an entry or of a state in it.
        term: u64,
    },
    /// An option is out of its range.
    #[error("log option {option} is {value}: {what}")]
    Option {
        /// Name of the option that is out of its range.
        option: &'static str,
        /// Value that the option was given.
        value: u64,
        /// Values that the option may have, for people.
        what: String,
    },
}

impl LogError {
    /// An error of the operating system; a full medium has an error of its own.
    pub(super) fn io(action: &'static str, file: &str, source: io::Error) -> Self {
        Self::Io { action, file: file.to_owned(), source }
    }

    pub(super) fn corrupt(file: &str, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_owned(), offset, what: what.into() }
    }
}
