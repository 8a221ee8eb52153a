//! Tests of transactions in doubt whose coordinator is lost with its folder: an operator decides,
//! and no decision contradicts what any log knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::Cluster;
use dtranx::core::{
    Decision, Epoch, Key, Message, Outcome, Partition, ServerId, Standing, StoreId, Transaction, TranxId, Value,
    Write as KeyWrite,
};
use dtranx::server::{GivenUp, Resolver, Server, ServerConfig, verify};
use dtranx::wire::{Caller, Hello, PREFACE_BYTES, ServerStatus, Welcome, decode, encode, next_frame, preface};
use tempfile::TempDir;

use crate::limit::Limit;
use crate::processes::commands::{dtranx, err, out};
use crate::server::{cluster, config, store};

const PATIENCE: Duration = Duration::from_secs(60);
const LOST: ServerId = ServerId(2);
const FIRST: ServerId = ServerId(1);
const THIRD: ServerId = ServerId(3);

/// Three servers, by ranges of keys: "a..." is on the first, "m..." on the second, "t..." on the
/// third. The second is dead, and the test speaks in its name.
struct Trio {
    folder: TempDir,
    cluster: Cluster,
    store_of_lost: StoreId,
    servers: BTreeMap<ServerId, Server>,
    /// Connections in the name of the lost server.
    streams: BTreeMap<ServerId, TcpStream>,
}

impl Trio {
    /// The three have met; then the second ends, and its folder is moved aside.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = cluster(3);
        let ranges = [("", FIRST), ("m", LOST), ("t", THIRD)];
        cluster.partition = Partition::Ranges(ranges.map(|(key, server)| (Key::new(key).unwrap(), server)).to_vec());
        let mut trio = Self {
            store_of_lost: StoreId::default(),
            folder,
            cluster,
            servers: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        (1..=3).for_each(|server| trio.start(ServerId(server)));
        // New servers serve only once they have met.
        for server in [FIRST, LOST, THIRD] {
            trio.client(server).put(["a", "m", "t"][usize::from(server.0) - 1], "before").unwrap();
        }
        trio.end(LOST);
        trio.store_of_lost = store(&trio.folder_of(LOST));
        fs::rename(trio.folder_of(LOST), trio.aside()).unwrap();
        trio
    }

    fn folder_of(&self, server: ServerId) -> PathBuf {
        self.folder.path().join(server.to_string())
    }

    /// Folder of the lost server, out of reach of all but the test.
    fn aside(&self) -> PathBuf {
        self.folder.path().join("aside")
    }

    fn config(&self, server: ServerId) -> ServerConfig {
        config(&self.cluster, server.0, self.folder.path())
    }

    fn start(&mut self, server: ServerId) {
        self.servers.insert(server, Server::start(&self.config(server)).unwrap());
    }

    fn end(&mut self, server: ServerId) {
        self.servers.remove(&server);
        self.streams.remove(&server);
    }

    fn stop(&mut self) {
        self.servers.clear();
        self.streams.clear();
    }

    fn client(&self, server: ServerId) -> Client {
        let options = ClientOptions { attempts: 10_000, request_ms: 20_000, ..ClientOptions::default() };
        Client::connect(&[self.cluster.address(server).unwrap()], options).unwrap()
    }

