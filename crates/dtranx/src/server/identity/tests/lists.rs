//! A server's identity in a cluster that others join (decision 0087).

use tempfile::TempDir;

use super::*;
use crate::cluster::Server;
use crate::core::{Key, Partition};

fn cluster(ids: &[u16]) -> Cluster {
    let server = |id: &u16| Server { id: ServerId(*id), address: ([127, 0, 0, 1], 7000 + id).into() };
    let partition = Partition::Ranges(vec![(Key::smallest(), ServerId(1))]);
    Cluster { partition, ..Cluster::hashed("test", ids.iter().map(server).collect()) }
}

fn config_of(folder: &TempDir, cluster: Cluster) -> ServerConfig {
    ServerConfig::new(cluster, ServerId(1), folder.path())
}

/// Error with which a folder is refused to a configuration.
fn refusal(folder: &TempDir, cluster: Cluster) -> Option<String> {
    Identity::open(&config_of(folder, cluster)).err().map(|error| error.to_string())
}

/// Meets the store of a server that joins, with a list.
fn meet(folder: &TempDir, ids: &[u16], joins: u16) {
    let mut identity = Identity::open(&config_of(folder, cluster(ids))).unwrap();
    assert_eq!(identity.meet(ServerId(joins).into(), store(joins as u8), &[]).unwrap(), Met::First);
}

#[test]
fn longer_list_is_remembered_with_the_store_that_joins_and_the_shorter_one_refused_from_then_on() {
    let folder = tempfile::tempdir().unwrap();
    for ids in [&[1, 2][..], &[2, 1], &[1, 2, 3], &[2, 1, 3, 5, 4], &[1, 2, 7], &[1, 2]] {
        assert_eq!(refusal(&folder, cluster(ids)), None, "nobody has joined: {ids:?}");
    }
    meet(&folder, &[1, 2, 3, 5, 4], 3);
    meet(&folder, &[1, 2, 3, 5, 4], 5);
    for ids in [&[1, 2, 3, 5][..], &[5, 3, 2, 1, 4], &[1, 2, 3, 5, 6]] {
        assert_eq!(refusal(&folder, cluster(ids)), None, "{ids:?}");
    }
    for (ids, why) in [
        (&[1, 2][..], "the configuration says [1, 2]; a server that has joined stays in the list"),
        (&[1, 2, 3], "a server that has joined stays in the list"),
        (&[1, 2, 3, 4, 5], "; a server joins behind all others"),
        (&[1, 2, 3, 4, 6], "the configuration says [1, 2, 3, 4, 6]"),
    ] {
        let said = refusal(&folder, cluster(ids)).unwrap();
        assert!(said.contains("servers: the cluster has the servers [1, 2, 3, 5]") && said.contains(why), "{said}");
    }
}

#[test]
fn member_remembers_a_longer_list_from_its_start_on() {
    let folder = tempfile::tempdir().unwrap();
    let config_with = |ids: &[u16]| {
        let mut config = config_of(&folder, cluster(ids));
        config.cluster.groups.insert(ServerId(1), [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec());
        config.member = Some(1);
        config
    };
    for ids in [&[1, 2][..], &[1, 2, 3]] {
        Identity::open(&config_with(ids)).unwrap();
    }
    let said = Identity::open(&config_with(&[1, 2])).unwrap_err().to_string();
    assert!(said.contains("a server that has joined stays in the list"), "{said}");
}

#[test]
fn tools_accept_a_longer_list_and_do_not_note_it() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refusal(&folder, cluster(&[1, 2])), None);
    let longer = config_of(&folder, cluster(&[1, 2, 3]));
    let mut existing = Identity::existing(&longer).unwrap();
    assert!(matches!(Identity::look(&longer), Ok(Looked::Whole(..))));
    existing.give_up(&BTreeMap::from([(ServerId(2), store(7))])).unwrap();
    assert_eq!(refusal(&folder, cluster(&[1, 2])), None);
}

#[test]
fn lists_of_clusters_by_hash_do_not_grow_and_no_group_joins() {
    let folder = tempfile::tempdir().unwrap();
    let hashed = |ids: &[u16]| Cluster::hashed("test", cluster(ids).servers);
    assert_eq!(refusal(&folder, hashed(&[1, 2])), None);
    let said = refusal(&folder, hashed(&[1, 2, 3])).unwrap();
    assert!(said.contains("the configuration says [1, 2, 3]; none joins where keys are spread by hash"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(refusal(&folder, cluster(&[1, 2])), None);
    let mut group = cluster(&[1, 2, 3]);
    group.groups.insert(ServerId(3), [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec());
    assert!(refusal(&folder, group).unwrap().contains("members: the groups have so many members"));
}

#[test]
fn new_server_is_noted_when_all_have_welcomed_it_and_in_use_when_it_has_joined() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Identity::open(&config_of(&folder, cluster(&[1, 2, 3]))).unwrap();
    let (second, third) = (ServerId(2).into(), ServerId(3).into());
    let mut identity = open();
    identity.settle().unwrap();
    let mut expected = vec![(true, vec![third]), (false, vec![second, third]), (false, vec![third]), (false, vec![])];
    for (peer, is_noted) in [(second, false), (third, false), (second, true), (third, true)] {
        identity.welcomed(peer, is_noted).unwrap();
        assert_eq!((identity.is_tentative(), identity.waits_for()), expected.remove(0));
    }
    assert!(identity.is_new(), "it has not joined");
    // A server that is killed meanwhile waits again.
    assert_eq!((open().is_tentative(), open().waits_for()), (true, vec![second, third]));
    identity.settle().unwrap();
    assert!(open().is_in_use());
}
