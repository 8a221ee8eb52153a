//! A leader's stage and a follower's. The test carries their messages, and keeps the clock.

use std::collections::BTreeMap;

use super::giving::AGAIN_MS;
use super::*;
use crate::cluster::{Cluster, PeerId, Places};
use crate::core::{GcRecord, ServerId, StoreId, TranxId, Value, Write};
use crate::log::{Beginning, Configured, Position};
use crate::server::ServerConfig;
use crate::server::data;
use crate::server::identity::Identity;
use crate::server::transfer::{Whole, install};
use crate::stage::{Counters, Inlet, Signal, queue};
use crate::storage::InMemory;

const GROUP: ServerId = ServerId(1);
const NAME: TransferName = TransferName { term: 5, before: Position { term: 4, index: 60 } };
const LEADER: u8 = 1;
const FOLLOWER: u8 = 2;

fn key(number: u64) -> Key {
    Key::new(format!("{number:06}")).unwrap()
}

/// A write of so many bytes to the key of this number.
fn write(key_number: u64, bytes: usize) -> Vec<Write> {
    vec![Write { key: key(key_number), value: Some(Value::new(vec![7; bytes]).unwrap()) }]
}

fn apply(storage: &dyn Storage, version: u64, writes: Vec<Write>) {
    storage.apply(&[(TranxId { server: GROUP, number: version }, writes)]).unwrap();
}

/// All keys, with the versions of their items.
fn versions(storage: &dyn Storage) -> BTreeMap<Key, u64> {
    let all = storage.scan(&KeyRange::all(), ScanLimit { items: usize::MAX, bytes: usize::MAX }).unwrap();
    all.items.into_iter().map(|(key, item)| (key, item.version.number)).collect()
}

fn config(folder: &std::path::Path) -> ServerConfig {
    let members = [1, 2, 3].map(|port| ([127, 0, 0, 1], port).into()).to_vec();
    let mut config = ServerConfig::new(Cluster::of_group("test", GROUP, members), GROUP, folder);
    config.member = Some(FOLLOWER);
    config.segment_bytes = 16 << 20;
    config
}

/// A stage with the other ends of its queues.
struct Side {
    stage: TransferStage,
    events: Inlet<Transfer>,
    to_group: Source<FromTransfer>,
    to_members: Source<ToMember>,
    to_gc: Source<Garbage>,
}

fn of<E>() -> (Inlet<E>, Source<E>) {
    queue("test", 64, &Arc::new(Signal::new()), &Counters::new())
}

fn taken<E>(source: &Source<E>) -> Vec<E> {
    let mut events = Vec::new();
    source.take(64, &mut events);
    events
}

impl Side {
    fn new(config: &ServerConfig, storage: Arc<dyn Storage>) -> Self {
        let (_lock, mut identity) = data::open(config, Identity::open).unwrap();
        if !identity.is_in_use() {
            data::storage(config, &identity).unwrap();
            [1, 3].into_iter().for_each(|member| identity.welcomed(PeerId::member(GROUP, member), true).unwrap());
        }
        let (store, folders) = (identity.store, identity.folders().next());
        let target = Target { config: config.clone(), store, folders };
        let ((events, source), (group, to_group)) = (of(), of());
        let ((members, to_members), (gc, to_gc)) = (of(), of());
        let outlets = Outlets { group: group.outlet(), to_members: members.outlet(), gc: gc.outlet() };
        let stats = Arc::new(ServerStats::new(GROUP, "test".to_owned(), Counters::new(), u64::MAX));
        Self { stage: TransferStage::new(target, storage, stats, source, outlets), events, to_group, to_members, to_gc }
    }

    fn tell(&mut self, event: Transfer, now_ms: u64) {
        self.events.offer(event).map_err(drop).unwrap();
        self.stage.run(now_ms).unwrap();
    }

    fn piece(&self) -> Option<Piece> {
        taken(&self.to_members).into_iter().find_map(|ToMember { to, message }| match message {
            MemberMessage::Piece(piece) if to == FOLLOWER => Some(piece),
            _ => None,
        })
    }

    fn answer(&self) -> Option<Transfer> {
        taken(&self.to_members).into_iter().find_map(|ToMember { to, message }| match message {
            MemberMessage::Taken { term, before, through } if to == LEADER => {
                Some(Transfer::Taken { member: FOLLOWER, name: TransferName { term, before }, through })
            }
            _ => None,
        })
    }
}

fn gc_payload() -> Vec<u8> {
    postcard::to_stdvec(&GcRecord { reserved_through: 70, ..GcRecord::default() }).unwrap()
}

