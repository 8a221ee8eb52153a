//! Tests of transfers into real folders. Each crash drops everything.

use std::path::Path;

use bytes::Bytes;

use super::install::begin_log;
use super::*;
use crate::cluster::{Cluster, PeerId};
use crate::core::{GcRecord, Item, Key, KeyRange, ServerId, TranxId, Value, Write};
use crate::log::{TranxLog, payload};
use crate::server::data;
use crate::server::data_folders::DataFolders;
use crate::server::identity::Identity;
use crate::server::{ServerConfig, ServerError};
use crate::storage::ScanLimit;
use crate::wire::{LastPiece, Piece};

const GROUP: ServerId = ServerId(1);
const NAME: TransferName = TransferName { term: 5, before: at(4, 60) };
const OWN: State = State { term: 5, vote: Some(9), committed: 2 };

const fn at(term: u64, index: u64) -> Position {
    Position { term, index }
}

fn key(text: &str) -> Key {
    Key::new(text.to_owned()).unwrap()
}

fn item(number: u64) -> Item {
    Item { value: Value::new(number.to_string()).unwrap(), version: TranxId { server: GROUP, number } }
}

/// End of a transfer with this payload of a GC log.
fn last(gc_payload: &[u8], configured: Option<Configured>) -> Option<LastPiece> {
    Some(LastPiece { gc_payload: Bytes::copy_from_slice(gc_payload), configured })
}

fn gc_payload() -> Vec<u8> {
    let record = GcRecord { reserved_through: 70, low_water: vec![(GROUP, 50)], ..GcRecord::default() };
    postcard::to_stdvec(&record).unwrap()
}

/// A piece with an item for each of these keys, all of one version.
fn piece(after: Option<&str>, keys: &[&str], version: u64, is_last: bool) -> Piece {
    let TransferName { term, before } = NAME;
    let items = keys.iter().map(|text| (key(text), item(version))).collect();
    let last = if is_last { last(&gc_payload(), None) } else { None };
    Piece { term, before, after: after.map(key), items, last }
}

/// The store of a member that has the keys `a` and `b`, and two entries.
pub(in crate::server) struct Store {
    _files: tempfile::TempDir,
    pub(in crate::server) config: ServerConfig,
}

impl Store {
    fn new() -> Self {
        let files = tempfile::tempdir().unwrap();
        let members = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
        let mut config = ServerConfig::new(Cluster::of_group("test", GROUP, members), GROUP, files.path());
        config.member = Some(1);
        config.segment_bytes = 16 << 20;
        let (medium, mut identity) = data::open(&config, Identity::open).unwrap();
        let items = data::storage(&config, &identity).unwrap();
        let written = ["a", "b"].map(|text| Write { key: key(text), value: Some(item(2).value) });
        items.apply(&[(item(2).version, written.to_vec())]).unwrap();
        items.persist().unwrap();
        let options = data::log_options(&config, &identity);
        let mut log = TranxLog::open(medium, &options, |_, _| Ok(())).unwrap().log;
        for index in 1..=2 {
            log.append_entry(at(3, index), &payload([&b"old"[..]])).unwrap();
        }
        log.append_state(OWN).unwrap();
        log.persist().unwrap();
        [2, 3].into_iter().for_each(|member| identity.welcomed(PeerId::member(GROUP, member), true).unwrap());
        Self { _files: files, config }
    }

    /// The same store once a transfer of the keys `a`, `c` and `d` counts, before the next start.
    pub(in crate::server) fn given() -> Self {
        let store = Self::new();
        let mut taking = store.taking(NAME);
        taking.take(&piece(None, &["a", "c"], 50, false)).unwrap();
        taking.take(&piece(Some("c"), &["d"], 50, true)).unwrap();
        drop(taking);
        install(&store.config, whole()).unwrap();
        store
    }

    fn taking(&self, name: TransferName) -> Taking {
        let (_lock, identity) = data::open(&self.config, Identity::existing).unwrap();
        let (config, store, folders) = (self.config.clone(), identity.store, identity.folders().next());
        Taking::begin(&Target { config, store, folders }, name).unwrap()
    }

    /// Starts the store after a crash. Returns the last entry of its log, its state and its items.
    fn start(&self) -> (Position, State, Vec<(String, u64)>) {
        let (medium, identity) = data::open(&self.config, Identity::open).unwrap();
        assert!(identity.is_in_use());
        identity.folders().remove_others(&self.config).unwrap();
        let items = data::storage(&self.config, &identity).unwrap();
        let options = data::log_options(&self.config, &identity);
        let log = TranxLog::open(medium, &options, |_, _| Ok(())).unwrap().log;
        let found = items.scan(&KeyRange::all(), ScanLimit { items: 100, bytes: usize::MAX }).unwrap().items;
        let text = |key: &Key| String::from_utf8(key.as_bytes().to_vec()).unwrap();
        (log.last(), log.state(), found.iter().map(|(key, item)| (text(key), item.version.number)).collect())
    }

    fn assert_old(&self) {
        let items = vec![("a".to_owned(), 2), ("b".to_owned(), 2)];
        assert_eq!(self.start(), (at(3, 2), OWN, items));
    }

    fn assert_new(&self) {
        let items = vec![("a".to_owned(), 50), ("c".to_owned(), 50), ("d".to_owned(), 60)];
        // Its own term and vote, and not the leader's.
        assert_eq!(self.start(), (at(4, 60), State { committed: 60, ..OWN }, items));
    }

