//! The stages of a member that write its log, and that follow it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::{ME, TRANX, config, of, outlet};
use crate::core::group::WriteId;
use crate::core::machine::GcEvent;
use crate::core::{
    ClientId, GcRecord, Incarnation, Item, Key, KeyRange, MessageId, Record, Recovery, RequestId, SegmentId, TranxId,
    Value, Write,
};
use crate::log::{self, LogOptions, Memory, Position, State, TranxLog};
use crate::server::event::Garbage;
use crate::server::findings::Findings;
use crate::server::member_event::{Follow, FromLog, LogWork};
use crate::server::stages::follow::FollowStage;
use crate::server::stages::member_wal::{self, MemberWalStage};
use crate::server::stats::ServerStats;
use crate::stage::{Counters, Inlet, Source, Stage};
use crate::storage::{self, Found, InMemory, ScanLimit, Storage};

/// A member's log stage, the ends of its queues, and its log.
fn member_wal() -> (MemberWalStage, Inlet<LogWork>, Source<FromLog>, Source<Follow>, Memory) {
    let medium = Memory::new();
    let options = LogOptions { is_member: true, ..LogOptions::new(ME.0, 1 << 16) };
    let log = TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap().log;
    let ((work, from_work), (group, at_group), (follow, at_follow)) = (of(8), of(8), of(8));
    let stats = Arc::new(ServerStats::new(ME, "memory".to_owned(), Counters::new(), u64::MAX));
    let outlets = member_wal::Outlets { group: group.outlet(), follow: follow.outlet(), gc: outlet() };
    let stage = MemberWalStage::new(log, BTreeMap::new(), VecDeque::new(), stats, from_work, outlets);
    (stage, work, at_group, at_follow, medium)
}

fn write(number: u64, term: u64, index: u64) -> LogWork {
    let state = (number == 1).then_some(State { term, vote: Some(7), committed: 0 });
    let record = postcard::to_stdvec(&Record::Reserve { through: index }).unwrap();
    let entries = vec![(Position { term, index }, Bytes::from(log::payload([&record[..]])))];
    LogWork::Write { write: WriteId(number), state, entries }
}

#[test]
fn writes_of_a_member_are_synced_before_the_machine_hears_of_them() {
    for seed in 0..20 {
        let (mut stage, work, at_group, _, medium) = member_wal();
        for event in [write(1, 3, 1), write(2, 3, 2)] {
            work.offer(event).map_err(drop).unwrap();
        }
        stage.run(0).unwrap();
        let mut events = Vec::new();
        at_group.take(8, &mut events);
        assert!(matches!(events[..], [FromLog::Synced(WriteId(2))]), "one sync for both");
        drop(stage);
        medium.crash(seed);
        let options = LogOptions { is_member: true, ..LogOptions::new(ME.0, 1 << 16) };
        let storage = InMemory::new();
        let mut findings = Findings::new(config(), &storage);
        let opened = TranxLog::read(Arc::new(medium), &options, &mut findings).unwrap();
        assert_eq!((opened.log.last(), opened.log.state().vote), (Position { term: 3, index: 2 }, Some(7)));
    }
}

/// Recovery takes all segments that it reads for sealed (decision 0075, G18).
#[test]
fn life_of_a_member_begins_with_a_new_segment() {
    let (mut stage, work, _, at_follow, _) = member_wal();
    let act = LogWork::Act { through: 2, applies: true };
    for event in [write(1, 3, 1), LogWork::Begin, write(2, 3, 2), act] {
        work.offer(event).map_err(drop).unwrap();
    }
    stage.run(0).unwrap();
    let mut events = Vec::new();
    at_follow.take(8, &mut events);
    let [Follow::Begin, Follow::Apply { segment: first, .. }, Follow::Apply { segment: second, .. }] = &events[..]
    else {
        panic!("{} events", events.len())
    };
    assert!(first < second);
}

/// Items that are applied before any marks are sent to the garbage collection.
struct BeforeMarks {
    items: InMemory,
    garbage: Mutex<Source<Garbage>>,
}

impl Storage for BeforeMarks {
    fn get(&self, key: &Key) -> storage::Result<Option<Item>> {
        self.items.get(key)
    }

    fn cached(&self, key: &Key) -> Option<Option<Item>> {
        self.items.cached(key)
    }

    fn scan(&self, range: &KeyRange, limit: ScanLimit) -> storage::Result<Found> {
        self.items.scan(range, limit)
    }

    fn apply(&self, commits: &[(TranxId, Vec<Write>)]) -> storage::Result<()> {
        assert!(self.garbage.lock().unwrap().is_empty(), "marks were told before what they call complete was applied");
        self.items.apply(commits)
    }

    fn persist(&self) -> storage::Result<()> {
        self.items.persist()
    }
}

/// The garbage collection persists what is applied, and then removes what the marks call complete.
#[test]
fn follower_tells_marks_once_what_they_call_complete_is_applied() {
    let ((follow, from_follow), (garbage, at_garbage)) = (of(8), of(8));
    let storage = Arc::new(BeforeMarks { items: InMemory::new(), garbage: Mutex::new(at_garbage) });
    let recovery = Recovery::new(config(), None);
    let mut stage = FollowStage::new(recovery, storage.clone(), from_follow, channel().0, garbage.outlet());
    let key = Key::new("key").unwrap();
    let writes = vec![Write { key: key.clone(), value: Some(Value::new("value").unwrap()) }];
    let client = ClientId { incarnation: Incarnation(1), number: 1 };
    let request = RequestId { client, message: MessageId(1) };
    let records = [
        Record::Reserve { through: 9 },
        Record::OnePhase { tranx: TRANX, writes, request },
        Record::Marks { low_water: vec![(ME, TRANX.number)] },
        Record::Reserve { through: 99 },
    ];
    let records: Vec<_> = records.iter().map(|record| postcard::to_stdvec(record).unwrap()).collect();
    let payload = Bytes::from(log::payload(records.iter().map(Vec::as_slice)));
    follow.offer(Follow::Apply { segment: SegmentId(1), payload }).map_err(drop).unwrap();
    stage.run(0).unwrap();
    assert!(storage.get(&key).unwrap().is_some());
    let mut told = Vec::new();
    storage.garbage.lock().unwrap().take(8, &mut told);
    let [Garbage::Event(GcEvent::Collect(marks))] = &told[..] else { panic!("{} events", told.len()) };
    assert_eq!((marks.reserved_through, &marks.low_water[..]), (9, &[(ME, TRANX.number)][..]));
}

/// Its GC log says more than what it has applied of the log again.
#[test]
fn follower_collects_by_no_marks_that_its_gc_log_is_ahead_of() {
    let ((follow, from_follow), (garbage, at_garbage)) = (of(8), of(8));
    let gc = GcRecord { low_water: vec![(ME, 5)], ..GcRecord::default() };
    let recovery = Recovery::new(config(), Some(gc));
    let storage = Arc::new(InMemory::new());
    let mut stage = FollowStage::new(recovery, storage, from_follow, channel().0, garbage.outlet());
    let mut told_at = |mark| {
        let record = postcard::to_stdvec(&Record::Marks { low_water: vec![(ME, mark)] }).unwrap();
        let payload = Bytes::from(log::payload([&record[..]]));
        follow.offer(Follow::Apply { segment: SegmentId(1), payload }).map_err(drop).unwrap();
        stage.run(0).unwrap();
        at_garbage.take(8, &mut Vec::new())
    };
    assert_eq!([4, 5, 6].map(&mut told_at), [0, 1, 1]);
}
