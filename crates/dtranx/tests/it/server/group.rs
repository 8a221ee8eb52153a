//! Tests of groups in this process: who serves, whose store counts, and what
//! tools do with a member's folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::Duration;

use dtranx::client::{Client, ClientOptions, Error, Snapshot};
use dtranx::cluster::{Cluster, Server as Described};
use dtranx::core::{KeyRange, ServerId, StoreId};
use dtranx::server::{Embedded, Resolver, Server, ServerConfig, verify};
use tempfile::TempDir;

use crate::limit::Limit;
use crate::processes::appends::append_and_judge;
use crate::server::{cluster, config, free_address};

const GROUP: ServerId = ServerId(1);

struct Members {
    cluster: Cluster,
    group: ServerId,
    folder: TempDir,
    servers: Vec<Option<Server>>,
    gc_interval_ms: u64,
}

impl Members {
    fn new(members: usize) -> Self {
        let cluster = Cluster::of_group("test", GROUP, (0..members).map(|_| free_address()).collect());
        Self::of(cluster, GROUP, members)
    }

    fn of(cluster: Cluster, group: ServerId, members: usize) -> Self {
        Self {
            cluster,
            group,
            folder: tempfile::tempdir().unwrap(),
            servers: (0..members).map(|_| None).collect(),
            gc_interval_ms: 1_000,
        }
    }

    fn start(number: usize) -> Self {
        let mut members = Self::new(number);
        (0..number).for_each(|at| members.run(at));
        members
    }

    fn config(&self, at: usize) -> ServerConfig {
        let folder = self.folder.path().join(at.to_string());
        let mut config = ServerConfig::new(self.cluster.clone(), self.group, &folder);
        config.member = Some(at as u8 + 1);
        config.segment_bytes = 16 << 20;
        config.gc_interval_ms = self.gc_interval_ms;
        config
    }

    fn run(&mut self, at: usize) {
        self.servers[at] = Some(Server::start(&self.config(at)).unwrap());
    }

    fn end(&mut self, at: usize) {
        self.servers[at] = None;
    }

    fn client(&self, request_ms: u64) -> Result<Client, Error> {
        let options = ClientOptions { attempts: 10_000, request_ms, ..ClientOptions::default() };
        Client::connect(&self.cluster.addresses(self.group), options)
    }
}