    fn until(&self, server: ServerId, what: &str, is_so: impl Fn(&ServerStatus) -> bool) -> ServerStatus {
        let (client, begun) = (self.client(server), Instant::now());
        loop {
            let status = client.status(server).unwrap();
            if is_so(&status) {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "server {server}: {what}: {status:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a message in the lost server's name.
    fn say(&mut self, to: ServerId, message: &Message) {
        let stream = self.streams.entry(to).or_insert_with(|| call(&self.cluster, to, self.store_of_lost).0);
        let mut bytes = Vec::new();
        encode(message, &mut bytes).unwrap();
        stream.write_all(&bytes).unwrap();
    }

    /// Requests a server's vote on a transaction that writes "x" under `key`.
    fn prepare(&mut self, to: ServerId, number: u64, key: &str) {
        self.prepare_on(to, number, key, &[FIRST, THIRD]);
    }

    fn prepare_on(&mut self, to: ServerId, number: u64, key: &str, participants: &[ServerId]) {
        let write = KeyWrite { key: Key::new(key.to_owned()).unwrap(), value: Some(Value::new("x").unwrap()) };
        let part = Transaction { writes: vec![write], ..Transaction::default() };
        let standing = Standing { is_alone: true, ..Standing::default() };
        let (tranx, participants) = (of_lost(number), participants.to_vec());
        self.say(to, &Message::Prepare { tranx, participants, part, standing });
    }

    /// Two transactions, for both of which the first and the third server have voted. Neither runs
    /// while the other votes: a server that gets an inquiry before it has voted promises an abort.
    fn two_in_doubt(&mut self) {
        for (server, key) in [(FIRST, "a"), (THIRD, "t")] {
            self.stop();
            self.start(server);
            (1..=2).for_each(|number| self.prepare(server, number, &format!("{key}{number}")));
            self.until(server, "two are in doubt", |status| status.in_doubt == 2);
        }
        self.stop();
    }

    fn resolver(&self, server: ServerId, others: &[ServerId], lost: &[ServerId]) -> Resolver {
        self.try_resolver(server, others, lost).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_resolver(&self, server: ServerId, others: &[ServerId], lost: &[ServerId]) -> Result<Resolver, String> {
        let folder = |other: &ServerId| if *other == LOST { self.aside() } else { self.folder_of(*other) };
        let others: Vec<_> = others.iter().map(|other| (*other, folder(other))).collect();
        let lost: BTreeSet<_> = lost.iter().copied().collect();
        Resolver::open(&self.config(server), &others, &lost).map_err(|error| error.to_string())
    }

    /// Every file of a server's log with its bytes.
    fn log(&self, server: ServerId) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = fs::read_dir(self.folder_of(server).join("log")).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    fn get(&self, server: ServerId, key: &str) -> Option<String> {
        let value = self.client(server).get(key.to_owned()).unwrap();
        value.map(|value| String::from_utf8(value.to_vec()).unwrap())
    }
}

/// More than the lost server has given itself: what its low-water mark calls complete is ignored.
const GIVEN: u64 = 1_000;

fn of_lost(number: u64) -> TranxId {
    TranxId { server: LOST, number: GIVEN + number }
}

/// Calls a server in the name of the lost one.
fn call(cluster: &Cluster, to: ServerId, store: StoreId) -> (TcpStream, Welcome) {
    let from = Caller::Server { server: LOST, store, is_new: false };
    let hello =
        Hello { cluster: cluster.name.clone(), map: Some(cluster.map_id()), to: Some(to), from, nonce: [0; 16] };
    let mut bytes = preface().to_vec();
    encode(&hello, &mut bytes).unwrap();
    let mut stream = TcpStream::connect(cluster.address(to).unwrap()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut [0; PREFACE_BYTES]).unwrap();
    let mut said = Vec::new();
    loop {
        if let Some((payload, _)) = next_frame(&said).unwrap() {
            return (stream, decode(payload).unwrap());
        }
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
}

fn refusal(resolver: Resolver, tranx: TranxId, decision: Decision) -> String {
    resolver.resolve(&BTreeMap::from([(tranx, decision)])).unwrap_err().to_string()
}

#[test]
fn operator_decides_once_and_every_server_in_doubt_acts_on_it() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();

    let decisions = BTreeMap::from([(of_lost(1), Decision::Commit), (of_lost(2), Decision::Abort)]);
    let given_up = trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&decisions).unwrap();
    let refused = GivenUp { server: LOST, store: Some(trio.store_of_lost), by: vec![FIRST, THIRD] };
    assert_eq!(given_up, [refused]);
    assert_eq!(verify(&trio.config(FIRST)).unwrap().in_doubt, 0);
    // Recorded decisions count as done.
    trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&decisions).unwrap();
    let said = refusal(trio.resolver(FIRST, &[THIRD], &[LOST]), of_lost(2), Decision::Commit);
    assert!(said.contains("2.1002: server 1 knows that it is aborted"), "{said}");
    assert_eq!(verify(&trio.config(THIRD)).unwrap().in_doubt, 2, "the others learn it when they run");
    let other_way = trio.resolver(THIRD, &[FIRST], &[LOST]);
    let found = other_way.in_doubt();
    assert!(found[0].commit_refused.is_none() && found[0].abort_refused.is_some(), "{found:?}");
    assert!(found[1].commit_refused.is_some() && found[1].abort_refused.is_none(), "{found:?}");
    let said = refusal(other_way, of_lost(1), Decision::Abort);
    assert!(said.contains("2.1001: it cannot be aborted: server 1 knows that it is committed"), "{said}");

    trio.start(FIRST);
    trio.start(THIRD);
    for server in [FIRST, THIRD] {
        let calm = trio.until(server, "nothing is in doubt", |status| {
            status.in_doubt + status.locking + status.participating == 0
        });
        assert_eq!(calm.anomalies, 0, "{calm:?}");
    }
    assert_eq!((trio.get(FIRST, "a1").as_deref(), trio.get(THIRD, "t1").as_deref()), (Some("x"), Some("x")));
    assert_eq!((trio.get(FIRST, "a2"), trio.get(THIRD, "t2")), (None, None));
    for (server, key) in [(FIRST, "a1"), (FIRST, "a2"), (THIRD, "t1"), (THIRD, "t2")] {
        trio.client(server).put(key, "after").unwrap();
    }
    // The decisions are there after another restart.
    trio.stop();
    trio.start(FIRST);
    trio.start(THIRD);
    assert_eq!(trio.get(THIRD, "t2").as_deref(), Some("after"));
}

#[test]
fn without_the_others_logs_nothing_is_decided_and_nothing_changes() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    let before = trio.log(FIRST);
    let identity = fs::read(trio.folder_of(FIRST).join("identity.toml")).unwrap();

    let found = trio.resolver(FIRST, &[], &[]).in_doubt();
    assert_eq!(found.iter().map(|found| found.doubt.tranx).collect::<Vec<_>>(), [of_lost(1), of_lost(2)]);
    assert_eq!(found[0].doubt.writes[0].key, Key::new("a1").unwrap());
    for decision in [Decision::Commit, Decision::Abort] {
        let said = refusal(trio.resolver(FIRST, &[], &[LOST]), of_lost(1), decision);
        assert!(said.contains("2.1001: the outcome may be known to server 3"), "{said}");
        let said = refusal(trio.resolver(FIRST, &[THIRD], &[]), of_lost(1), decision);
        assert!(said.contains("2.1001: the outcome may be known to server 2"), "{said}");
    }
    // One decision is refused, so the other is not recorded either.
    let both = BTreeMap::from([(of_lost(1), Decision::Abort), (of_lost(9), Decision::Abort)]);
    let said = trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&both).unwrap_err().to_string();
    assert!(said.contains("2.1009: server 1 is not in doubt about it"), "{said}");
    let own = TranxId { server: FIRST, number: 1 };
    let said = refusal(trio.resolver(FIRST, &[THIRD], &[LOST]), own, Decision::Abort);
    assert!(said.contains("1.1: server 1 coordinates it itself"), "{said}");
    assert!(trio.log(FIRST) == before);
    assert_eq!(fs::read(trio.folder_of(FIRST).join("identity.toml")).unwrap(), identity);
}

