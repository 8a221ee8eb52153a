//! Tests of a folder's identity: lost, exchanged or differently configured data are refused by
//! name, and are not read.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions, Error};
use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::{Key, Partition, ServerId};
use dtranx::server::{Server, ServerConfig, verify};
use tempfile::TempDir;

use crate::limit::Limit;
use crate::server::{cluster, config, free_address, store};

const PATIENCE: Duration = Duration::from_secs(40);

fn client(cluster: &Cluster) -> Client {
    let options = ClientOptions { attempts: 10_000, request_ms: 20_000, ..ClientOptions::default() };
    let addresses: Vec<_> = cluster.servers.iter().map(|server| server.address).collect();
    Client::connect(&addresses, options).unwrap()
}

/// Error with which a server refuses to start.
fn refusal(config: &ServerConfig) -> String {
    Server::start(config).err().expect("it starts").to_string()
}

fn move_to(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

/// Folder, cluster and configuration of a single server that has written a few keys and ended.
fn used() -> (TempDir, Cluster, ServerConfig) {
    let (folder, cluster) = (tempfile::tempdir().unwrap(), cluster(1));
    let mut config = config(&cluster, 1, folder.path());
    // Every look for garbage may leave a record.
    config.gc_interval_ms = 3_600_000;
    let _server = Server::start(&config).unwrap();
    let client = client(&cluster);
    for number in 0..20_u8 {
        client.put(vec![number], "x").unwrap();
    }
    drop(_server);
    (folder, cluster, config)
}

#[test]
fn log_items_or_identity_that_are_gone_are_named_and_put_back_they_serve() {
    let _limit = Limit::of(120, "start of a server");
    let (folder, cluster, config) = used();
    let aside = folder.path().join("aside");
    let (items, identity) = (config.folder.join("items"), config.folder.join("identity.toml"));
    let parts = [
        (&config.log_folder, "the log is gone"),
        (&items, "the items are gone"),
        (&identity, "identity.toml: it is missing, but there is"),
    ];
    for (part, why) in parts {
        move_to(part, &aside);
        // Two starts: the first one must not leave files that the second one takes for its data.
        for _ in 0..2 {
            let said = refusal(&config);
            assert!(said.contains(why), "{said}");
        }
        if part.is_dir() {
            fs::remove_dir_all(part).unwrap();
        }
        move_to(&aside, part);
        let _server = Server::start(&config).unwrap();
        assert_eq!(client(&cluster).get(vec![7]).unwrap().unwrap(), "x");
    }
}

#[test]
fn empty_folders_in_the_place_of_log_or_items_are_refused() {
    let _limit = Limit::of(120, "start of a server");
    for part in ["log", "items"] {
        let (_folder, _, config) = used();
        fs::remove_dir_all(config.folder.join(part)).unwrap();
        fs::create_dir(config.folder.join(part)).unwrap();
        for _ in 0..2 {
            let said = refusal(&config);
            assert!(said.contains("gone"), "{part}: {said}");
        }
    }
}

#[test]
fn log_or_items_of_another_store_of_the_same_server_are_refused() {
    let _limit = Limit::of(120, "start of a server");
    for part in ["log", "items"] {
        let (_folder, _, config) = used();
        let (_other_folder, _, other) = used();
        fs::remove_dir_all(config.folder.join(part)).unwrap();
        move_to(&other.folder.join(part), &config.folder.join(part));
        let said = refusal(&config);
        let (theirs, ours) = (store(&other.folder), store(&config.folder));
        assert!(said.contains(&format!("belongs to the store {theirs}, not to the store {ours}")), "{said}");
    }
}

#[test]
fn configuration_that_says_otherwise_is_refused_by_what_differs() {
    let _limit = Limit::of(120, "start of a server");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(3);
    let servers: Vec<_> =
        (1..=3).map(|server| Server::start(&config(&cluster, server, folder.path())).unwrap()).collect();
    let client = client(&cluster);
    (0..60_u8).for_each(|number| client.put(vec![number], "x").unwrap());
    drop(servers);

    let refused = |change: &dyn Fn(&mut Cluster)| {
        let mut other = cluster.clone();
        change(&mut other);
        refusal(&config(&other, 1, folder.path()))
    };
    let order = refused(&|other| other.partition = Partition::Hash(vec![ServerId(2), ServerId(1), ServerId(3)]));
    let said = "partition: the keys are spread by hash over the servers [1, 2, 3] in this order, \
                the configuration says by hash over the servers [2, 1, 3]";
    assert!(order.contains(said), "{order}");
    let fourth = Member { id: ServerId(4), address: free_address() };
    let more = refused(&|other| other.servers.push(fourth));
    assert!(
        more.contains("servers: the cluster has the servers [1, 2, 3], the configuration says [1, 2, 3, 4]"),
        "{more}"
    );
    let ranges = Cluster::ranges([(Key::new("").unwrap(), ServerId(1))]);
    let map = refused(&|other| other.partition = ranges.clone());
    assert!(map.contains("partition: ") && map.contains("by ranges"), "{map}");
    let name = refused(&|other| other.name = "another".to_owned());
    assert!(name.contains("cluster: the data are of \"test\", the configuration says \"another\""), "{name}");
    let mut as_second = config(&cluster, 2, folder.path());
    as_second.folder = folder.path().join("1");
    as_second.log_folder = as_second.folder.join("log");
    let server = refusal(&as_second);
    assert!(server.contains("server: the data are server 1's, the configuration says 2"), "{server}");

    // Servers may change their addresses, which are no part of the identity.
    let mut moved = cluster.clone();
    moved.servers.iter_mut().for_each(|server| server.address = free_address());
    let _servers: Vec<_> =
        (1..=3).map(|server| Server::start(&config(&moved, server, folder.path())).unwrap()).collect();
    let client = self::client(&moved);
    assert!((0..60_u8).all(|number| client.get(vec![number]).unwrap().is_some()));
}

#[test]
fn damage_of_the_identity_is_named() {
    let _limit = Limit::of(300, "start of a server");
    let (_folder, _, config) = used();
    let file = config.folder.join("identity.toml");
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= if at % 2 == 0 { 1 } else { 0x80 };
        fs::write(&file, damaged).unwrap();
        let said = refusal(&config);
        assert!(said.contains("identity.toml: it is damaged"), "byte {at}: {said}");
    }
    fs::write(&file, whole).unwrap();
    Server::start(&config).unwrap();
}