/// Carries out a read, or a write that may be made twice. What was under way when its leader ended
/// is unknown, and is done again.
fn until_known<T>(mut ask: impl FnMut() -> Result<T, Error>) -> T {
    loop {
        match ask() {
            Ok(done) => return done,
            Err(Error::Unknown(_) | Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn get(client: &Client, key: &str) -> Option<String> {
    let found = until_known(|| client.get(key.to_owned()));
    found.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

fn put(client: &Client, key: &str, value: &str) {
    until_known(|| client.put(key.to_owned(), value.to_owned()));
}

fn error(result: Result<Server, dtranx::server::ServerError>) -> String {
    result.err().unwrap().to_string()
}

#[test]
fn group_serves_and_goes_on_without_any_one_of_its_members() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::start(3);
    let client = members.client(60_000).unwrap();
    put(&client, "all", "there");
    for at in 0..3 {
        members.end(at);
        put(&client, &format!("without {at}"), "value");
        assert_eq!(get(&client, "all").as_deref(), Some("there"));
        members.run(at);
    }
    // Each kind of request: snapshots speak of now.
    let counted = |snapshot: &Snapshot| Ok(snapshot.scan(&KeyRange::all(), usize::MAX)?.items.len());
    let before = || {
        client.read(|snapshot| {
            let before = counted(snapshot)?;
            until_known(|| client.delete("all"));
            assert_eq!(counted(snapshot)?, before);
            Ok(before)
        })
    };
    assert!((3..=4).contains(&until_known(before)));
    assert_eq!(until_known(|| client.read(counted)), 3);
    assert_eq!(until_known(|| client.status(GROUP)).anomalies, 0);
}

#[test]
fn group_of_five_goes_on_without_two() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::start(5);
    let client = members.client(60_000).unwrap();
    for at in 0..4 {
        put(&client, "key", &format!("value {at}"));
        members.end(at);
        members.end(at + 1);
        assert_eq!(get(&client, "key"), Some(format!("value {at}")));
        members.run(at);
        members.run(at + 1);
    }
}

#[test]
fn one_address_of_a_group_is_enough_for_a_client() {
    let _limit = Limit::of(300, "leader");
    let members = Members::start(3);
    put(&members.client(60_000).unwrap(), "key", "value");
    for address in members.cluster.addresses(GROUP) {
        let client = Client::connect(&[address], ClientOptions::default()).unwrap();
        assert_eq!(*client.cluster(), members.cluster);
        assert_eq!(get(&client, "key").as_deref(), Some("value"));
    }
}

#[test]
fn new_group_serves_once_all_members_have_met() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::new(3);
    members.run(0);
    members.run(1);
    let hasty = ClientOptions { request_ms: 500, ..ClientOptions::default() };
    let refused = Client::connect(&members.cluster.addresses(GROUP)[..1], hasty).err().unwrap().to_string();
    assert!(refused.contains("it serves once it has met server 1.3"), "{refused}");
    members.run(2);
    put(&members.client(60_000).unwrap(), "key", "value");
}

#[test]
fn member_with_an_empty_folder_counts_for_nothing() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::start(3);
    let client = members.client(60_000).unwrap();
    put(&client, "key", "value");
    members.end(2);
    fs::remove_dir_all(members.folder.path().join("2")).unwrap();
    members.run(2);
    put(&client, "key", "of two");
    members.end(1);
    let alone = members.client(1_000);
    let refused = alone.and_then(|client| client.put("other", "value")).unwrap_err();
    assert!(!matches!(refused, Error::Refused(_)), "{refused}");
    members.run(1);
    assert_eq!(get(&client, "key").as_deref(), Some("of two"));
}

#[test]
fn folder_of_another_member_or_group_is_refused() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::start(3);
    put(&members.client(60_000).unwrap(), "key", "value");
    (0..3).for_each(|at| members.end(at));
    let mut config = members.config(0);
    config.member = Some(2);
    let refused = error(Server::start(&config));
    let expected = "member: the data are those of member 1, the configuration says member 2";
    assert!(refused.contains(expected), "{refused}");
    let mut config = members.config(0);
    let five = members.cluster.addresses(GROUP).into_iter().chain([free_address(), free_address()]).collect();
    config.cluster = Cluster::of_group("test", GROUP, five);
    let refused = error(Server::start(&config));
    assert!(refused.contains("members: the groups have so many members: {\"1\": 3}"), "{refused}");
    let (mut config, address) = (members.config(0), members.cluster.addresses(GROUP)[0]);
    config.cluster = Cluster::hashed("test", vec![Described { id: GROUP, address }]);
    config.member = None;
    let refused = error(Server::start(&config));
    assert!(refused.contains("member: the data are those of member 1, the configuration says no member"), "{refused}");
}

#[test]
fn tools_read_a_members_folder_or_say_why_not() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::start(3);
    let client = members.client(60_000).unwrap();
    (0..10).for_each(|number| put(&client, &format!("key{number}"), "value"));
    let config = members.config(0);
    let embedded = Embedded::start(&config).err().unwrap().to_string();
    assert!(embedded.contains("member: a store within a program is no member of a group"), "{embedded}");
    (0..3).for_each(|at| members.end(at));
    let records = |at| verify(&members.config(at)).map(|found| found.records + found.uncommitted).unwrap();
    // Two of the three have all that was acknowledged.
    let counted: Vec<u64> = (0..3).map(records).collect();
    assert!(counted.iter().filter(|records| **records > 10).count() >= 2, "{counted:?}");
    let refused = Resolver::open(&config, &[], &BTreeSet::new()).err().unwrap().to_string();
    assert!(refused.contains("member: what an operator decides"), "{refused}");
}

