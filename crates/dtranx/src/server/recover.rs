//! Local recovery (section 4.4): the log is read into the storage and into a node. Global recovery
//! is the node's.

use std::sync::Arc;

use crate::core::{Command, Key, Node, NodeConfig, SegmentId};
use crate::log::{Collector, LogOptions, Medium, TranxLog};
use crate::storage::{Storage, StorageError};

use super::ServerError;
use super::replay::Replay;

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
    let apply = |commit| storage.apply(&[commit]).map_err(|error| error.to_string());
    let mut replay = Replay::new(config, apply);
    let opened = TranxLog::read(medium, options, &mut replay)?;
    let mut recovery = replay.recovery;
    for info in &opened.segments {
        recovery.segment(SegmentId(info.number.0));
    }
    let map = storage.get(&Key::of_map())?;
    recovery
        .stored_map(map.as_ref())
        .map_err(|what| StorageError::Damaged { key: Key::of_map().as_bytes().to_vec(), what })?;
    let mut commands = Vec::new();
    let node = recovery.finish(0, &mut commands);
    Ok(Recovered { node, commands, log: opened.log, collector: opened.collector, records: opened.records })
}
