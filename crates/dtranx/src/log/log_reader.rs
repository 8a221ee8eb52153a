//! Receiver of what is in a log.

use super::entry::Position;
use super::segment::SegmentNumber;

/// Receives the records of a log when it is opened: those of entries that are not void.
pub trait LogReader {
    /// Takes the payload of the GC log, empty in a new one. Called once, before all records.
    ///
    /// # Errors
    /// What is wrong with it; the log is not opened then.
    fn state(&mut self, state: &[u8]) -> Result<(), String>;

    /// The next record of an entry that is committed, and the segment that it is in. All entries of
    /// a server that runs alone are.
    ///
    /// # Errors
    /// What is wrong with it; the log is not opened then.
    fn record(&mut self, segment: SegmentNumber, record: &[u8]) -> Result<(), String>;

    /// The next record of an entry that is not known to be committed; behind all that are. Only
    /// the log of a member of a group has such; who must not meet them need not say so.
    ///
    /// # Errors
    /// What is wrong with it; the log is not opened then.
    fn uncommitted(&mut self, entry: Position, segment: SegmentNumber, record: &[u8]) -> Result<(), String> {
        let _ = (segment, record);
        Err(format!("{entry} is not known to be committed"))
    }
}
