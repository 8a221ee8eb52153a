//! Local recovery (section 4.4): the log is read into the storage and into a node. Global recovery is the node's.

use std::sync::Arc;

use crate::core::{Command, GcRecord, Node, NodeConfig, Record, Recovery, SegmentId};
use crate::log::{Collector, LogError, LogOptions, Medium, TranxLog};
use crate::storage::Storage;

use super::ServerError;

/// What a server starts with.
pub(super) struct Recovered {
    pub(super) node: Node,
    pub(super) commands: Vec<Command>,
    pub(super) log: TranxLog,
    pub(super) collector: Collector,
    pub(super) records: u64,
}

/// Reads the log of `config.me`, applies what was committed to `storage`, and makes the node.
///
/// The GC log is read before the records, so the records are gathered first: one whole log fits in memory, because it is
/// collected all the time.
pub(super) fn recover(
    config: NodeConfig,
    medium: Arc<dyn Medium>,
    segment_bytes: u64,
    storage: &dyn Storage,
) -> Result<Recovered, ServerError> {
    let options = LogOptions { server: config.me.0, segment_bytes };
    let mut records = Vec::new();
    let opened = TranxLog::open(medium, &options, |segment, bytes| {
        let record: Record = postcard::from_bytes(bytes).map_err(|error| error.to_string())?;
        records.push((SegmentId(segment.0), record));
        Ok(())
    })?;
    let mut recovery = Recovery::new(config, gc_record(&opened.gc_payload)?);
    for info in &opened.segments {
        recovery.segment(SegmentId(info.number.0));
    }
    for (segment, record) in records {
        if let Some((version, writes)) = recovery.record(segment, record) {
            storage.apply(version, &writes)?;
        }
    }
    let mut commands = Vec::new();
    let node = recovery.finish(0, &mut commands);
    Ok(Recovered { node, commands, log: opened.log, collector: opened.collector, records: opened.records })
}

fn gc_record(state: &[u8]) -> Result<Option<GcRecord>, ServerError> {
    if state.is_empty() {
        return Ok(None);
    }
    let read = postcard::from_bytes(state);
    let unreadable = |error: postcard::Error| LogError::Unreadable { file: "gc.log".into(), what: error.to_string() };
    Ok(Some(read.map_err(unreadable)?))
}