/// Number of the oldest segment in a member's log.
fn oldest_segment(config: &ServerConfig) -> u64 {
    let names = fs::read_dir(&config.log_folder).unwrap().map(|entry| entry.unwrap().file_name());
    let number = |name: std::ffi::OsString| name.to_str()?.strip_prefix("segment-")?.strip_suffix(".wal")?.parse().ok();
    names.filter_map(number).min().unwrap()
}

#[test]
fn log_of_each_member_is_collected_and_what_is_gone_is_in_the_items() {
    let _limit = Limit::of(300, "room in the logs");
    let mut members = Members::new(3);
    members.gc_interval_ms = 5;
    (0..3).for_each(|at| members.run(at));
    let client = members.client(60_000).unwrap();
    put(&client, "first", "value");
    let value = "value".repeat(200_000);
    // Each life begins with a segment of its own.
    let mut written = 0;
    while written < 40 || (0..3).any(|at| oldest_segment(&members.config(at)) < 4) {
        put(&client, &format!("key{}", written % 10), &value);
        written += 1;
    }
    (0..3).for_each(|at| members.end(at));
    for at in 0..3 {
        verify(&members.config(at)).unwrap();
    }
    (0..3).for_each(|at| members.run(at));
    let client = members.client(60_000).unwrap();
    let found = until_known(|| client.read(|snapshot| Ok(snapshot.scan(&KeyRange::all(), usize::MAX)?.items)));
    assert_eq!(found.len(), 11);
    assert!(found.iter().all(|(key, found)| key[..] == *b"first" || found[..] == *value.as_bytes()));
}

fn store_of(config: &ServerConfig) -> StoreId {
    let text = fs::read_to_string(config.folder.join("identity.toml")).unwrap();
    let store = text.lines().find_map(|line| line.strip_prefix("store = ")).unwrap();
    StoreId::parse(store.trim_matches('"')).unwrap()
}

fn is_in_use(config: &ServerConfig) -> bool {
    fs::read_to_string(config.folder.join("identity.toml")).unwrap().contains("state = \"in-use\"")
}

#[test]
fn place_of_a_lost_store_is_not_taken_where_it_cannot_be() {
    let _limit = Limit::of(300, "leader");
    let mut members = Members::start(3);
    put(&members.client(60_000).unwrap(), "key", "value");
    let (lost, other) = (store_of(&members.config(2)), store_of(&members.config(1)));
    let replace = |config: ServerConfig, lost| ServerConfig { replace: vec![lost], ..config };
    members.end(2);
    let refused = error(Server::start(&replace(members.config(2), other)));
    assert!(refused.contains("that store is in use by a member of this cluster"), "{refused}");
    let refused = error(Server::start(&replace(members.config(2), lost)));
    assert!(refused.contains(&format!("--replace {lost}: that store is in use")), "{refused}");
    let alone = config(&cluster(1), 1, &members.folder.path().join("alone"));
    let refused = error(Server::start(&replace(alone, lost)));
    assert!(refused.contains(&format!("--replace {lost}: server 1 is no group")), "{refused}");
    // Under the name of a store that the others do not have, an empty one counts for nothing.
    fs::remove_dir_all(&members.config(2).folder).unwrap();
    members.servers[2] = Some(Server::start(&replace(members.config(2), StoreId([9; 16]))).unwrap());
    put(&members.client(60_000).unwrap(), "key", "of two");
    members.end(1);
    // An election would be over by then.
    let hasty = members.client(6_000);
    hasty.and_then(|client| client.put("other", "value")).unwrap_err();
    members.run(1);
    assert!(!is_in_use(&members.config(2)));
    // The right name may be said later.
    members.end(2);
    members.servers[2] = Some(Server::start(&replace(members.config(2), lost)).unwrap());
    while !is_in_use(&members.config(2)) {
        thread::sleep(Duration::from_millis(5));
    }
    members.end(0);
    assert_eq!(get(&members.client(60_000).unwrap(), "key").as_deref(), Some("of two"));
}

