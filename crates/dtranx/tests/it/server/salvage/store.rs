//! A store that a real server has written, and all states that it ever had.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dtranx::backup;
use dtranx::client::{Client, ClientOptions, Transaction};
use dtranx::cluster::Cluster;
use dtranx::server::{Moment, Salvaged, Server, ServerConfig, salvage};
use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use tempfile::TempDir;

use crate::server::{cluster, config};

const PATIENCE: Duration = Duration::from_secs(120);

/// Keys and values at one moment.
pub(crate) type State = BTreeMap<String, Vec<u8>>;

pub(crate) struct Store {
    pub(crate) folder: TempDir,
    pub(crate) cluster: Cluster,
    pub(crate) config: ServerConfig,
    /// The state after each transaction, in order; the first is empty.
    pub(crate) history: Vec<State>,
}

/// Result of a salvage, and the keys in its file.
pub(crate) struct Got {
    pub(crate) found: Salvaged,
    pub(crate) sure: State,
    pub(crate) uncertain: State,
}

impl Store {
    fn new() -> Self {
        let (folder, cluster) = (tempfile::tempdir().unwrap(), cluster(1));
        let config = config(&cluster, 1, folder.path());
        Self { folder, cluster, config, history: vec![State::new()] }
    }

    /// A store of which the log has everything, written in two lives of the server.
    pub(crate) fn young() -> Self {
        let mut store = Self::new();
        store.config.gc_interval_ms = 3_600_000;
        store.serve(|store, client| store.rounds(client, 1..40));
        store.serve(|store, client| store.rounds(client, 40..60));
        store
    }

    /// A store whose first segments are removed: old keys are in the items only. A part of the
    /// items is in a table, the rest in a journal.
    pub(crate) fn old() -> Self {
        let mut store = Self::new();
        store.serve(|store, client| {
            for at in 0..20_u8 {
                store.transact(client, &[(format!("old{at:02}"), Some(vec![at; 5_000]))]);
            }
            for round in 0..24_u8 {
                let fill = |name: &str| (name.to_owned(), Some(vec![round; 1 << 20]));
                store.transact(client, &[fill("fill0"), fill("fill1")]);
            }
            let begun = Instant::now();
            while store.segments()[0].ends_with("segment-00000000000000000001.wal") {
                assert!(begun.elapsed() < PATIENCE, "no segment is removed");
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let items = store.items();
        items.rotate();
        drop(items);
        store.serve(|store, client| store.rounds(client, 1..60));
        store
    }

    pub(crate) fn serve(&mut self, work: impl FnOnce(&mut Self, &Client)) {
        let _server = Server::start(&self.config).unwrap();
        let options = ClientOptions { attempts: 10_000, request_ms: 60_000, ..ClientOptions::default() };
        let client = Client::connect(&[self.cluster.servers[0].address], options).unwrap();
        work(self, &client);
    }

    /// Transactions that write two keys at once and delete a third now and then.
    fn rounds(&mut self, client: &Client, rounds: std::ops::Range<u32>) {
        for round in rounds {
            let value = || Some(format!("{round}").into_bytes());
            let third = value().filter(|_| round % 5 != 0);
            let key = |name: &str| format!("{name}{}", round % 7);
            self.transact(client, &[(key("a"), value()), (key("b"), value()), (key("c"), third)]);
        }
    }

    pub(crate) fn transact(&mut self, client: &Client, writes: &[(String, Option<Vec<u8>>)]) {
        let write = |tranx: &mut Transaction, (key, value): &(String, Option<Vec<u8>>)| match value {
            Some(value) => tranx.put(key.clone(), value.clone()),
            None => tranx.delete(key.clone()),
        };
        client.transact(|tranx| writes.iter().try_for_each(|one| write(tranx, one))).unwrap();
        let mut state = self.last().clone();
        for (key, value) in writes {
            match value {
                Some(value) => drop(state.insert(key.clone(), value.clone())),
                None => drop(state.remove(key)),
            }
        }
        self.history.push(state);
    }

    pub(crate) fn last(&self) -> &State {
        self.history.last().unwrap()
    }

    /// The files of the log's segments, in order.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let names = fs::read_dir(&self.config.log_folder).unwrap().map(|name| name.unwrap().path());
        let mut segments: Vec<_> = names.filter(|path| path.extension().is_some_and(|end| end == "wal")).collect();
        segments.sort();
        segments
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.config.folder.join(name)
    }

    /// The items in their engine.
    pub(crate) fn items(&self) -> Items {
        let database = Database::builder(self.path("items")).open().unwrap();
        let keyspace = database.keyspace("items", KeyspaceCreateOptions::default).unwrap();
        Items { database, keyspace }
    }

    pub(crate) fn salvage(&self) -> Got {
        let mut file = Vec::new();
        let found = salvage(&self.config, &self.folder.path().join("scratch"), &mut file).unwrap();
        assert!(!self.folder.path().join("scratch").exists(), "the scratch folder is left");
        let (mut sure, mut uncertain) = (State::new(), State::new());
        backup::items(&file[..], |key, value, is_uncertain| {
            let key = String::from_utf8(key.as_bytes().to_vec()).unwrap();
            let before = if is_uncertain { &mut uncertain } else { &mut sure }.insert(key, value.as_bytes().to_vec());
            assert!(before.is_none(), "a key stands in the file twice");
        })
        .unwrap();
        assert_eq!((found.sure.items, found.uncertain.items), (sure.len() as u64, uncertain.len() as u64));
        Got { found, sure, uncertain }
    }

    /// Salvages, and checks what was got against everything that was ever written.
    pub(crate) fn check(&self, what: &str) -> Got {
        let got = self.salvage();
        let damages: Vec<String> = got.found.damages.list().iter().map(ToString::to_string).collect();
        let is_at = |state: &&State| got.sure.iter().all(|(key, value)| state.get(key) == Some(value));
        match &got.found.moment {
            Moment::Newest => assert!(is_at(&self.last()), "{what}: a sure value is not the last one: {damages:?}"),
            Moment::Before(_) => {
                assert!(self.history.iter().any(|state| is_at(&state)), "{what}: of no moment: {damages:?}");
            }
        }
        let was_written =
            |(key, value): (&String, &Vec<u8>)| self.history.iter().any(|state| state.get(key) == Some(value));
        assert!(got.uncertain.iter().all(was_written), "{what}: a value that was never written: {damages:?}");
        if damages.is_empty() {
            assert_eq!(&got.sure, self.last(), "{what}: what is lost is not named");
            assert!(got.uncertain.is_empty() && got.found.is_whole());
        }
        got
    }

    /// Changes a byte, checks what is salvaged, and changes it back.
    pub(crate) fn check_with(&self, path: &Path, at: u64, change: impl Fn(u8) -> u8) -> Got {
        let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        assert_ne!(change(byte[0]), byte[0]);
        file.write_all_at(&[change(byte[0])], at).unwrap();
        let got = self.check(&format!("{} changed at {at}", path.display()));
        file.write_all_at(&byte, at).unwrap();
        got
    }
}

pub(crate) struct Items {
    database: Database,
    pub(crate) keyspace: Keyspace,
}

impl Items {
    /// Writes what is in memory into a table.
    pub(crate) fn rotate(&self) {
        self.keyspace.rotate_memtable_and_wait().unwrap();
        self.database.persist(fjall::PersistMode::SyncAll).unwrap();
    }
}