#[test]
fn outcome_that_a_log_knows_stands() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    // Only the first has voted for a third transaction: the third server does not run.
    trio.start(FIRST);
    trio.prepare(FIRST, 3, "a3");
    trio.until(FIRST, "three are in doubt", |status| status.in_doubt == 3);
    trio.end(FIRST);
    // The third server receives two outcomes, which the first cannot inquire about.
    trio.start(THIRD);
    let epoch = Epoch(trio.client(THIRD).status(THIRD).unwrap().epoch.0 + 5_000);
    let outcomes = vec![(of_lost(1), Outcome::Commit(epoch)), (of_lost(2), Outcome::Abort)];
    trio.say(THIRD, &Message::Decisions(outcomes));
    trio.until(THIRD, "it has acted", |status| status.in_doubt == 0 && status.participating == 0);
    assert_eq!(trio.get(THIRD, "t1").as_deref(), Some("x"));
    trio.stop();

    let first = || trio.resolver(FIRST, &[THIRD], &[LOST]);
    let said = refusal(first(), of_lost(1), Decision::Abort);
    assert!(said.contains("2.1001: it cannot be aborted: server 3 knows that it is committed"), "{said}");
    let said = refusal(first(), of_lost(2), Decision::Commit);
    assert!(said.contains("2.1002: it cannot be committed: server 3 knows that it is aborted"), "{said}");
    let said = refusal(first(), of_lost(3), Decision::Commit);
    assert!(said.contains("2.1003: it cannot be committed: server 3 has not voted yes"), "{said}");
    let decisions = [Decision::Commit, Decision::Abort, Decision::Abort];
    let fitting = (1..).map(of_lost).zip(decisions).collect::<BTreeMap<_, _>>();
    first().resolve(&fitting).unwrap();
    trio.start(FIRST);
    trio.start(THIRD);
    let calm = trio.until(FIRST, "nothing is in doubt", |status| status.in_doubt == 0 && status.locking == 0);
    assert_eq!(calm.anomalies, 0);
    assert!(calm.epoch >= epoch, "the server is behind the epoch of what it has: {calm:?}");
    assert_eq!(trio.get(FIRST, "a1").as_deref(), Some("x"));
    assert_eq!((trio.get(FIRST, "a2"), trio.get(FIRST, "a3")), (None, None));
}

