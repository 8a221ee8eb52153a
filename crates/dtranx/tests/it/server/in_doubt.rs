//! Test of a coordinator that is away: its transactions are in doubt, and the participant's status
//! shows them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::Cluster;
use dtranx::core::{
    Key, Message, Partition, ServerId, Standing, StoreId, Transaction, TranxId, Value, Write as KeyWrite,
};
use dtranx::server::{Server, prometheus};
use dtranx::wire::{Caller, Hello, PREFACE_BYTES, ServerStatus, encode, preface};

use crate::limit::Limit;
use crate::server::{cluster, config, store};

const PATIENCE: Duration = Duration::from_secs(40);
const FIRST: ServerId = ServerId(1);
const SECOND: ServerId = ServerId(2);

/// Reads the first server's status until it satisfies the condition.
fn until(client: &Client, what: &str, is_so: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
    let begun = Instant::now();
    loop {
        let status = client.status(FIRST).unwrap();
        if is_so(&status) {
            return status;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {status:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends the first server, in the second one's name, a `Prepare` for one transaction per key. The
/// votes are not read.
pub(crate) fn prepare_as_second(cluster: &Cluster, store: StoreId, keys: &[u64]) -> TcpStream {
    let mut bytes = preface().to_vec();
    let from = Caller::Server { server: SECOND, store, is_new: false };
    let hello =
        Hello { cluster: cluster.name.clone(), map: Some(cluster.map_id()), to: Some(FIRST), from, nonce: [0; 16] };
    encode(&hello, &mut bytes).unwrap();
    for (number, at) in (1..).zip(keys) {
        let write = KeyWrite { key: key(*at), value: Some(Value::new("x").unwrap()) };
        let part = Transaction { writes: vec![write], ..Transaction::default() };
        let tranx = TranxId { server: SECOND, number };
        // A part that holds nothing elsewhere may wait for locks up to the general limit.
        let standing = Standing { is_alone: true, ..Standing::default() };
        encode(&Message::Prepare { tranx, participants: vec![FIRST, SECOND], part, standing }, &mut bytes).unwrap();
    }
    let mut stream = TcpStream::connect(cluster.servers[0].address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut [0; PREFACE_BYTES]).unwrap();
    stream
}

pub(crate) fn key(number: u64) -> Key {
    Key::new(format!("a{number}")).unwrap()
}

#[test]
fn parts_in_doubt_are_counted_until_their_coordinator_is_back() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(2);
    let (low, high) = (Key::new("").unwrap(), Key::new("m").unwrap());
    cluster.partition = Partition::Ranges(vec![(low, FIRST), (high, SECOND)]);
    let start = |server| Server::start(&config(&cluster, server, folder.path())).unwrap();
    let _first = start(1);
    // New servers serve only once they have met.
    let second = start(2);
    let client = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
    let calm = until(&client, "nothing happens", |status| status.participating == 0);
    assert_eq!((calm.in_doubt, calm.asking), (0, 0));

    drop(second);
    let _stream = prepare_as_second(&cluster, store(&folder.path().join("2")), &[1, 2, 3]);
    until(&client, "three parts are prepared", |status| status.in_doubt == 3);
    let asking = until(&client, "the first server asks about them", |status| status.asking == 3);
    let page = prometheus(&asking);
    assert!(page.contains("\ndtranx_in_doubt 3\n") && page.contains("\ndtranx_asking 3\n"), "{page}");

    // The second server has no record of the transactions, and answers that they were aborted.
    let _second = start(2);
    let settled = until(&client, "they are settled", |status| status.in_doubt == 0 && status.asking == 0);
    assert_eq!((settled.participating, settled.anomalies), (0, 0), "{settled:?}");
    assert_eq!(client.get(key(1).as_bytes().to_vec()).unwrap(), None);
}

#[test]
fn parts_that_wait_for_locks_leave_with_their_coordinator() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = cluster(2);
    let (low, high) = (Key::new("").unwrap(), Key::new("m").unwrap());
    cluster.partition = Partition::Ranges(vec![(low, FIRST), (high, SECOND)]);
    let mut first = config(&cluster, 1, folder.path());
    first.lock_wait_ms = 60_000;
    let _first = Server::start(&first).unwrap();
    let second = Server::start(&config(&cluster, 2, folder.path())).unwrap();
    let client = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
    until(&client, "the servers have met", |status| !status.peers.is_empty());

    drop(second);
    let stream = prepare_as_second(&cluster, store(&folder.path().join("2")), &[1, 1, 1]);
    let waiting = until(&client, "two wait for the first", |status| status.lock_waiting == 2 && status.in_doubt == 1);
    assert_eq!(waiting.locking, 3);
    drop(stream);
    let gone = until(&client, "no request waits", |status| status.lock_waiting == 0);
    assert_eq!((gone.locking, gone.in_doubt), (1, 1), "what was voted for stays locked");
}
