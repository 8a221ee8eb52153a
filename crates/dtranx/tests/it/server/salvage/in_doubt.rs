//! A server is in doubt about transactions of another one. They are not applied, unless the items
//! show that they are committed.

use std::fs;
use std::time::{Duration, Instant};

use dtranx::backup;
use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::Cluster;
use dtranx::core::{Key, Partition, ServerId, TranxId};
use dtranx::server::{Moment, Salvaged, Server, ServerConfig, salvage};
use fjall::{Database, KeyspaceCreateOptions};
use tempfile::TempDir;

use crate::limit::Limit;
use crate::server::in_doubt::{key, prepare_as_second};
use crate::server::{cluster, config, store};

const FIRST: ServerId = ServerId(1);
const SECOND: ServerId = ServerId(2);

/// Two servers: the second one has the keys from m on.
fn two() -> Cluster {
    let (low, high) = (Key::new("").unwrap(), Key::new("m").unwrap());
    Cluster { partition: Partition::Ranges(vec![(low, FIRST), (high, SECOND)]), ..cluster(2) }
}

/// A stopped server that is in doubt about three transactions: each writes "x" under one of the
/// keys a1 to a3, which have "before".
fn in_doubt() -> (TempDir, ServerConfig) {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), two());
    let config = |server| config(&cluster, server, folder.path());
    let _first = Server::start(&config(1)).unwrap();
    let second = Server::start(&config(2)).unwrap();
    let client = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
    for at in 1..=3 {
        client.put(key(at).as_bytes().to_vec(), "before").unwrap();
    }
    client.put("a", "before").unwrap();
    drop(second);
    let _stream = prepare_as_second(&cluster, store(&folder.path().join("2")), &[1, 2, 3]);
    let begun = Instant::now();
    while client.status(FIRST).unwrap().in_doubt < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the parts are not prepared");
        std::thread::sleep(Duration::from_millis(10));
    }
    let config = config(1);
    (folder, config)
}

/// Result of the salvage, and the sure values of a1 to a3.
fn got(folder: &TempDir, config: &ServerConfig) -> (Salvaged, Vec<Option<Vec<u8>>>, u64) {
    let mut file = Vec::new();
    let found = salvage(config, &folder.path().join("scratch"), &mut file).unwrap();
    let (mut values, mut uncertain) = (vec![None; 3], 0);
    backup::items(&file[..], |found, value, is_uncertain| {
        uncertain += u64::from(is_uncertain);
        if let Some(at) = (1..=3).find(|at| key(*at) == found && !is_uncertain) {
            values[at as usize - 1] = Some(value.as_bytes().to_vec());
        }
    })
    .unwrap();
    (found, values, uncertain)
}

#[test]
fn transactions_in_doubt_are_named_and_not_applied() {
    let _limit = Limit::of(300, "start of a server");
    let (folder, config) = in_doubt();
    let (found, values, uncertain) = got(&folder, &config);
    // Their coordinator may have committed them.
    assert_eq!((values, uncertain), (vec![None, None, None], 3));
    assert!(found.damages.is_empty() && found.moment == Moment::Newest && !found.is_whole());
    let tranxs: Vec<_> = (1..=3).map(|number| TranxId { server: SECOND, number }).collect();
    assert_eq!((found.in_doubt.total, found.in_doubt.first), (3, tranxs));
    assert_eq!(found.doubtful.first, [key(1), key(2), key(3)]);
}

#[test]
fn transaction_of_which_an_item_has_a_write_is_committed() {
    let _limit = Limit::of(300, "start of a server");
    let (folder, config) = in_doubt();
    // As if the server had been stopped between the write and the record of the outcome.
    let database = Database::builder(config.folder.join("items")).open().unwrap();
    let items = database.keyspace("items", KeyspaceCreateOptions::default).unwrap();
    let stored = [&2_u16.to_le_bytes()[..], &2_u64.to_le_bytes(), b"x"].concat();
    items.insert([b"k", key(2).as_bytes()].concat(), stored).unwrap();
    drop(items);
    drop(database);
    let (found, values, _) = got(&folder, &config);
    assert_eq!(values, [None, Some(b"x".to_vec()), None]);
    assert_eq!(found.in_doubt.total, 2);
}

#[test]
fn keys_in_doubt_are_not_sure_if_the_items_that_would_show_it_are_lost() {
    let _limit = Limit::of(300, "start of a server");
    let (folder, config) = in_doubt();
    fs::remove_dir_all(config.folder.join("items")).unwrap();
    let (found, values, uncertain) = got(&folder, &config);
    assert_eq!((values, uncertain), (vec![None, None, None], 3));
    assert_eq!((found.in_doubt.total, found.sure.items), (3, 1), "the key a is sure");
}
