//! [`MapId`]: what has to agree in the configurations of a cluster's servers and clients.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::core::{Partition, ServerId};

/// The servers of a cluster, and a digest of its map of keys. It stays when addresses change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapId {
    /// Servers in the order of the configuration, each with the number of its members: 0 if it is
    /// no group.
    pub servers: Vec<(ServerId, u8)>,
    /// First half of the SHA-256 of the configured map of keys.
    pub keys: [u8; 16],
}

impl MapId {
    /// Compares the servers of two configurations that agree: they have the same map of keys and
    /// the same servers, or one has more servers behind those of the other, and is the greater one.
    /// `None`: they do not agree.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        let lengths = self.servers.len().cmp(&other.servers.len());
        let (shorter, longer) = if lengths.is_le() { (self, other) } else { (other, self) };
        let (first, joined) = longer.servers.split_at(shorter.servers.len());
        let are_single = joined.iter().all(|(_, members)| *members == 0);
        (self.keys == other.keys && in_order(first) == in_order(&shorter.servers) && are_single).then_some(lengths)
    }

    /// Returns true if a client with this one may be served. It may have heard of other servers
    /// than this one; those that both have are the same.
    pub(crate) fn serves(&self, client: &Self) -> bool {
        let is_same = |(server, members): &(ServerId, u8)| {
            let mine = self.servers.iter().find(|(listed, _)| listed == server);
            // Members come and go; but no server becomes a group.
            mine.is_none_or(|(_, listed)| (*listed == 0) == (*members == 0))
        };
        self.keys == client.keys && client.servers.iter().all(is_same)
    }

    /// Returns true if the server is in the list.
    pub(crate) fn has(&self, server: ServerId) -> bool {
        self.servers.iter().any(|(listed, _)| *listed == server)
    }
}

fn in_order(servers: &[(ServerId, u8)]) -> Vec<(ServerId, u8)> {
    let mut servers = servers.to_vec();
    servers.sort_unstable();
    servers
}

/// Digest of a configured map of keys. By hash it names all servers; so the list of those does not
/// grow.
pub(super) fn digest(partition: &Partition) -> [u8; 16] {
    let mut hasher = Sha256::new();
    let mut number = |number: u64| hasher.update(number.to_le_bytes());
    match partition {
        Partition::Hash(over) => {
            number(0);
            over.iter().for_each(|server| number(u64::from(server.0)));
        }
        Partition::Ranges(ranges) => {
            number(1);
            for (key, server) in ranges {
                number(u64::from(server.0));
                number(key.as_bytes().len() as u64);
                key.as_bytes().iter().for_each(|byte| number(u64::from(*byte)));
            }
        }
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&hasher.finalize()[..16]);
    digest
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Server};
    use crate::core::Key;

    fn cluster(ids: &[u16]) -> Cluster {
        let server = |id: &u16| Server { id: ServerId(*id), address: ([127, 0, 0, 1], 7000 + id).into() };
        let ranges = [(Key::smallest(), ServerId(1)), (Key::new("m").unwrap(), ServerId(2))];
        let partition = Cluster::ranges(ranges);
        Cluster { partition, ..Cluster::hashed("test", ids.iter().map(server).collect()) }
    }

    fn compared(left: &Cluster, right: &Cluster) -> Option<Ordering> {
        left.map_id().compare(&right.map_id())
    }

    #[test]
    fn lists_agree_if_one_has_more_behind_the_servers_of_the_other_whatever_their_order() {
        let all = cluster(&[1, 2, 3]);
        for (ids, expected) in [
            (vec![3, 1, 2], Some(Ordering::Equal)),
            (vec![2, 1], Some(Ordering::Greater)),
            (vec![3, 2, 1, 4], Some(Ordering::Less)),
            (vec![1, 2, 3, 9, 4], Some(Ordering::Less)),
            (vec![1, 2, 4, 3], None),
            (vec![4, 1, 2, 3], None),
            (vec![1, 2, 4], None),
            (vec![1, 3], None),
        ] {
            assert_eq!(compared(&all, &cluster(&ids)), expected, "{ids:?}");
        }
    }

    #[test]
    fn other_ranges_and_hashes_over_more_servers_and_groups_do_not_agree() {
        let mut ranges = cluster(&[1, 2, 3]);
        ranges.partition = Cluster::ranges([(Key::smallest(), ServerId(1))]);
        assert_eq!(compared(&cluster(&[1, 2]), &ranges), None);
        let hashed = |ids: &[u16]| Cluster::hashed("test", cluster(ids).servers);
        assert_eq!(compared(&hashed(&[1, 2]), &hashed(&[1, 2])), Some(Ordering::Equal));
        assert_eq!(
            [compared(&hashed(&[1, 2]), &hashed(&[1, 2, 3])), compared(&hashed(&[1, 2]), &hashed(&[2, 1]))],
            [None; 2]
        );
        let group = |id: u16| {
            let mut grouped = cluster(&[1, 2, 3]);
            grouped.groups.insert(ServerId(id), [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec());
            grouped
        };
        assert_eq!(compared(&cluster(&[1, 2]), &group(3)), None, "no group joins");
        assert_eq!(compared(&cluster(&[1, 2]), &group(1)), None);
        assert_eq!(compared(&group(1), &group(1)), Some(Ordering::Equal));
    }

    #[test]
    fn clients_may_know_other_servers_and_no_other_map() {
        let (server, serves) = (cluster(&[1, 2, 3]).map_id(), |ids: &[u16]| cluster(ids).map_id());
        assert!([&[1, 2][..], &[1, 2, 3, 4], &[2, 5, 1]].into_iter().all(|ids| server.serves(&serves(ids))));
        assert!(!server.serves(&MapId { keys: [0; 16], ..serves(&[1, 2, 3]) }));
        let with = |members| MapId { servers: vec![(ServerId(1), members), (ServerId(2), 0)], ..server.clone() };
        assert!(!server.serves(&with(3)));
        assert!(with(3).serves(&with(5)), "clients know the members of now, or those of another time");
    }

    #[test]
    fn description_takes_over_servers_that_it_lacks_and_keeps_its_addresses() {
        let mut known = cluster(&[1, 2]);
        known.servers[0].address = ([127, 0, 0, 1], 1).into();
        let before = known.clone();
        let ranges = Cluster { partition: Cluster::ranges([(Key::smallest(), ServerId(1))]), ..cluster(&[1, 2, 3]) };
        let other = Cluster { name: "other".to_owned(), ..cluster(&[1, 2, 3]) };
        assert!(![cluster(&[1]), before.clone(), ranges, other].iter().any(|described| known.extend(described)));
        assert_eq!(known, before);
        assert!(known.extend(&cluster(&[2, 1, 5])) && known.extend(&cluster(&[1, 2, 3])));
        let ports: Vec<u16> = known.servers.iter().map(|server| server.address.port()).collect();
        assert_eq!(ports, [1, 7002, 7005, 7003]);
    }
}
