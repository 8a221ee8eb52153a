//! The map of keys to servers as it is configured. What has moved since is in [`super::map`].

use serde::{Deserialize, Serialize};

use super::{id::ServerId, item::Key, range::KeyRange};

/// The configured map from keys to servers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Partition {
    /// By the key's hash ([`hash`]): keys are spread evenly, and a scan goes to every server. The
    /// list is in the order of the cluster's description, the same on every server and client.
    Hash(Vec<ServerId>),
    /// By order: each server holds the keys from its own first key up to the next one's. The first
    /// first key is empty.
    Ranges(Vec<(Key, ServerId)>),
}

impl Partition {
    /// Returns true if the map names a server for every key. An empty list does not, nor do ranges
    /// that begin after the smallest key or are not in order.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Hash(servers) => !servers.is_empty(),
            Self::Ranges(ranges) => {
                ranges.first().is_some_and(|(first, _)| *first == Key::smallest())
                    && ranges.is_sorted_by(|(left, _), (right, _)| left < right)
            }
        }
    }

    /// All servers of the map, each once, in order.
    pub fn servers(&self) -> Vec<ServerId> {
        let mut servers: Vec<ServerId> = match self {
            Self::Hash(servers) => servers.clone(),
            Self::Ranges(ranges) => ranges.iter().map(|(_, server)| *server).collect(),
        };
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// The server that holds `key`. A map that is not complete returns server 0.
    pub fn server_of(&self, key: &Key) -> ServerId {
        let server = match self {
            Self::Hash(servers) => servers.get((hash(key.as_bytes()) % servers.len().max(1) as u64) as usize).copied(),
            Self::Ranges(ranges) => {
                let after = ranges.partition_point(|(first, _)| first <= key);
                after.checked_sub(1).and_then(|at| ranges.get(at)).map(|(_, server)| *server)
            }
        };
        server.unwrap_or(ServerId(0))
    }

    /// The servers that may hold keys of `range`, each once, in order.
    pub fn servers_of(&self, range: &KeyRange) -> Vec<ServerId> {
        let Self::Ranges(ranges) = self else {
            return self.servers();
        };
        let from = ranges.partition_point(|(first, _)| *first <= range.start).saturating_sub(1);
        let mut servers: Vec<ServerId> = Vec::new();
        for (at, (first, server)) in ranges.iter().enumerate().skip(from) {
            if at > from && !range.contains(first) {
                break;
            }
            servers.push(*server);
        }
        servers.sort_unstable();
        servers.dedup();
        servers
    }
}

/// The hash of a key, part of the cluster's format: FNV-1a with 64 bits, its halves folded
/// together.
pub fn hash(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash ^ (hash >> 32)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn key(bytes: &'static str) -> Key {
        Key::new(bytes).unwrap()
    }

    fn ranges() -> Partition {
        Partition::Ranges(vec![(key(""), ServerId(1)), (key("h"), ServerId(2)), (key("p"), ServerId(1))])
    }

    #[test]
    fn ranges_first_key_belongs_to_its_range() {
        let servers: Vec<u16> = ["", "g", "h", "o", "p", "z"].map(|k| ranges().server_of(&key(k)).0).into();
        assert_eq!(servers, [1, 1, 2, 2, 1, 1]);
    }

    #[test]
    fn servers_of_range_are_those_that_may_hold_its_keys() {
        let of = |range| ranges().servers_of(&range);
        assert_eq!(of(KeyRange::until(key("a"), key("h"))), [ServerId(1)]);
        assert_eq!(of(KeyRange::through(key("a"), key("h"))), [ServerId(1), ServerId(2)]);
        assert_eq!(of(KeyRange::until(key("i"), key("j"))), [ServerId(2)]);
        assert_eq!(of(KeyRange::all()), [ServerId(1), ServerId(2)]);
    }

    #[test]
    fn is_complete_demands_order_and_smallest_key() {
        assert!(ranges().is_complete());
        assert!(!Partition::Hash(vec![]).is_complete());
        assert!(!Partition::Ranges(vec![(key("a"), ServerId(1))]).is_complete());
        assert!(!Partition::Ranges(vec![(key(""), ServerId(1)), (key(""), ServerId(2))]).is_complete());
    }

    #[test]
    fn hash_is_part_of_the_format() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_4fd0_bfc1);
        let spread: Vec<u64> =
            (0..3).map(|server| (0..999_u32).filter(|n| hash(&n.to_be_bytes()) % 3 == server).count() as u64).collect();
        assert!(spread.iter().all(|count| (233..433).contains(count)), "{spread:?}");
    }
}