/// A server has lost all its data and starts as a new one. The other servers refuse it, so that no
/// client reads its keys as absent.
#[test]
fn server_that_lost_everything_is_refused_by_the_others_and_serves_no_client() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(3);
    let start = |server| Server::start(&config(&cluster, server, folder.path())).unwrap();
    let mut servers: Vec<_> = (1..=3).map(start).collect();
    let whole = client(&cluster);
    (0..60_u8).for_each(|number| whole.put(vec![number], "x").unwrap());
    drop(servers.remove(1));
    let before = store(&folder.path().join("2"));
    fs::remove_dir_all(folder.path().join("2")).unwrap();
    let _second = start(2);
    let after = store(&folder.path().join("2"));
    assert_ne!(before, after);

    let options = ClientOptions { request_ms: 1_000, attempts: 3, ..ClientOptions::default() };
    let refused = Client::connect(&[cluster.servers[1].address], options.clone()).err().unwrap();
    assert!(refused.to_string().contains("server 2 is new: it serves once it has met server 1, 3"), "{refused}");
    let hasty = Client::connect(&[cluster.servers[0].address], options).unwrap();
    let (mut kept, mut unanswered) = (0, 0);
    for number in 0..60_u8 {
        match hasty.get(vec![number]) {
            Ok(value) => {
                assert!(value.is_some(), "key {number} is read as absent");
                kept += 1;
            }
            Err(Error::Unavailable { .. } | Error::GivenUp { .. }) => unanswered += 1,
            Err(error) => panic!("{error}"),
        }
        if kept > 3 && unanswered > 3 {
            break;
        }
    }
    assert!(kept > 3 && unanswered > 3, "{kept} {unanswered}");
    assert!(!hasty.status(ServerId(1)).unwrap().peers.contains(&ServerId(2)));
}

