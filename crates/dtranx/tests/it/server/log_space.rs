//! Tests of the log's size over time: garbage collection bounds it, and where nothing can be
//! collected its limit does.

use std::path::Path;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions, Error};
use dtranx::cluster::Cluster;
use dtranx::core::{Partition, Refusal, ServerId};
use dtranx::server::{Server, ServerConfig};

use crate::limit::Limit;
use crate::server::{cluster, config};

const SEGMENT_BYTES: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

/// Size of the log's files on the disk, in bytes.
fn on_disk(folder: &Path) -> u64 {
    // A segment may be removed meanwhile; it counts as empty then.
    let size = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().metadata().map_or(0, |file| file.len());
    std::fs::read_dir(folder).unwrap().map(size).sum()
}

fn client(cluster: &Cluster, attempts: u32) -> Client {
    let addresses: Vec<_> = cluster.servers.iter().map(|server| server.address).collect();
    Client::connect(&addresses, ClientOptions { attempts, request_ms: 60_000, ..ClientOptions::default() }).unwrap()
}

fn value() -> Vec<u8> {
    vec![7; 1 << 20]
}

/// Six writes of 1 MiB each, over the same keys.
fn write_six(client: &Client, name: &str) -> Result<(), Error> {
    client.transact(|tranx| (0..6).try_for_each(|number| tranx.put(format!("{name}{number}"), value())))
}

#[test]
fn log_stays_within_its_bound_while_many_times_that_is_written() {
    let _limit = Limit::of(300, "room in the log");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let mut config = config(&cluster, 1, folder.path());
    config.gc_interval_ms = 5;
    config.log_limit_bytes = 4 * SEGMENT_BYTES;
    let _server = Server::start(&config).unwrap();
    // At the limit a transaction is tried again until segments are removed. The bound therefore
    // does not depend on the speed of writes and of the collection.
    let client = client(&cluster, 10_000);
    let (mut written, mut largest) = (0, 0);
    while written < 3 * config.log_limit_bytes {
        write_six(&client, "a").unwrap();
        written += 6 << 20;
        largest = on_disk(&config.log_folder).max(largest);
    }
    // One more segment may be made while the last transactions are admitted. The GC log takes 128
    // KiB.
    assert!(largest <= config.log_limit_bytes + 2 * SEGMENT_BYTES + (128 << 10), "{largest} bytes");
    let status = client.status(ServerId(1)).unwrap();
    assert!(status.log_bytes <= config.log_limit_bytes + 2 * SEGMENT_BYTES && status.anomalies == 0, "{status:?}");
}

#[test]
fn log_that_is_not_collected_grows_up_to_its_limit() {
    let _limit = Limit::of(300, "refusal by the limit of the log");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let mut config = config(&cluster, 1, folder.path());
    config.gc_interval_ms = 3_600_000;
    config.log_limit_bytes = 6 * SEGMENT_BYTES;
    let _server = Server::start(&config).unwrap();
    let client = client(&cluster, 1);
    let mut written = 0;
    let refused = loop {
        match write_six(&client, "a") {
            Ok(()) => written += 6_u64 << 20,
            Err(error) => break error,
        }
        assert!(written < 10 * config.log_limit_bytes, "there is no limit");
    };
    assert_is_the_limit(&refused);
    // Two transactions fit into a segment, so at most a quarter of each segment is unused.
    assert!(written >= 4 * SEGMENT_BYTES * 3 / 4, "refused after {written} bytes");
    let bytes = on_disk(&config.log_folder);
    assert!((config.log_limit_bytes..=config.log_limit_bytes + 2 * SEGMENT_BYTES).contains(&bytes), "{bytes} bytes");
    assert_eq!(client.get("a5").unwrap().unwrap().len(), 1 << 20, "reads go on");
}

fn assert_is_the_limit(error: &Error) {
    let (Error::GivenUp { last: refusal, .. } | Error::Refused(refusal)) = error else { panic!("{error}") };
    assert!(matches!(refusal, Refusal::Overloaded { limit } if limit.contains("limits.log_mib")), "{refusal}");
}

/// A cluster of two servers; server 1 holds the keys up to `m`, server 2 the others.
struct Pair {
    cluster: Cluster,
    configs: Vec<ServerConfig>,
    _folder: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let (mut cluster, folder) = (cluster(2), tempfile::tempdir().unwrap());
        let key = |name: &'static str| dtranx::core::Key::new(name).unwrap();
        cluster.partition = Partition::Ranges(vec![(key(""), ServerId(1)), (key("m"), ServerId(2))]);
        let configs = (1..=2).map(|server| {
            let mut config = config(&cluster, server, folder.path());
            config.log_limit_bytes = 4 * SEGMENT_BYTES;
            config
        });
        Self { configs: configs.collect(), cluster, _folder: folder }
    }
}

/// Leaves a transaction of which server 1 has a part. Its coordinator, server 2, ends before it has
/// announced that the transaction is complete.
fn leave_incomplete(pair: &Pair) {
    let mut silent = pair.configs[1].clone();
    silent.gc_interval_ms = 3_600_000;
    let _second = Server::start(&silent).unwrap();
    write_together(&client(&pair.cluster, 100)).unwrap();
}

/// Writes keys on both servers in one transaction. Server 2 coordinates it, because it holds most
/// of the keys.
fn write_together(client: &Client) -> Result<(), Error> {
    client.transact(|tranx| ["a", "x", "y", "z"].iter().try_for_each(|key| tranx.put(*key, "together")))
}

#[test]
fn log_that_waits_for_a_server_meets_its_limit_and_recovers_when_that_is_back() {
    let _limit = Limit::of(300, "room in the log");
    let pair = Pair::new();
    let _first = Server::start(&pair.configs[0]).unwrap();
    leave_incomplete(&pair);
    let once = client(&pair.cluster, 1);
    let refused = (0..40).find_map(|_| write_six(&once, "b").err()).expect("there is no limit");
    assert_is_the_limit(&refused);
    assert_eq!(once.get("b5").unwrap().unwrap().len(), 1 << 20, "reads go on");
    let bytes = on_disk(&pair.configs[0].log_folder);
    assert!(bytes <= 6 * SEGMENT_BYTES + (128 << 10), "{bytes} bytes");
    let _second = Server::start(&pair.configs[1]).unwrap();
    let begun = Instant::now();
    while let Err(error) = write_six(&once, "b") {
        assert!(begun.elapsed() < PATIENCE, "{error}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn part_of_a_transaction_meets_the_limit_of_its_server() {
    let _limit = Limit::of(300, "refusal by the limit of the log");
    let mut pair = Pair::new();
    pair.configs[0].gc_interval_ms = 3_600_000;
    let _servers = pair.configs.iter().map(|config| Server::start(config).unwrap()).collect::<Vec<_>>();
    write_together(&client(&pair.cluster, 100)).unwrap();
    let once = client(&pair.cluster, 1);
    (0..40).find_map(|_| write_six(&once, "b").err()).expect("there is no limit");
    assert_is_the_limit(&write_together(&once).unwrap_err());
    // Writes on the other server alone go on, and so do reads on both.
    once.put("z", "alone").unwrap();
    let read = once.transact(|tranx| Ok([tranx.get("a")?, tranx.get("z")?])).unwrap();
    assert_eq!(read, [Some("together".into()), Some("alone".into())]);
}
