//! Tests of ranges that move from one server to another while clients read, write, scan and hold
//! snapshots.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use dtranx::client::{AsyncClient, Client, ClientOptions, Error};
use dtranx::cluster::Cluster;
use dtranx::core::{Key, KeyRange, LimitError, Map, Partition, Refusal, ServerId};
use dtranx::server::{Server, salvage, verify};
use pollster::block_on;
use tempfile::TempDir;

use crate::limit::Limit;
use crate::server::{cluster, config};

const FIRST: ServerId = ServerId(1);
const SECOND: ServerId = ServerId(2);

/// Two servers; the first one holds what is before "m".
struct Two {
    cluster: Cluster,
    servers: Vec<Server>,
    folder: TempDir,
}

impl Two {
    fn start() -> Self {
        Self::with(Partition::Ranges(vec![(key(""), FIRST), (key("m"), SECOND)]))
    }

    fn with(partition: Partition) -> Self {
        let (mut cluster, folder) = (cluster(2), tempfile::tempdir().unwrap());
        cluster.partition = partition;
        let mut two = Self { cluster, servers: Vec::new(), folder };
        two.run();
        two
    }

    fn run(&mut self) {
        let start = |server| Server::start(&config(&self.cluster, server, self.folder.path())).unwrap();
        self.servers = [1, 2].map(start).into();
    }

    fn client(&self) -> Client {
        let addresses: Vec<_> = self.cluster.servers.iter().map(|server| server.address).collect();
        Client::connect(&addresses, ClientOptions::default()).unwrap()
    }
}

fn key(name: &str) -> Key {
    Key::new(name.as_bytes().to_vec()).unwrap()
}

fn range(from: &str, until: &str) -> KeyRange {
    KeyRange::until(key(from), key(until))
}

fn holders(map: &Map, names: &[&str]) -> Vec<u16> {
    names.iter().map(|name| map.server_of(&key(name)).0).collect()
}

fn all(client: &Client) -> BTreeMap<Bytes, Bytes> {
    client.transact(|tranx| tranx.scan(KeyRange::all(), 900)).unwrap().items.into_iter().collect()
}

fn put_all(client: &Client, names: impl Iterator<Item = String>) -> BTreeMap<Bytes, Bytes> {
    let mut put = BTreeMap::new();
    for name in names {
        client.put(name.clone(), format!("of {name}")).unwrap();
        put.insert(Bytes::from(name.clone()), Bytes::from(format!("of {name}")));
    }
    put
}

#[test]
fn moved_range_is_read_written_and_scanned_by_clients_that_have_not_heard_of_it() {
    let _limit = Limit::of(120, "moves");
    let two = Two::start();
    let (client, mover) = (two.client(), two.client());
    let before = put_all(&client, (0..30).map(|n| format!("{}{n}", ["b", "f", "p"][n % 3])));
    let moved = mover.move_range(&range("f", "g"), SECOND, |_| {}).unwrap();
    assert_eq!((moved.items, moved.transactions), (10, 1));
    assert_eq!(holders(&mover.map().unwrap(), &["b1", "f", "f1", "g", "p1"]), [1, 2, 2, 1, 2]);

    assert_eq!(client.get("f1").unwrap().as_deref(), Some(&b"of f1"[..]));
    assert_eq!(all(&client), before);
    assert_eq!(client.get("f5").unwrap(), None);
    client.put("f5", "new").unwrap();
    let other = two.client();
    other.put("f6", "unseen").unwrap();
    assert_eq!(all(&two.client()).len(), before.len() + 2);
    let scanned = other.scan(&KeyRange::prefix(key("f")), 5).unwrap();
    assert!(scanned.items.len() == 5 && !scanned.complete);

    // What has read before the move is not committed as if nothing had happened.
    let mut reader = client.begin();
    reader.get("f1").unwrap();
    reader.put("b1", "read f1").unwrap();
    let third = two.client();
    third.move_range(&range("f1", "f2"), FIRST, |_| {}).unwrap();
    third.put("f1", "changed").unwrap();
    assert!(matches!(reader.commit(), Err(Error::Refused(_))));
}