/// A server receives a commit, does its writes, and is stopped before it has logged the outcome.
#[test]
fn writes_that_are_done_without_a_record_of_it_are_a_commit() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    let log = trio.log(THIRD);
    trio.start(THIRD);
    trio.say(THIRD, &Message::Decisions(vec![(of_lost(1), Outcome::Commit(Epoch(0)))]));
    trio.until(THIRD, "it has done its writes", |status| status.in_doubt == 1 && status.participating == 1);
    trio.stop();
    fs::remove_dir_all(trio.folder_of(THIRD).join("log")).unwrap();
    fs::create_dir(trio.folder_of(THIRD).join("log")).unwrap();
    log.iter().for_each(|(file, bytes)| fs::write(file, bytes).unwrap());
    assert_eq!(verify(&trio.config(THIRD)).unwrap().in_doubt, 2);

    for (server, other) in [(FIRST, THIRD), (THIRD, FIRST)] {
        let said = refusal(trio.resolver(server, &[other], &[LOST]), of_lost(1), Decision::Abort);
        assert!(said.contains("2.1001: it cannot be aborted: server 3 has done its writes"), "{said}");
    }
    let decisions = BTreeMap::from([(of_lost(1), Decision::Commit), (of_lost(2), Decision::Abort)]);
    trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&decisions).unwrap();
    [FIRST, THIRD].into_iter().for_each(|server| trio.start(server));
    for server in [FIRST, THIRD] {
        trio.until(server, "nothing is in doubt", |status| status.in_doubt + status.locking == 0);
    }
    assert_eq!((trio.get(FIRST, "a1").as_deref(), trio.get(THIRD, "t1").as_deref()), (Some("x"), Some("x")));
}