#[test]
fn lost_store_that_comes_back_is_refused_by_all() {
    let _limit = Limit::of(300, "leader");
    let (mut first, mut second, alone) = mixed();
    put(&first.client(60_000).unwrap(), "key", "value");
    let (config, aside) = (first.config(2), first.folder.path().join("aside"));
    let lost = store_of(&config);
    first.end(2);
    fs::rename(&config.folder, &aside).unwrap();
    first.servers[2] = Some(Server::start(&ServerConfig { replace: vec![lost], ..config.clone() }).unwrap());
    while !is_in_use(&config) {
        thread::sleep(Duration::from_millis(5));
    }
    // All others know the new store, also those outside of the group.
    let new = store_of(&config).to_string();
    let knows = |config: &ServerConfig| {
        fs::read_to_string(config.folder.join("identity.toml")).unwrap().contains(&format!("\"1.3\" = \"{new}\""))
    };
    let others = [first.config(0), first.config(1), second.config(0), second.config(1), second.config(2)];
    while !others.iter().all(knows) {
        thread::sleep(Duration::from_millis(5));
    }
    first.end(2);
    fs::rename(&config.folder, first.folder.path().join("new")).unwrap();
    fs::rename(&aside, &config.folder).unwrap();
    first.run(2);
    // It is a majority with none of the others.
    first.end(1);
    // Some of these keys are the group's. An election would be over by then.
    let hasty = first.client(6_000).unwrap();
    assert!((0..16).any(|number| hasty.put(format!("key{number}"), "of one").is_err()));
    first.run(1);
    put(&first.client(60_000).unwrap(), "key", "of two");
    (0..3).for_each(|at| second.end(at));
    drop(alone);
}

/// A cluster of two groups and a server that is none, whose keys are spread over all three.
fn mixed() -> (Members, Members, Server) {
    let groups: BTreeMap<ServerId, Vec<_>> =
        [1, 2].map(|id| (ServerId(id), (0..3).map(|_| free_address()).collect())).into();
    let described = |(id, members): (&ServerId, &Vec<_>)| Described { id: *id, address: members[0] };
    let alone = Described { id: ServerId(3), address: free_address() };
    let servers = groups.iter().map(described).chain([alone]).collect();
    let cluster = Cluster { groups, ..Cluster::hashed("test", servers) };
    let [mut first, mut second] = [1, 2].map(|id| Members::of(cluster.clone(), ServerId(id), 3));
    let alone = Server::start(&config(&cluster, 3, first.folder.path())).unwrap();
    (0..3).for_each(|at| first.run(at));
    (0..3).for_each(|at| second.run(at));
    (first, second, alone)
}

#[test]
fn transactions_over_groups_and_a_server_are_strictly_serializable_while_members_end() {
    let _limit = Limit::of(300, "answer to a transaction");
    let (mut first, mut second, _alone) = mixed();
    let reader = first.client(60_000).unwrap();
    // Snapshots are made by all servers together.
    assert!(reader.snapshot().unwrap().scan(&KeyRange::all(), 10).unwrap().items.is_empty());
    let clients = (0..3).map(|_| first.client(1_000).unwrap()).collect();
    append_and_judge(clients, &reader, || {
        for at in 0..3 {
            for group in [&mut first, &mut second] {
                group.end(at);
                thread::sleep(Duration::from_millis(300));
                group.run(at);
                thread::sleep(Duration::from_millis(300));
            }
        }
    });
    for server in [1, 2, 3] {
        assert_eq!(reader.status(ServerId(server)).unwrap().anomalies, 0);
    }
    let snapshot = reader.snapshot().unwrap();
    let counted = snapshot.scan(&KeyRange::all(), usize::MAX).unwrap().items.len();
    assert_eq!(reader.scan(&KeyRange::all(), usize::MAX).unwrap().items.len(), counted);
}