/// A configuration that was in force where the log is pinned.
fn configured() -> Option<Configured> {
    let stores = BTreeMap::from([1, 2, 3].map(|number| (number, StoreId([number; 16]))));
    let at = Position { term: 1, index: 7 };
    Some(Configured { at, bytes: Places::first(&stores, &[]).encode() })
}

/// A leader that has pinned its log, and sends the first piece.
fn leader(folder: &std::path::Path, storage: Arc<dyn Storage>) -> Side {
    let mut leader = Side::new(&config(folder), storage);
    leader.tell(Transfer::Lacks { member: FOLLOWER, term: NAME.term }, 0);
    let pins = taken(&leader.to_gc);
    let [Garbage::Pin { pin }] = &pins[..] else { panic!("{} events", pins.len()) };
    let from = Beginning { before: NAME.before, configured: configured(), gc_payload: gc_payload() };
    leader.tell(Transfer::Pinned { pin: *pin, from }, 0);
    leader
}

#[test]
fn follower_gets_all_items_although_pieces_are_lost_and_it_is_started_again() {
    let (leaders, followers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (items, nothing) = (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
    (0..40).for_each(|number| apply(&*items, number + 1, write(number, 300 << 10)));
    let mut leader = leader(leaders.path(), items.clone());
    let mut follower = Side::new(&config(followers.path()), nothing.clone());
    let (mut now_ms, mut pieces, mut first_pieces, mut whole) = (0, 0, 0, None);
    while whole.is_none() {
        pieces += 1;
        assert!(pieces < 100, "there is no end");
        let piece = leader.piece().unwrap();
        first_pieces += usize::from(piece.after.is_none());
        let bytes: usize = piece.items.iter().map(|(_, item)| item.value.as_bytes().len()).sum();
        assert!(bytes <= PIECE_LIMIT_BYTES && (!piece.items.is_empty() || piece.last.is_some()));
        if pieces == 3 {
            // It is lost, and sent again.
            now_ms += AGAIN_MS;
            leader.stage.run(now_ms).unwrap();
            continue;
        }
        if pieces == 6 {
            // Items that are read later have what is written meanwhile.
            apply(&*items, 100, write(39, 5));
            follower = Side::new(&config(followers.path()), nothing.clone());
        }
        follower.tell(Transfer::Piece { from: LEADER, piece }, now_ms);
        whole = taken(&follower.to_group).into_iter().find_map(|event| match event {
            FromTransfer::Whole { name, gc_payload, configured } => Some((name, gc_payload, configured)),
            _ => None,
        });
        if let Some(answer) = follower.answer() {
            leader.tell(answer, now_ms);
        }
    }
    assert_eq!(first_pieces, 2, "a follower that was started again has nothing");
    let (name, gc_payload, given) = whole.unwrap();
    assert_eq!((name, &given), (NAME, &configured()));
    drop(follower);
    let whole = Whole { before: name.before, configured: given, gc_payload, state: Default::default() };
    install(&config(followers.path()), whole).unwrap();
    let (_lock, identity) = data::open(&config(followers.path()), Identity::existing).unwrap();
    let found = data::storage(&config(followers.path()), &identity).unwrap();
    assert_eq!(versions(&*found), versions(&*items));
    leader.tell(Transfer::Reached { member: FOLLOWER, index: 60, has_all: true }, now_ms);
    assert!(matches!(taken(&leader.to_gc)[..], [Garbage::Release]), "the log need not be pinned any more");
}

#[test]
fn pieces_of_two_names_are_not_put_together() {
    let (leaders, followers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (items, nothing) = (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
    (0..10).for_each(|number| apply(&*items, number + 1, write(number, 300 << 10)));
    let first = leader(leaders.path(), items.clone()).piece().unwrap();
    let mut follower = Side::new(&config(followers.path()), nothing);
    follower.tell(Transfer::Piece { from: LEADER, piece: first.clone() }, 0);
    let later = Piece {
        before: Position { term: 4, index: 61 },
        after: first.items.last().map(|(key, _)| key.clone()),
        ..first
    };
    follower.answer();
    follower.tell(Transfer::Piece { from: LEADER, piece: later }, 0);
    let answer = follower.answer();
    assert!(matches!(answer, Some(Transfer::Taken { through: None, .. })), "it wants the first piece of that name");
}

#[test]
fn leader_without_items_sends_one_piece() {
    let folder = tempfile::tempdir().unwrap();
    let piece = leader(folder.path(), Arc::new(InMemory::new())).piece().unwrap();
    assert_eq!(
        (piece.items.len(), piece.last),
        (0, Some(LastPiece { gc_payload: gc_payload().into(), configured: configured() }))
    );
}