#[test]
fn coordinators_log_that_is_found_again_is_believed() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    // It has no record of the transactions, so that they were not committed.
    let resolver = || trio.resolver(FIRST, &[LOST, THIRD], &[]);
    let said = refusal(resolver(), of_lost(1), Decision::Commit);
    assert!(said.contains("server 2 knows that it is aborted"), "{said}");
    resolver().resolve(&BTreeMap::from([(of_lost(1), Decision::Abort)])).unwrap();
    assert_eq!(verify(&trio.config(FIRST)).unwrap().in_doubt, 1);
}

#[test]
fn store_that_was_given_up_is_refused_when_it_comes_back() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    trio.start(FIRST);
    let (_, before) = call(&trio.cluster, FIRST, trio.store_of_lost);
    assert!(matches!(before, Welcome::Server { .. }), "{before:?}");
    trio.stop();
    let decisions = BTreeMap::from([(of_lost(1), Decision::Commit)]);
    trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&decisions).unwrap();
    // Both servers refuse the lost one, because both folders were there, and again after a restart:
    // it is written down.
    for server in [FIRST, THIRD, FIRST, THIRD] {
        trio.start(server);
        let (_, welcome) = call(&trio.cluster, server, trio.store_of_lost);
        let Welcome::Refused { why, .. } = welcome else { panic!("{welcome:?}") };
        let said = format!("the store {} of server 2 was given up as lost", trio.store_of_lost);
        assert!(why.contains(&said), "{why}");
        trio.stop();
    }
}

#[test]
fn folders_in_use_and_of_others_are_refused_by_name() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    [FIRST, THIRD].into_iter().for_each(|server| trio.start(server));
    let refused = |server, others: &[ServerId], lost: &[ServerId]| {
        trio.try_resolver(server, others, lost).err().expect("it is opened")
    };
    assert!(refused(FIRST, &[THIRD], &[LOST]).contains("in use by another server"));
    assert!(refused(FIRST, &[], &[FIRST]).contains("lost: server 1 is the one that is in doubt"));
    assert!(refused(FIRST, &[], &[ServerId(9)]).contains("lost: there is no server 9 in the cluster"));
    assert!(refused(FIRST, &[THIRD], &[THIRD]).contains("server 3 is named twice"));
    trio.end(FIRST);
    let refused = |server, others: &[ServerId], lost: &[ServerId]| {
        trio.try_resolver(server, others, lost).err().expect("it is opened")
    };
    // The lock comes first: the identity of a server that runs may be written just now.
    let file = trio.folder_of(THIRD).join("identity.toml");
    let identity = fs::read(&file).unwrap();
    fs::write(&file, "half").unwrap();
    let running = refused(FIRST, &[THIRD], &[LOST]);
    fs::write(&file, identity).unwrap();
    assert!(running.contains("in use by another server") && running.contains("3/log"), "{running}");
    trio.stop();

    let wrong = |trio: &Trio, folder: &Path| {
        let others = [(THIRD, folder.to_owned())];
        Resolver::open(&trio.config(FIRST), &others, &BTreeSet::new()).err().expect("it is opened").to_string()
    };
    assert!(wrong(&trio, &trio.aside()).contains("the data are server 2's, the configuration says 3"));
    assert!(wrong(&trio, &trio.folder.path().join("nothing")).contains("find the log's folder"));
    assert!(!trio.folder.path().join("nothing").exists());
    // Another store of the third server: it had been lost before, and was made anew.
    fs::rename(trio.folder_of(THIRD), trio.folder.path().join("third")).unwrap();
    trio.start(THIRD);
    trio.stop();
    let said = wrong(&trio, &trio.folder_of(THIRD));
    assert!(said.contains("it is of the store") && said.contains("server 1 knows the store"), "{said}");
}