    /// Folders of data that there are, by the names of their last parts.
    fn folders(&self) -> Vec<String> {
        let names = |folder: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        let mut all = [names(&self.config.folder), names(&self.config.log_folder)].concat();
        all.retain(|name| name.starts_with("items") || name.starts_with("log-") || name == "gc.log");
        all.sort();
        all
    }
}

fn whole() -> Whole {
    Whole { before: NAME.before, configured: None, gc_payload: gc_payload(), state: OWN }
}

#[test]
fn crash_at_each_step_leaves_the_old_store_or_the_new_one() {
    let store = Store::new();
    let taken = |pieces: &[Piece]| {
        let mut taking = store.taking(NAME);
        pieces.iter().for_each(|piece| taking.take(piece).unwrap());
        taking.whole().map(|last| last.gc_payload.to_vec())
    };
    let pieces = [piece(None, &["a", "c"], 50, false), piece(Some("c"), &["d"], 60, true)];
    for number in 0..pieces.len() {
        assert_eq!(taken(&pieces[..number]), None);
        store.assert_old();
        assert_eq!(store.folders(), ["gc.log", "items"], "what a transfer has left is removed");
    }
    assert_eq!(taken(&pieces), Some(gc_payload()));
    store.assert_old();
    taken(&pieces);
    {
        let (old, identity) = data::open(&store.config, Identity::existing).unwrap();
        begin_log(&store.config, &*old, &identity, whole()).unwrap();
    }
    store.assert_old();
    taken(&pieces);
    install(&store.config, whole()).unwrap();
    assert_eq!(store.folders(), ["gc.log", "items", "items-2", "log-2"], "the old ones are there until a start");
    store.assert_new();
    assert_eq!(store.folders(), ["items-2", "log-2"]);
    store.assert_new();
}

#[test]
fn second_transfer_takes_the_place_of_the_first() {
    let store = Store::new();
    store.taking(NAME).take(&piece(None, &["x"], 40, true)).unwrap();
    install(&store.config, whole()).unwrap();
    store.start();
    let mut taking = store.taking(TransferName { term: 6, ..NAME });
    taking.take(&piece(None, &["a", "c"], 50, false)).unwrap();
    taking.take(&piece(Some("c"), &["d"], 60, true)).unwrap();
    drop(taking);
    install(&store.config, Whole { state: State { committed: 60, ..OWN }, ..whole() }).unwrap();
    store.assert_new();
    assert_eq!(store.folders(), ["items-3", "log-3"]);
}

#[test]
fn pieces_under_another_name_empty_the_folder() {
    let store = Store::new();
    store.taking(NAME).take(&piece(None, &["a", "b"], 40, false)).unwrap();
    let mut other = store.taking(TransferName { before: at(4, 61), ..NAME });
    assert_eq!((other.through(), other.whole()), (None, None));
    other.take(&piece(None, &["a", "c"], 50, false)).unwrap();
    other.take(&piece(Some("c"), &["d"], 60, true)).unwrap();
    drop(other);
    install(&store.config, whole()).unwrap();
    // `b` is not there.
    store.assert_new();
}

#[test]
fn piece_that_is_not_the_next_is_not_written() {
    let store = Store::new();
    let mut taking = store.taking(NAME);
    taking.take(&piece(None, &["a", "c"], 50, false)).unwrap();
    let wrong = [
        piece(None, &["a", "c"], 1, false),
        piece(Some("a"), &["b"], 1, false),
        piece(Some("d"), &["e"], 1, true),
        piece(Some("c"), &["e", "d"], 1, false),
        piece(Some("c"), &["b"], 1, true),
        piece(Some("c"), &[], 1, false),
        Piece { last: last(&[1], None), ..piece(Some("c"), &["d"], 1, false) },
        Piece { last: last(&gc_payload(), Some(Configured::default())), ..piece(Some("c"), &["d"], 1, false) },
    ];
    for wrong in wrong {
        taking.take(&wrong).unwrap();
        assert_eq!((taking.through(), taking.whole()), (Some(&key("c")), None), "{wrong:?}");
    }
    taking.take(&piece(Some("c"), &["d"], 60, true)).unwrap();
    taking.take(&piece(Some("d"), &["e"], 1, true)).unwrap();
    assert_eq!(taking.whole().map(|last| &last.gc_payload[..]), Some(&gc_payload()[..]));
    drop(taking);
    install(&store.config, whole()).unwrap();
    store.assert_new();
}

#[test]
fn member_does_not_forget_what_it_knows_to_be_committed() {
    let store = Store::new();
    store.taking(NAME).take(&piece(None, &["a"], 50, true)).unwrap();
    let refused = install(&store.config, Whole { state: State { committed: 61, ..OWN }, ..whole() });
    assert!(matches!(refused, Err(ServerError::Log(_))), "{refused:?}");
    store.assert_old();
}

#[test]
fn identity_that_names_folders_which_are_gone_is_refused() {
    let store = Store::new();
    store.taking(NAME).take(&piece(None, &["a"], 50, true)).unwrap();
    install(&store.config, whole()).unwrap();
    let (_, identity) = data::open(&store.config, Identity::existing).unwrap();
    assert_eq!(identity.folders(), DataFolders::FIRST.next());
    std::fs::remove_dir_all(identity.folders().items(&store.config)).unwrap();
    assert!(data::storage(&store.config, &identity).is_err(), "the old items do not stand in for the new ones");
}
