//! Reads all that a server has, without changing its log, and says what is there. The server must
//! not run.

use std::sync::Arc;

use super::engine::{lsm, medium, node_config};
use super::identity::Identity;
use super::{LogMedium, ServerConfig, ServerError};
use crate::core::{GcRecord, Key, KeyRange, NodeConfig, Record, Recovery, SegmentId};
use crate::log::{LogOptions, LogReader, ReadOnly, SegmentNumber, TranxLog};
use crate::storage::{ScanLimit, Storage};

/// Findings of a verification, all of it in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of segments of the log.
    pub segments: usize,
    /// Number of records in the log.
    pub records: u64,
    /// Transactions of other servers that this one has voted for, without their outcome in the log.
    pub in_doubt: usize,
    /// Number of items in the storage.
    pub items: u64,
    /// Items whose keys other servers hold by the map: there are none.
    pub misplaced: u64,
}

/// How much is scanned at once.
const STEP: ScanLimit = ScanLimit { items: 1_000, bytes: 4 << 20 };

/// Verifies identity, log and items of a server.
///
/// # Errors
/// What is damaged, missing, of something else, or in use.
pub fn verify(config: &ServerConfig) -> Result<Verified, ServerError> {
    config.validate()?;
    if config.medium == LogMedium::Memory {
        let what = "a server in memory has nothing to be verified".to_owned();
        return Err(super::ConfigError::Field { field: "medium".to_owned(), what }.into());
    }
    let identity = Identity::existing(config)?;
    let options = LogOptions {
        server: config.server.0,
        store: identity.store,
        segment_bytes: config.segment_bytes,
        must_exist: true,
    };
    let mut reader = Reader { config: node_config(config), recovery: Recovery::new(node_config(config), None) };
    let (segments, records) = TranxLog::inspect(Arc::new(ReadOnly::new(medium(config)?)), &options, &mut reader)?;
    let in_doubt = reader.recovery.finish(0, &mut Vec::new()).status().asking;
    let mut verified = Verified { segments, records, in_doubt, ..Verified::default() };
    count_items(config, &lsm(config, identity.store, true)?, &mut verified)?;
    Ok(verified)
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

fn count_items(config: &ServerConfig, storage: &dyn Storage, verified: &mut Verified) -> Result<(), ServerError> {
    let mut range = KeyRange::all();
    loop {
        let found = storage.scan(&range, STEP)?;
        for (key, _) in &found.items {
            verified.items += 1;
            verified.misplaced += u64::from(config.cluster.partition.server_of(key) != config.server);
        }
        match found.items.last().and_then(|(key, _)| after(key)).filter(|_| !found.complete) {
            Some(next) => range.start = next,
            None => return Ok(()),
        }
    }
}

/// The smallest key behind this one, if there may be any.
fn after(key: &Key) -> Option<Key> {
    Key::new([key.as_bytes(), &[0]].concat()).ok()
}
