//! Reads all data of a server, without changing its log, and counts them. The server must not run.

use std::sync::Arc;

use super::data::{lsm, must_be_there, open};
use super::data_folders::IDENTITY;
use super::identity::Identity;
use super::inspect::{Inspected, existing, inspect, must_keep};
use super::{ServerConfig, ServerError};
use crate::core::{Key, KeyRange, Map};
use crate::log::{LogOptions, ReadOnly};
use crate::storage::{ScanLimit, Storage, StorageError};

/// Findings of a verification, all of it in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of segments of the log.
    pub segments: usize,
    /// Number of records in the log; in that of a member of a group, of those that are committed.
    pub records: u64,
    /// Number of records in the log of a member of a group that are not known to be committed.
    pub uncommitted: u64,
    /// Transactions of other servers that this one has voted for, without their outcome in the log.
    pub in_doubt: usize,
    /// Number of items in the storage.
    pub items: u64,
    /// Items whose keys other servers hold by the map: there are none.
    pub misplaced: u64,
}

/// Limit of one scan.
const STEP: ScanLimit = ScanLimit { items: 1_000, bytes: 4 << 20 };

/// Verifies identity, log and items of a server.
///
/// # Errors
/// What is damaged, missing, of something else, or in use.
pub fn verify(config: &ServerConfig) -> Result<Verified, ServerError> {
    config.validate()?;
    must_keep(config, "to be verified")?;
    must_be_there(&config.log_folder)?;
    let (medium, identity) = open(config, Identity::existing)?;
    if let Some(what) = identity.lacks_data() {
        return Err(ServerError::Identity { file: config.folder.join(IDENTITY).display().to_string(), what });
    }
    let medium = Arc::new(ReadOnly::new(medium));
    let options = LogOptions { is_member: true, ..existing(config, identity.store) };
    let Inspected { recovery, segments, records, uncommitted } = inspect(config, &options, medium)?;
    let in_doubt = recovery.doubts().len();
    let mut verified = Verified { segments, records, uncommitted, in_doubt, ..Verified::default() };
    count_items(config, &lsm(config, &identity, true)?, &mut verified)?;
    Ok(verified)
}

fn count_items(config: &ServerConfig, storage: &dyn Storage, verified: &mut Verified) -> Result<(), ServerError> {
    let map = storage.get(&Key::of_map())?;
    let damaged = |what| StorageError::Damaged { key: Key::of_map().as_bytes().to_vec(), what };
    let map = Map::stored(map.as_ref(), &config.cluster.partition).map_err(damaged)?;
    let mut range = KeyRange::all();
    loop {
        let found = storage.scan_items(&range, STEP)?;
        for (key, _) in &found.items {
            verified.items += 1;
            verified.misplaced += u64::from(map.server_of(key) != config.server);
        }
        match found.items.last().and_then(|(key, _)| key.successor()).filter(|_| !found.complete) {
            Some(next) => range.start = next,
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::core::{TranxId, Value, Write, item::MAX_KEY_BYTES};
    use crate::server::salvage;
    use crate::server::transfer::tests::Store;
    use crate::storage::InMemory;

    #[test]
    fn items_behind_a_longest_key_are_counted() {
        let config = &Store::given().config;
        let storage = InMemory::new();
        let write = |key: Vec<u8>| Write { key: Key::new(key).unwrap(), value: Some(Value::new("").unwrap()) };
        let short = (1..STEP.items as u32).map(|number| number.to_be_bytes().to_vec());
        // A step ends with the longest key.
        let mut writes: Vec<Write> = short.map(write).collect();
        writes.extend([vec![b'a'; MAX_KEY_BYTES], b"b".to_vec()].map(write));
        storage.apply(&[(TranxId { server: config.server, number: 1 }, writes)]).unwrap();
        let mut verified = Verified::default();
        count_items(config, &storage, &mut verified).unwrap();
        assert_eq!(verified.items, STEP.items as u64 + 1);
    }

    #[test]
    fn tools_read_the_folders_that_count() {
        // The old ones are there still.
        let Store { config, .. } = &Store::given();
        assert_eq!(verify(config).unwrap().items, 3);
        let salvaged = || salvage(config, &config.folder.join("scratch"), Vec::new()).unwrap();
        let found = salvaged();
        assert!(found.is_whole() && found.sure.items == 3, "{:?}", found.damages);
        std::fs::write(config.folder.join("identity.toml"), "damaged").unwrap();
        let found = salvaged();
        assert_eq!((found.damages.total(), found.sure.items), (1, 3), "{:?}", found.damages);
    }
}
