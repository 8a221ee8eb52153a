//! Reads a server's log as its recovery does, without going on with it.

use std::sync::Arc;

use super::engine::node_config;
use super::{LogMedium, ServerConfig, ServerError};
use crate::core::{GcRecord, NodeConfig, Record, Recovery, SegmentId, StoreId};
use crate::log::{LogOptions, LogReader, Medium, SegmentNumber, TranxLog};

/// What the log of one server says, and how long that log is.
pub(super) struct Inspected {
    /// The log, read into a recovery that is not finished.
    pub(super) recovery: Recovery,
    /// Number of its segments.
    pub(super) segments: usize,
    /// Number of its records.
    pub(super) records: u64,
}

/// Options of a log that must be there.
pub(super) fn existing(config: &ServerConfig, store: StoreId) -> LogOptions {
    LogOptions { server: config.server.0, store, segment_bytes: config.segment_bytes, must_exist: true }
}

/// Refuses a server that keeps nothing: `what` says what it has nothing for.
pub(super) fn must_keep(config: &ServerConfig, what: &str) -> Result<(), ServerError> {
    if config.medium == LogMedium::Memory {
        let what = format!("a server in memory has nothing {what}");
        return Err(super::ConfigError::Field { field: "medium".to_owned(), what }.into());
    }
    Ok(())
}

/// Reads the whole log of a store. What is read is durable then, unless the medium is read-only.
pub(super) fn inspect(
    config: &ServerConfig,
    store: StoreId,
    medium: Arc<dyn Medium>,
) -> Result<Inspected, ServerError> {
    let node = node_config(config);
    let mut reader = Reader { recovery: Recovery::new(node.clone(), None), config: node };
    let (segments, records) = TranxLog::inspect(medium, &existing(config, store), &mut reader)?;
    Ok(Inspected { recovery: reader.recovery, segments, records })
}

struct Reader {
    config: NodeConfig,
    recovery: Recovery,
}

impl LogReader for Reader {
    fn state(&mut self, state: &[u8]) -> Result<(), String> {
        if !state.is_empty() {
            let record: GcRecord = postcard::from_bytes(state).map_err(|error| error.to_string())?;
            self.recovery = Recovery::new(self.config.clone(), Some(record));
        }
        Ok(())
    }

    fn record(&mut self, segment: SegmentNumber, bytes: &[u8]) -> Result<(), String> {
        let record: Record = postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
        // The record is read, and nothing is applied.
        drop(self.recovery.record(SegmentId(segment.0), record));
        Ok(())
    }
}
