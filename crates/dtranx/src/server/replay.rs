//! Reads the records of a log into a recovery.

use crate::core::{GcRecord, NodeConfig, Record, Recovery, SegmentId, TranxId, Write};
use crate::log::{LogReader, Position, SegmentNumber};

/// A transaction whose writes are to be applied, and its writes.
type Commit = (TranxId, Vec<Write>);

/// A recovery that reads a log. `apply` is called with each commit, in the order of the log.
pub(super) struct Replay<A> {
    config: NodeConfig,
    apply: A,
    /// State from the records that were read so far.
    pub(super) recovery: Recovery,
    /// Number of records whose entries are not known to be committed: these are neither read nor
    /// applied.
    pub(super) uncommitted: u64,
}

impl<A> Replay<A>
where
    A: FnMut(Commit) -> Result<(), String>,
{
    /// A recovery that has read nothing yet.
    pub(super) fn new(config: NodeConfig, apply: A) -> Self {
        Replay { recovery: Recovery::new(config.clone(), None), config, apply, uncommitted: 0 }
    }
}

impl<A> LogReader for Replay<A>
where
    A: FnMut(Commit) -> Result<(), String>,
{
    fn state(&mut self, state: &[u8]) -> Result<(), String> {
        if !state.is_empty() {
            let record: GcRecord = postcard::from_bytes(state).map_err(|error| error.to_string())?;
            self.recovery = Recovery::new(self.config.clone(), Some(record));
        }
        Ok(())
    }

    fn record(&mut self, segment: SegmentNumber, bytes: &[u8]) -> Result<(), String> {
        let record: Record = postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
        match self.recovery.record(SegmentId(segment.0), record) {
            Some(commit) => (self.apply)(commit),
            None => Ok(()),
        }
    }
    fn uncommitted(&mut self, _: Position, _: SegmentNumber, _: &[u8]) -> Result<(), String> {
        self.uncommitted += 1;
        Ok(())
    }
}