/// Two operators, each with a copy of the other's server.
#[test]
fn unknown_outcomes_are_decided_on_one_server_only() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    let copy = trio.folder.path().join("copy");
    copy_folder(&trio.folder_of(FIRST), &copy);
    let decisions = BTreeMap::from([(of_lost(1), Decision::Commit)]);
    trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&decisions).unwrap();
    for decision in [Decision::Commit, Decision::Abort] {
        let others = [(FIRST, copy.clone())];
        let third = Resolver::open(&trio.config(THIRD), &others, &BTreeSet::from([LOST])).unwrap();
        let said = refusal(third, of_lost(1), decision);
        assert!(said.contains("2.1001: no log knows the outcome: decide this on server 1"), "{said}");
    }
    // Once the first is lost, too, the third is the one.
    trio.resolver(THIRD, &[], &[FIRST, LOST]).resolve(&BTreeMap::from([(of_lost(2), Decision::Abort)])).unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn only_the_lost_servers_that_may_have_known_are_given_up() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.stop();
    trio.start(FIRST);
    trio.prepare_on(FIRST, 1, "a1", &[FIRST]);
    trio.until(FIRST, "one is in doubt", |status| status.in_doubt == 1);
    trio.stop();
    let decisions = BTreeMap::from([(of_lost(1), Decision::Abort)]);
    let given_up = trio.resolver(FIRST, &[], &[LOST, THIRD]).resolve(&decisions).unwrap();
    assert_eq!(given_up, [GivenUp { server: LOST, store: Some(trio.store_of_lost), by: vec![FIRST] }]);
}

#[test]
fn command_that_fails_halfway_says_so_and_is_run_again() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    let decisions = BTreeMap::from([(of_lost(1), Decision::Commit)]);
    let failed = |break_it: &dyn Fn()| {
        let resolver = trio.resolver(FIRST, &[THIRD], &[LOST]);
        break_it();
        resolver.resolve(&decisions).unwrap_err().to_string()
    };
    let in_the_way = trio.folder_of(THIRD).join("identity.new");
    let said = failed(&|| fs::create_dir(&in_the_way).unwrap());
    assert!(said.starts_with("no decision was recorded, but") && said.contains("run the same command again"), "{said}");
    fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(verify(&trio.config(FIRST)).unwrap().in_doubt, 2, "lost servers are given up before");
    let (file, aside) = (trio.folder_of(FIRST).join("log/gc.log"), trio.folder.path().join("gc.log"));
    let said = failed(&|| fs::rename(&file, &aside).unwrap());
    assert!(said.contains("the decisions may have been recorded; run the same command again"), "{said}");
    fs::rename(&aside, &file).unwrap();
    trio.resolver(FIRST, &[THIRD], &[LOST]).resolve(&decisions).unwrap();
    assert_eq!(verify(&trio.config(FIRST)).unwrap().in_doubt, 1);
}