#[test]
fn new_cluster_serves_once_its_servers_have_met() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(2);
    let _first = Server::start(&config(&cluster, 1, folder.path())).unwrap();
    let hasty = ClientOptions { request_ms: 300, ..ClientOptions::default() };
    let refused = Client::connect(&[cluster.servers[0].address], hasty).err().unwrap();
    assert!(refused.to_string().contains("server 1 is new: it serves once it has met server 2"), "{refused}");
    let second = Server::start(&config(&cluster, 2, folder.path())).unwrap();
    client(&cluster).put("a", "1").unwrap();
    // Once the servers have met, each serves without the other.
    drop((_first, second));
    let _first = Server::start(&config(&cluster, 1, folder.path())).unwrap();
    Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
}

#[test]
fn servers_and_clients_with_another_map_are_refused() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(2);
    let mut other = cluster.clone();
    other.partition = Partition::Hash(vec![ServerId(2), ServerId(1)]);
    {
        let _first = Server::start(&config(&cluster, 1, folder.path())).unwrap();
        let _second = Server::start(&config(&other, 2, folder.path())).unwrap();
        let hasty = ClientOptions { request_ms: 1_000, ..ClientOptions::default() };
        let refused = Client::connect(&[cluster.servers[0].address], hasty).err().unwrap();
        assert!(refused.to_string().contains("server 1 is new"), "they have met: {refused}");
    }
    fs::remove_dir_all(folder.path().join("2")).unwrap();
    let _first = Server::start(&config(&cluster, 1, folder.path())).unwrap();
    let _second = Server::start(&config(&cluster, 2, folder.path())).unwrap();
    client(&cluster).put("a", "1").unwrap();
    let strange = Client::of_cluster(other, ClientOptions { request_ms: 5_000, ..ClientOptions::default() }).unwrap();
    let begun = Instant::now();
    let refused = loop {
        match strange.get("a") {
            Err(Error::Unavailable { why, .. }) if why.contains("another map") => break why,
            other => assert!(begun.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    assert!(refused.contains("has other servers, or another map of keys, in its configuration"), "{refused}");
}

#[test]
fn verify_counts_what_is_there_names_what_is_not_and_changes_nothing() {
    let _limit = Limit::of(120, "verification of a server");
    let (_folder, cluster, config) = used();
    let log = || {
        let entries = fs::read_dir(&config.log_folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|file| (file.clone(), fs::read(file).unwrap())).collect::<std::collections::BTreeMap<_, _>>()
    };
    let before = log();
    let found = verify(&config).unwrap();
    assert_eq!((found.items, found.misplaced, found.in_doubt), (20, 0, 0));
    // The log has one record for each key, and one that reserves transaction numbers.
    assert_eq!(found.records, 21);
    assert!(log() == before);

    let server = Server::start(&config).unwrap();
    assert!(verify(&config).unwrap_err().to_string().contains("in use by another server"));
    client(&cluster).put("a", "1").unwrap();
    drop(server);
    let (file, bytes) = log()
        .into_iter()
        .rfind(|(file, bytes)| {
            file.extension().is_some_and(|extension| extension == "wal") && bytes[64..].iter().any(|byte| *byte != 0)
        })
        .unwrap();
    // Damages the first block of the segment in use, which is the last segment with data.
    let mut damaged = bytes.clone();
    damaged[64 + 33] ^= 1;
    fs::write(&file, damaged).unwrap();
    let said = verify(&config).unwrap_err().to_string();
    assert!(
        said.contains(file.file_name().unwrap().to_str().unwrap()) && said.contains("is damaged at offset 64"),
        "{said}"
    );
    fs::write(&file, bytes).unwrap();
    assert_eq!(verify(&config).unwrap().items, 21);
    fs::remove_file(config.folder.join("identity.toml")).unwrap();
    assert!(verify(&config).unwrap_err().to_string().contains("identity.toml: it cannot be read"));
}
