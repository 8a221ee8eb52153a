//! Local recovery (section 4.4): the log is read into the storage and into a node. Global recovery
//! is the node's.

use std::sync::Arc;

use crate::core::{Command, GcRecord, Node, NodeConfig, Record, Recovery, SegmentId};
use crate::log::{Collector, LogOptions, LogReader, Medium, SegmentNumber, TranxLog};
use crate::storage::Storage;

use super::ServerError;

/// State with which a server starts.
pub(super) struct Recovered {
    pub(super) node: Node,
    pub(super) commands: Vec<Command>,
    pub(super) log: TranxLog,
    pub(super) collector: Collector,
    pub(super) records: u64,
}

/// Reads the log of `config.me`, applies what was committed to `storage`, and makes the node.
pub(super) fn recover(
    config: NodeConfig,
    medium: Arc<dyn Medium>,
    options: &LogOptions,
    storage: &dyn Storage,
) -> Result<Recovered, ServerError> {
    let mut reader = Reader { recovery: Recovery::new(config.clone(), None), config, storage };
    let opened = TranxLog::read(medium, options, &mut reader)?;
    let mut recovery = reader.recovery;
    for info in &opened.segments {
        recovery.segment(SegmentId(info.number.0));
    }
    let mut commands = Vec::new();
    let node = recovery.finish(0, &mut commands);
    Ok(Recovered { node, commands, log: opened.log, collector: opened.collector, records: opened.records })
}

struct Reader<'a> {
    config: NodeConfig,
    recovery: Recovery,
    storage: &'a dyn Storage,
}

impl LogReader for Reader<'_> {
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
            Some(commit) => self.storage.apply(&[commit]).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }
}