/// A log that cannot be read to its end may know more: its owner counts neither as read nor as
/// lost.
#[test]
fn damaged_logs_are_named_and_nothing_is_decided_from_them() {
    let _limit = Limit::of(300, "answer of the servers");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    for server in [FIRST, THIRD] {
        // The newest segment with blocks: the votes are behind the first one.
        let is_used = |path: &Path, bytes: &[u8]| {
            path.extension().is_some_and(|extension| extension == "wal") && bytes[64..].iter().any(|byte| *byte != 0)
        };
        let (file, bytes) = trio.log(server).into_iter().rfind(|(path, bytes)| is_used(path, bytes)).unwrap();
        let mut damaged = bytes.clone();
        damaged[64 + 33] ^= 1;
        fs::write(&file, damaged).unwrap();
        let said = trio.try_resolver(FIRST, &[THIRD], &[LOST]).err().expect("it is opened");
        let file_name = file.file_name().unwrap().display();
        assert!(said.contains(&format!("the log: {file_name} is damaged at offset 64")), "{said}");
        let is_of_other = said.contains(&format!("server 3, in {}: ", trio.folder_of(THIRD).display()));
        assert_eq!(is_of_other, server == THIRD, "{said}");
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(trio.resolver(FIRST, &[THIRD], &[LOST]).in_doubt().len(), 2);
}

/// Runs `dtranx resolve` on the first server.
fn command(trio: &Trio, arguments: &[&str]) -> Output {
    let file = trio.folder.path().join("trio.toml");
    let servers = trio.cluster.servers.iter();
    let servers: Vec<_> =
        servers.map(|server| format!("{{ id = {}, address = \"{}\" }}", server.id, server.address)).collect();
    let text = format!(
        "cluster = \"test\"\nserver = 1\nfolder = \"{}\"\nservers = [{}]\n[limits]\nsegment_mib = 16\n[partition]\n\
         by = \"ranges\"\nranges = [{{ first_key = \"\", server = 1 }}, {{ first_key = \"m\", server = 2 }}, \
         {{ first_key = \"t\", server = 3 }}]\n",
        trio.folder_of(FIRST).display(),
        servers.join(", ")
    );
    fs::write(&file, text).unwrap();
    dtranx(None, &[&["resolve", "--config", file.to_str().unwrap()], arguments].concat(), "")
}

#[test]
fn command_lists_decides_and_refuses() {
    let _limit = Limit::of(300, "end of a command");
    let mut trio = Trio::new();
    trio.two_in_doubt();
    let third = format!("3={}", trio.folder_of(THIRD).display());
    let listed = out(&command(&trio, &[]));
    for line in [
        "server 1 of \"test\" is in doubt about 2 transactions",
        "2.1001: of server 2, on the servers 1, 3",
        "  puts \"a1\"",
        "  nothing may be decided: 2.1001: the outcome may be known to server 2, 3",
    ] {
        assert!(listed.lines().any(|found| found == line), "{line}\n{listed}");
    }
    let open = out(&command(&trio, &["--other", &third, "--lost", "2"]));
    for line in ["  server 3 has voted yes and does not know the outcome", "  server 2 is lost"] {
        assert_eq!(open.lines().filter(|found| *found == line).count(), 2, "{line}\n{open}");
    }
    assert!(open.contains("it may be committed or aborted: no log knows the outcome"), "{open}");

    let refused = command(&trio, &["--lost", "2", "--abort", "2.1001"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("nothing was recorded: 2.1001: the outcome may be known to server 3"));
    for (wrong, said) in [
        (["--abort", "2"], "\"2\" is no transaction"),
        (["--abort", "x.1"], "\"x\" is no number of a server"),
        (["--other", "3"], "it has no =, as in 3=FOLDER"),
        (["--lost", "70000"], "\"70000\" is no number of a server"),
    ] {
        let refused = command(&trio, &wrong);
        assert_eq!(refused.status.code(), Some(2), "{wrong:?}");
        assert!(err(&refused).contains(said), "{}", err(&refused));
    }
    let both = command(&trio, &["--abort", "2.1001", "--commit", "2.1001"]);
    assert!(both.status.code() == Some(2) && err(&both).contains("2.1001 is to be both committed and aborted"));
    let none = command(&trio, &["--abort-all-of", "3"]);
    assert!(none.status.success() && out(&none).contains("nothing of server 3 is in doubt"));
    assert_eq!(verify(&trio.config(FIRST)).unwrap().in_doubt, 2);

    let known = ["--other", &third, "--lost", "2"];
    let decided = command(&trio, &[&known[..], &["--commit", "2.1001"]].concat());
    assert!(decided.status.success() && out(&decided).starts_with("2.1001 is committed\n"), "{}", err(&decided));
    let rest = command(&trio, &[&known[..], &["--abort-all-of", "2"]].concat());
    assert!(rest.status.success() && out(&rest).starts_with("2.1002 is aborted\n"), "{}", err(&rest));
    assert!(out(&decided).contains("of server 2 is given up: it is refused by server 1, 3"), "{}", out(&decided));
    for same in [["--commit", "2.1001"], ["--abort-all-of", "2"]] {
        let again = command(&trio, &[&known[..], &same].concat());
        assert!(again.status.success(), "{}", err(&again));
    }
    let again = command(&trio, &[&known[..], &["--abort", "2.1001"]].concat());
    assert!(!err(&again).contains("--lost ID"), "{}", err(&again));
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("2.1001: server 1 knows that it is committed"), "{}", err(&again));
}