#[test]
fn maps_and_items_outlive_restarts_and_moves_back() {
    let _limit = Limit::of(120, "moves");
    let mut two = Two::start();
    let client = two.client();
    let before = put_all(&client, (0..20).map(|n| format!("k{n:02}")));
    client.move_range(&range("k05", "k15"), SECOND, |_| {}).unwrap();
    client.move_range(&range("k10", "k12"), FIRST, |_| {}).unwrap();
    drop(client);
    two.servers.clear();
    for server in [1, 2] {
        let verified = verify(&config(&two.cluster, server, two.folder.path())).unwrap();
        assert_eq!(verified.misplaced, 0, "server {server}");
        let scratch = two.folder.path().join("scratch");
        let salvaged = salvage(&config(&two.cluster, server, two.folder.path()), &scratch, Vec::new()).unwrap();
        assert!(salvaged.is_whole(), "{:?}", salvaged.damages);
        assert_eq!(salvaged.sure.items, [12, 8][usize::from(server) - 1], "without the server's map");
    }
    two.run();
    let client = two.client();
    let names = ["k04", "k05", "k09", "k10", "k11", "k12", "k14", "k15"];
    assert_eq!(holders(&client.map().unwrap(), &names), [1, 2, 2, 1, 1, 2, 2, 1]);
    assert_eq!(all(&client), before);
    client.move_range(&KeyRange::all(), FIRST, |_| {}).unwrap();
    assert_eq!(holders(&client.map().unwrap(), &["", "k05", "m", "z"]), [1, 1, 1, 1]);
    assert_eq!(all(&two.client()), before);
}

#[test]
fn snapshot_of_before_a_move_shows_what_was_there() {
    let _limit = Limit::of(120, "moves");
    let two = Two::start();
    let client = two.client();
    let before = put_all(&client, (0..20).map(|n| format!("k{n:02}")));
    let snapshot = client.snapshot().unwrap();
    let mover = two.client();
    mover.move_range(&range("k05", "k15"), SECOND, |_| {}).unwrap();
    for n in 0..20 {
        mover.put(format!("k{n:02}"), "later").unwrap();
    }
    mover.delete("k07").unwrap();
    // The other client knows where the range is now, and not where it was.
    assert_eq!(client.get("k06").unwrap().as_deref(), Some(&b"later"[..]));
    assert_eq!(snapshot.multi_get(["k06", "k07", "k16"]).unwrap().into_iter().flatten().count(), 3);
    let shown: BTreeMap<Bytes, Bytes> = snapshot.scan(&KeyRange::all(), 100).unwrap().items.into_iter().collect();
    assert_eq!(shown, before);
    let later = client.snapshot().unwrap().scan(&KeyRange::all(), 100).unwrap().items;
    assert!(later.len() == 19 && later.iter().all(|(_, value)| &value[..] == b"later"));
}

#[test]
fn scans_over_many_ranges_find_everything_and_keep_their_limits() {
    let _limit = Limit::of(300, "moves");
    let two = Two::start();
    let client = two.client();
    let before = put_all(&client, (0..60).map(|n| format!("k{n:02}")));
    let snapshot = client.snapshot().unwrap();
    for n in (1..60).step_by(2) {
        let key = key(&format!("k{n:02}"));
        client.move_range(&KeyRange::through(key.clone(), key), SECOND, |_| {}).unwrap();
    }
    assert!(client.map().unwrap().pieces(&KeyRange::all()).len() > 60);
    // One has heard of no move, and the other of all.
    for client in [two.client(), client] {
        assert_eq!(all(&client), before);
        for limit in [1, 15, 16, 17, 33, 59, 60, 61] {
            let found = client.scan(&KeyRange::all(), limit).unwrap();
            let names: Vec<&Bytes> = found.items.iter().map(|(key, _)| key).collect();
            assert_eq!(names, before.keys().take(limit).collect::<Vec<_>>());
            assert!(found.complete || limit <= 60, "{limit}");
        }
    }
    assert_eq!(snapshot.scan(&KeyRange::all(), 100).unwrap().items.into_iter().collect::<BTreeMap<_, _>>(), before);
}

#[test]
fn large_range_moves_in_several_transactions() {
    let _limit = Limit::of(300, "moves");
    let two = Two::start();
    let client = two.client();
    for batch in 0..3 {
        client
            .transact(|tranx| (0..400).try_for_each(|n| tranx.put(format!("k{batch}{n:03}"), vec![0_u8; 4000])))
            .unwrap();
    }
    let mut heard = Vec::new();
    let moved = client.move_range(&KeyRange::prefix(key("k")), SECOND, |done| heard.push(done.items)).unwrap();
    assert_eq!(moved.items, 1200);
    assert!(heard.len() >= 3 && heard.is_sorted(), "{heard:?}");
    let client = two.client();
    assert_eq!(client.scan(&KeyRange::prefix(key("k")), 2000).unwrap().items.len(), 1200);
    assert_eq!(holders(&client.map().unwrap(), &["j", "k", "k2399", "l"]), [1, 2, 2, 1]);
}

