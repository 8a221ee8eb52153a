//! Reads and writes of a transaction, drawn at random.

use rand::{RngExt, rngs::StdRng};

use super::options::SimOptions;
use crate::core::{Key, KeyRange, ServerId};

/// Reads and writes that one transaction is going to make.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) reads: Vec<Key>,
    pub(crate) scan: Option<KeyRange>,
    pub(crate) puts: Vec<Key>,
    pub(crate) deletes: Vec<Key>,
    /// Whether versions that the client saw earlier may be used.
    pub(crate) uses_cache: bool,
    /// Whether it reads a snapshot instead.
    pub(crate) is_snapshot: bool,
    /// A range that it moves to a server instead.
    pub(crate) moving: Option<(KeyRange, ServerId)>,
}

/// Key number `number`: one letter.
pub(crate) fn key(number: u8) -> Key {
    Key::new(vec![b'a' + number % 26]).unwrap_or(Key::smallest())
}

/// All keys of a run.
pub(crate) fn keys(options: &SimOptions) -> impl Iterator<Item = Key> {
    (0..options.keys.clamp(1, 26)).map(key)
}

impl Plan {
    pub(crate) fn draw(rng: &mut StdRng, options: &SimOptions) -> Self {
        let count = options.keys.clamp(1, 26);
        let mut some = |most: usize| -> Vec<Key> {
            let mut keys: Vec<Key> = (0..rng.random_range(0..=most)).map(|_| key(rng.random_range(0..count))).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let (reads, mut puts, mut deletes) = (some(3), some(2), some(2));
        if rng.random_ratio(1, 3) {
            puts.clear();
        }
        // A transaction is identified by what it puts.
        if puts.is_empty() || rng.random_ratio(1, 3) {
            deletes.clear();
        }
        deletes.retain(|key| !puts.contains(key));
        if rng.random_ratio(1, 4) {
            puts.extend(reads.iter().filter(|key| !deletes.contains(key)).cloned().collect::<Vec<Key>>());
            puts.sort_unstable();
            puts.dedup();
        }
        let scan = rng.random_ratio(1, 4).then(|| {
            let (from, to) = (key(rng.random_range(0..count)), key(rng.random_range(0..count)));
            KeyRange::through(from.clone().min(to.clone()), from.max(to))
        });
        let uses_cache = rng.random_ratio(1, 4);
        let is_snapshot = options.snapshots > 0 && rng.random_range(0..100) < options.snapshots;
        if options.moves > 0 && rng.random_range(0..100) < options.moves {
            let (one, other) = (key(rng.random_range(0..count)), key(rng.random_range(0..count)));
            let range = KeyRange::through(one.clone().min(other.clone()), one.max(other));
            let to = ServerId(rng.random_range(1..=options.servers.clamp(1, 5)));
            return Self { moving: Some((range, to)), ..Self::default() };
        }
        Self { reads, scan, puts, deletes, uses_cache, is_snapshot, moving: None }
    }
}
