//! Reads a server's log as its recovery does, without going on with it.

use std::sync::Arc;

use super::engine::node_config;
use super::replay::Replay;
use super::{LogMedium, ServerConfig, ServerError};
use crate::core::{Recovery, StoreId};
use crate::log::{LogOptions, Medium, TranxLog};

/// Content of the log of one server, and the length of that log.
pub(super) struct Inspected {
    /// The log, read into a recovery that is not finished.
    pub(super) recovery: Recovery,
    /// Number of its segments.
    pub(super) segments: usize,
    /// Number of its records that are committed.
    pub(super) records: u64,
    /// Number of its records that are not known to be.
    pub(super) uncommitted: u64,
}

/// Options of a log that must be there.
pub(super) fn existing(config: &ServerConfig, store: StoreId) -> LogOptions {
    let (server, segment_bytes) = (config.server.0, config.segment_bytes);
    LogOptions { server, store, segment_bytes, must_exist: true, is_member: false }
}

/// Refuses a server that keeps nothing; `what` names the operation that needs data.
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
    options: &LogOptions,
    medium: Arc<dyn Medium>,
) -> Result<Inspected, ServerError> {
    // Nothing is applied.
    let mut replay = Replay::new(node_config(config), |_| Ok(()));
    let (segments, records) = TranxLog::inspect(medium, options, &mut replay)?;
    let Replay { recovery, uncommitted, .. } = replay;
    Ok(Inspected { recovery, segments, records, uncommitted })
}