#[test]
fn client_that_outlives_its_cluster_forgets_where_ranges_were_and_what_they_held() {
    let _limit = Limit::of(120, "moves");
    let mut two = Two::start();
    let options = ClientOptions { cache_items: 100, ..ClientOptions::default() };
    let addresses: Vec<_> = two.cluster.servers.iter().map(|server| server.address).collect();
    let client = Client::connect(&addresses, options).unwrap();
    // The first transaction of each cluster: both have the same version.
    client.put("b", "old").unwrap();
    client.put("f", "old").unwrap();
    client.move_range(&range("f", "g"), SECOND, |_| {}).unwrap();
    assert_eq!(client.get("f").unwrap().as_deref(), Some(&b"old"[..]));
    let snapshot = client.snapshot().unwrap();
    let mut reader = client.begin();
    reader.get("b").unwrap();
    reader.put("b", "of what was read").unwrap();

    two.servers.clear();
    for server in ["1", "2"] {
        std::fs::remove_dir_all(two.folder.path().join(server)).unwrap();
    }
    two.run();
    let other = two.client();
    other.put("b", "new").unwrap();
    other.put("f", "new").unwrap();
    // Unknown, if it went into the connection to the old server.
    assert!(matches!(reader.commit(), Err(Error::Refused(Refusal::Stale { .. }) | Error::Unknown(_))));
    for name in ["b", "f"] {
        assert_eq!(client.get(name).unwrap().as_deref(), Some(&b"new"[..]));
    }
    assert_eq!(holders(&client.map().unwrap(), &["f"]), [1]);
    assert!(matches!(snapshot.get("b"), Err(Error::Refused(Refusal::SnapshotTooOld { .. }))));
}

/// A future that is given up after so many polls.
struct GivenUp<F> {
    future: Pin<Box<F>>,
    polls: usize,
}

impl<F: Future> Future for GivenUp<F> {
    /// True if the future was ready before.
    type Output = bool;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(polls) = self.polls.checked_sub(1) else { return Poll::Ready(false) };
        self.polls = polls;
        self.future.as_mut().poll(cx).map(|_| true)
    }
}

#[test]
fn move_that_is_dropped_at_any_await_leaves_each_key_at_one_server() {
    let _limit = Limit::of(120, "moves");
    let two = Two::start();
    let client = two.client();
    let before = put_all(&client, (0..10).map(|n| format!("k{n}")));
    let addresses: Vec<_> = two.cluster.servers.iter().map(|server| server.address).collect();
    let mover = block_on(AsyncClient::connect(&addresses, ClientOptions::default())).unwrap();
    let range = KeyRange::prefix(key("k"));
    for polls in 0.. {
        // Whatever was done by the one before.
        let map = client.map().unwrap();
        let to = if map.holds(FIRST, &range) { SECOND } else { FIRST };
        let future = Box::pin(mover.move_range(&range, to, |_| {}));
        let is_done = block_on(GivenUp { future, polls });
        assert_eq!(all(&client), before, "after {polls} polls");
        if is_done {
            assert!(polls > 3 && client.map().unwrap().holds(to, &range));
            break;
        }
    }
}

#[test]
fn what_cannot_move_is_refused_by_name() {
    let _limit = Limit::of(120, "moves");
    let two = Two::with(Partition::Hash(vec![FIRST, SECOND]));
    let refused = two.client().move_range(&range("a", "b"), SECOND, |_| {}).unwrap_err();
    assert!(matches!(&refused, Error::Refused(Refusal::Invalid(LimitError::Move { why })) if why.contains("hashes")));
    let two = Two::start();
    let client = two.client();
    let unknown = client.move_range(&range("a", "b"), ServerId(9), |_| {}).unwrap_err();
    assert!(unknown.to_string().contains("server 9"), "{unknown}");
    // The servers' own key is no client's.
    let reserved = client.put(Bytes::from(Key::of_map()), "mine").unwrap_err();
    assert!(matches!(&reserved, Error::Limit(LimitError::Reserved { .. })), "{reserved}");
    client.move_range(&KeyRange { start: key("z"), end: None }, FIRST, |_| {}).unwrap();
    client.put(&b"\xff\xffe"[..], "behind it").unwrap();
    assert_eq!(all(&client).len(), 1);
    assert_eq!(client.scan(&KeyRange { start: key("z"), end: None }, 1).unwrap().items.len(), 1);
}
