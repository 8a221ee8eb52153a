//! Three members with their stages, on logs in memory. The test keeps the clock, and decides who
//! reaches whom. It has a stand-in for the node, which applies what it hears to be durable.

mod items;

mod transfers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::items::Items;
use super::{GroupStage, Outlets, Sources};
use crate::cluster::Places;
use crate::core::gc::Gc;
use crate::core::machine::{GcEvent, TranxEvent};
use crate::core::{
    ClientId, GcRecord, Incarnation, Key, KeyRange, LogTicket, MessageId, NodeConfig, Partition, Record, RequestId,
    ServerId, StoreId, TranxId, Value, Write,
};
use crate::log::{LogOptions, Medium, Memory, Position, SegmentNumber, TranxLog};
use crate::server::event::{Append, Garbage, ToClient};
use crate::server::findings::Findings;
use crate::server::member_event::{Begun, Change, FromMembers, FromTransfer, Held, Restart, ToMember, Transfer};
use crate::server::stages::follow::FollowStage;
use crate::server::stages::gc::GcStage;
use crate::server::stages::member_wal::{self, MemberWalStage};
use crate::server::stages::pin::Pin;
use crate::server::stats::ServerStats;
use crate::server::transfer::Whole;
use crate::stage::{Counters, Inlet, Outlet, Signal, Source, Stage, queue};
use crate::storage::{ScanLimit, Storage};
use crate::wire::{MemberMessage, Reply, Response, Told};

const GROUP: ServerId = ServerId(1);
const SEGMENT_BYTES: u64 = 4096;
/// Time that passes in each turn, in milliseconds, and the most turns for anything.
const TURN_MS: u64 = 10;
const MOST_TURNS: u64 = 3_000;

fn of<E>(capacity: usize) -> (Inlet<E>, Source<E>) {
    queue("test", capacity, &Arc::new(Signal::new()), &Counters::new())
}

fn outlet<E>() -> Outlet<E> {
    of(100).0.outlet()
}

fn config() -> NodeConfig {
    NodeConfig::new(GROUP, Partition::Hash(vec![GROUP]))
}

fn key() -> Key {
    Key::new("key").unwrap()
}

/// A committed write of this number.
fn record(number: u64) -> Record {
    committed(number, Write { key: key(), value: Some(Value::new(number.to_string()).unwrap()) })
}

/// A committed write of this number to a key of its own.
fn numbered(number: u64) -> Record {
    let key = Key::new(format!("{number:06}")).unwrap();
    committed(number, Write { key, value: Some(Value::new("value").unwrap()) })
}

fn committed(number: u64, write: Write) -> Record {
    let client = ClientId { incarnation: Incarnation(1), number: 1 };
    let request = RequestId { client, message: MessageId(number) };
    Record::OnePhase { tranx: TranxId { server: GROUP, number }, writes: vec![write], request }
}

struct Member {
    group: GroupStage,
    wal: MemberWalStage,
    follow: FollowStage,
    gc: GcStage,
    /// To the garbage collection, as from the node.
    marks: Inlet<Garbage>,
    storage: Arc<Items>,
    members: Inlet<FromMembers>,
    to_members: Source<ToMember>,
    records: Inlet<Append>,
    answers: Inlet<Held>,
    logged: Source<TranxEvent>,
    to_clients: Source<ToClient>,
    begun: Receiver<Begun>,
    transfer: Source<Transfer>,
    of_transfer: Inlet<FromTransfer>,
    given: Receiver<Whole>,
    restart: Arc<OnceLock<Restart>>,
    /// True once its node has begun.
    serves: bool,
    last_ticket: u64,
    /// Records that its node has appended, in the order of their tickets.
    appended: Vec<Record>,
    /// Number of these that are durable.
    durable: usize,
}

impl Member {
    /// Starts a member on a log, as after a crash that loses nothing of the items.
    fn start(at: usize, medium: &Memory, storage: Arc<Items>, log_limit_bytes: u64) -> Self {
        let mut found = Findings::new(config(), &*storage);
        let options = LogOptions { is_member: true, ..LogOptions::new(GROUP.0, SEGMENT_BYTES) };
        let opened = TranxLog::read(Arc::new(medium.clone()), &options, &mut found).unwrap();
        let (outline, state) = (opened.log.outline(), opened.log.state());
        let (mut recovery, pending) = found.end(&outline);
        let segments = recovery.take_segments();
        let stats = Arc::new(ServerStats::new(GROUP, "memory".to_owned(), Counters::new(), log_limit_bytes));
        let ((members, from_members), (records, from_records)) = (of(1000), of(1000));
        let ((answers, from_answers), (log_events, from_log)) = (of(1000), of(1000));
        let ((log_work, from_work), (follow, from_follow)) = (of(1000), of(1000));
        let ((tranx, logged), (to_members, for_members)) = (of(1000), of(1000));
        let ((to_clients, for_clients), (tell, begun)) = (of(1000), channel());
        let (marks, garbage) = of(1000);
        let ((transfer, for_transfer), (of_transfer, from_transfer), (whole, given)) = (of(1000), of(1000), channel());
        let restart = Arc::new(OnceLock::new());
        let sources = Sources {
            members: from_members,
            records: from_records,
            answers: from_answers,
            log: from_log,
            transfer: from_transfer,
        };
        let outlets = Outlets {
            log: log_work.outlet(),
            tranx: tranx.outlet(),
            to_members: to_members.outlet(),
            to_servers: outlet(),
            to_clients: to_clients.outlet(),
            transfer,
        };
        let number = at as u8 + 1;
        let over = (restart.clone(), whole);
        let group = GroupStage::new(number, stats.clone(), (&outline, state), sources, outlets, over);
        let wal_outlets =
            member_wal::Outlets { group: log_events.outlet(), follow: follow.outlet(), gc: marks.outlet() };
        let stores: BTreeMap<_, _> = (1..=3).map(|member| (member, StoreId([member; 16]))).collect();
        let before = (Position::default(), Places::first(&stores, &[]));
        members.offer(FromMembers::Met { stores, before, rejoins: None }).map_err(drop).unwrap();
        Self {
            group,
            wal: MemberWalStage::new(opened.log, segments, pending, stats.clone(), from_work, wal_outlets),
            follow: FollowStage::new(recovery, storage.clone(), from_follow, tell, marks.outlet()),
            gc: GcStage {
                gc: Gc::default(),
                config: Arc::new(config()),
                storage: storage.clone(),
                history: Arc::default(),
                collector: opened.collector,
                pin: Pin::default(),
                stats,
                source: garbage,
                batch: Vec::new(),
                check_at_ms: 0,
                marks: None,
            },
            marks,
            storage,
            members,
            to_members: for_members,
            records,
            answers,
            logged,
            to_clients: for_clients,
            begun,
            transfer: for_transfer,
            of_transfer,
            given,
            restart,
            serves: false,
            last_ticket: 0,
            appended: Vec::new(),
            durable: 0,
        }
    }

    /// Runs the stages once; the disk of a member may hang.
    fn turn(&mut self, now_ms: u64, hangs: bool) {
        if self.restart.get().is_some() {
            return;
        }
        let ran = self.group.run(now_ms).map(drop);
        assert!(ran.is_ok() || self.restart.get().is_some(), "{ran:?}");
        if !hangs {
            self.wal.run(now_ms).unwrap();
        }
        self.follow.run(now_ms).unwrap();
        self.gc.run(now_ms).unwrap();
        self.serves |= self.begun.try_recv().is_ok();
        self.hear();
    }

    /// Does what a node does when it hears what is durable: applies it, or collects by it.
    fn hear(&mut self) {
        let mut events = Vec::new();
        self.logged.take(1000, &mut events);
        for event in events {
            let TranxEvent::Logged { through } = event else { continue };
            let through = through.0 as usize;
            for record in &self.appended[self.durable..through] {
                match record.clone() {
                    Record::OnePhase { tranx, writes, .. } => self.storage.apply(&[(tranx, writes)]).unwrap(),
                    Record::Marks { low_water } => {
                        let marks = GcRecord { low_water, ..GcRecord::default() };
                        self.marks.offer(Garbage::Event(GcEvent::Collect(marks))).map_err(drop).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            }
            self.durable = through;
        }
    }

    /// Appends a record of the node.
    fn append(&mut self, number: u64) {
        self.append_record(record(number));
    }

    /// Says in the log that all of these numbers are complete.
    fn append_marks(&mut self, through: u64) {
        self.append_record(Record::Marks { low_water: vec![(GROUP, through)] });
    }

    fn append_record(&mut self, record: Record) {
        self.last_ticket += 1;
        self.appended.push(record.clone());
        let ticket = LogTicket(self.last_ticket);
        self.records.offer(Append { ticket, record, durable: true }).map_err(drop).unwrap();
    }

    /// Numbers of the commits that the node knows to be durable.
    fn acknowledged(&self) -> Vec<u64> {
        self.appended[..self.durable].iter().filter_map(|record| Some(record.tranx()?.number)).collect()
    }

    /// Everything that was applied here.
    fn items(&self) -> Vec<(Key, u64)> {
        let all = self.storage.scan(&KeyRange::all(), ScanLimit { items: usize::MAX, bytes: usize::MAX });
        all.unwrap().items.into_iter().map(|(key, item)| (key, item.version.number)).collect()
    }

    /// Holds an answer of the node back, as it does with one that speaks of now.
    fn hold(&self) {
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        let response = Response { id: 1, reply: Reply::Refused(String::new()) };
        self.answers.offer(Held::ToClient(ToClient { client, response })).map_err(drop).unwrap();
    }

    fn answers(&self) -> usize {
        self.to_clients.take(1000, &mut Vec::new())
    }

    /// Number of the write that its items have.
    fn applied(&self) -> Option<u64> {
        self.storage.get(&key()).unwrap().map(|item| item.version.number)
    }
}

/// Three members, and who is cut off from the others.
struct World {
    media: Vec<Memory>,
    log_limit_bytes: u64,
    members: Vec<Member>,
    cut: BTreeSet<usize>,
    /// The member whose disk hangs.
    hung: Option<usize>,
    /// Rounds of leaders do not arrive.
    loses_rounds: bool,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        Self::with_limit(u64::MAX)
    }

    fn with_limit(log_limit_bytes: u64) -> Self {
        let media: Vec<Memory> = (0..3).map(|_| Memory::new()).collect();
        let start = |(at, medium)| Member::start(at, medium, Arc::default(), log_limit_bytes);
        let members = media.iter().enumerate().map(start).collect();
        Self { media, log_limit_bytes, members, cut: BTreeSet::new(), hung: None, loses_rounds: false, now_ms: 0 }
    }

    /// Three members of which one leads and serves, with the place of that one.
    fn led() -> (Self, usize) {
        let mut world = Self::new();
        let leader = world.elect();
        (world, leader)
    }

    /// A client asks this member for a change.
    fn ask(&mut self, member: usize, change: Change) -> Reply {
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        self.members[member].group.change(client, 1, change, self.now_ms).unwrap();
        self.turn();
        let mut said = Vec::new();
        self.members[member].to_clients.take(1000, &mut said);
        said.pop().unwrap().response.reply
    }

    fn elect(&mut self) -> usize {
        self.until("leader", |world| (0..3).find(|at| world.is_leading(*at)))
    }

    fn is_leading(&self, at: usize) -> bool {
        let member = &self.members[at];
        member.serves && member.restart.get().is_none()
    }

    /// Starts a member again with what its log has, and with the items that are durable.
    fn restart(&mut self, at: usize) {
        let items = self.members[at].storage.after_crash();
        self.members[at] = Member::start(at, &self.media[at], Arc::new(items), self.log_limit_bytes);
    }

    fn turn(&mut self) {
        self.now_ms += TURN_MS;
        for (at, member) in self.members.iter_mut().enumerate() {
            member.turn(self.now_ms, self.hung == Some(at));
        }
        for from in 0..3 {
            let mut messages = Vec::new();
            self.members[from].to_members.take(1000, &mut messages);
            for ToMember { to, message } in messages {
                let to = usize::from(to) - 1;
                let is_lost = self.loses_rounds && matches!(message, MemberMessage::Round { .. });
                if !is_lost && !self.cut.contains(&from) && !self.cut.contains(&to) {
                    let heard = FromMembers::Heard { from: from as u8 + 1, message };
                    self.members[to].members.offer(heard).map_err(drop).unwrap();
                }
            }
        }
    }

    fn until<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        for _ in 0..MOST_TURNS {
            if let Some(found) = look(self) {
                return found;
            }
            self.turn();
        }
        panic!("still no {what}");
    }

    /// Turns until so many records of a leader's node are durable.
    fn until_durable(&mut self, leader: usize, records: usize) {
        self.until("record", |world| Some(()).filter(|()| world.members[leader].durable >= records));
    }

    /// Appends a record to each member that leads, or believes to.
    fn append_to_leaders(&mut self, last: &mut u64) {
        for at in 0..3 {
            if self.is_leading(at) {
                *last += 1;
                self.members[at].append_record(numbered(*last));
                self.members[at].append_marks(*last);
            }
        }
    }

    /// Writes more than a segment has room for, and calls it complete.
    fn fill_a_segment(&mut self, leader: usize, last: &mut u64) {
        for _ in 0..SEGMENT_BYTES / 100 {
            *last += 1;
            self.members[leader].append_record(numbered(*last));
            self.turn();
        }
        self.members[leader].append_marks(*last);
        self.until_durable(leader, self.members[leader].appended.len());
    }

    /// Number of the oldest segment in a member's log.
    fn oldest(&self, at: usize) -> u64 {
        let names = self.media[at].list().unwrap();
        names.iter().filter_map(|name| SegmentNumber::from_file_name(name)).map(|number| number.0).min().unwrap()
    }

    /// Starts members again that no longer lead, as their engine does.
    fn start_again(&mut self) {
        for at in 0..3 {
            if self.members[at].restart.get().is_some() {
                self.restart(at);
            }
        }
    }

    fn turns(&mut self, milliseconds: u64) {
        (0..milliseconds / TURN_MS).for_each(|_| self.turn());
    }
}

#[test]
fn what_others_tell_of_their_members_is_heard_before_the_stage_begins_too() {
    let stores: BTreeMap<_, _> = (1..=3).map(|number| (number, StoreId([number; 16]))).collect();
    let (at, places) = (Position::default(), Places::first(&stores, &[]));
    let told = Told { at, is_settled: true, places: places.clone(), stores: stores.into_iter().collect() };
    let mut member = Member::start(0, &Memory::new(), Arc::default(), u64::MAX);
    member.group.hear_told(2, &told, 0).unwrap();
    member.turn(1, false);
    let known = member.group.known.as_ref().unwrap();
    assert_eq!([2, 3].map(|number| known.takes_the_same(number, &places)), [true, false]);
}

#[test]
fn member_is_removed_if_those_that_stay_answer_and_its_store_does_not_come_back() {
    let (mut world, leader) = World::led();
    let (away, other) = ((leader + 1) % 3, (leader + 2) % 3);
    world.cut.insert(away);
    (0..3_000 / TURN_MS).for_each(|_| world.turn());
    let number = |at: usize| at as u8 + 1;
    let reply = world.ask(leader, Change::Remove { number: number(other) });
    let expected = format!("the members [{}] do not answer or have not caught up", number(away));
    assert!(matches!(&reply, Reply::Refused(why) if why.contains(&expected)), "{reply:?}");
    assert_eq!(world.ask(leader, Change::Remove { number: number(away) }), Reply::Place(number(away)));
    world.until("removal", |world| {
        let told = world.members[leader].group.stats.roster()?.told.clone();
        (told.is_settled && told.places.has_removed(number(away))).then_some(())
    });
    let change = Change::Add { address: ([127, 0, 0, 1], 9).into(), store: StoreId([number(away); 16]) };
    let reply = world.ask(leader, change);
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("needs an empty folder")), "{reply:?}");
}

/// A member that is away has shown nothing to the leader, however lately that was elected.
#[test]
fn member_that_is_away_does_not_count_after_an_election() {
    let mut world = World::new();
    world.cut.insert(2);
    let leader = world.elect();
    let reply = world.ask(leader, Change::Remove { number: 2 - leader as u8 });
    assert!(matches!(&reply, Reply::Refused(why) if why.contains("[3] do not answer")), "{reply:?}");
}

#[test]
fn others_are_told_which_members_are_in_force_when_the_stage_begins() {
    let mut member = Member::start(0, &Memory::new(), Arc::default(), u64::MAX);
    member.turn(1, false);
    let mut messages = Vec::new();
    member.to_members.take(1000, &mut messages);
    let told = messages.iter().filter(|message| matches!(&message.message, MemberMessage::Told(_)));
    assert_eq!(told.map(|message| message.to).collect::<Vec<_>>(), [2, 3]);
    assert!(member.group.stats.roster().is_some());
}

#[test]
fn record_is_durable_when_a_majority_has_it() {
    let (mut world, leader) = World::led();
    world.members[leader].append(1);
    world.until_durable(leader, 1);
    world.cut.extend((0..3).filter(|at| *at != leader));
    world.members[leader].append(2);
    world.turns(300);
    assert_eq!(world.members[leader].durable, 1, "only its own log has it");
    world.cut.remove(&((leader + 1) % 3));
    world.until_durable(leader, 2);
}

#[test]
fn answer_that_speaks_of_now_waits_for_a_round() {
    let (mut world, leader) = World::led();
    world.members[leader].hold();
    world.until("answer", |world| Some(()).filter(|()| world.members[leader].answers() == 1));
    world.loses_rounds = true;
    world.members[leader].hold();
    world.turns(400);
    assert_eq!(world.members[leader].answers(), 0);
    world.loses_rounds = false;
    world.until("answer", |world| Some(()).filter(|()| world.members[leader].answers() == 1));
}

#[test]
fn followers_apply_what_is_committed_and_nothing_else() {
    let (mut world, leader) = World::led();
    world.members[leader].append(1);
    let applied = |world: &World, number| (0..3).filter(|at| world.members[*at].applied() == Some(number)).count();
    world.until("writes", |world| Some(()).filter(|()| applied(world, 1) == 3));
    let other = (leader + 1) % 3;
    world.cut.extend([other, leader]);
    world.members[leader].append(2);
    world.turns(300);
    world.restart(leader);
    assert_eq!(world.members[leader].applied(), Some(1), "a member that starts does not apply its whole log");
    assert_eq!(applied(&world, 2), 0);
}

#[test]
fn leader_without_contact_steps_down_and_its_last_entries_become_void() {
    let (mut world, old) = World::led();
    world.members[old].append(1);
    world.until_durable(old, 1);
    world.cut.insert(old);
    world.members[old].append(2);
    let new = world.until("leader", |world| (0..3).find(|at| *at != old && world.is_leading(*at)));
    world.until("end", |world| Some(()).filter(|()| !world.is_leading(old)));
    world.members[new].append(3);
    world.until_durable(new, 1);
    world.restart(old);
    world.cut.clear();
    world.until("write", |world| {
        let applied = world.members[old].applied();
        assert_ne!(applied, Some(2), "its entry is not committed");
        applied.filter(|number| *number == 3)
    });
}

#[test]
fn follower_that_was_away_gets_entries_from_the_log() {
    let (mut world, first) = World::led();
    let away = (first + 1) % 3;
    world.cut.insert(away);
    for number in 1..=50 {
        world.members[first].append(number);
        world.until_durable(first, number as usize);
    }
    // The next leader has none of these entries in memory.
    (0..3).for_each(|at| world.restart(at));
    let leader = world.elect();
    assert_ne!(leader, away, "its log is behind");
    world.cut.clear();
    world.until("writes", |world| world.members[away].applied().filter(|number| *number == 50));
}

/// Turns until a member's log begins behind the first segments.
fn segments_go(world: &mut World, members: &[usize]) {
    world.until("removal", |world| members.iter().all(|at| world.oldest(*at) > 3).then_some(()));
}

#[test]
fn segments_go_once_all_members_have_what_is_in_them() {
    let (mut world, leader) = World::led();
    let (away, mut last) = ((leader + 1) % 3, 0);
    world.cut.insert(away);
    (0..8).for_each(|_| world.fill_a_segment(leader, &mut last));
    world.turns(20_000);
    assert!((0..3).all(|at| world.oldest(at) <= 2), "one member lacks what is in them");
    world.cut.clear();
    segments_go(&mut world, &[0, 1, 2]);
    let items = |world: &World, at: usize| world.members[at].items().len() as u64;
    world.until("items", |world| (0..3).all(|at| items(world, at) == last).then_some(()));
    for at in 0..3 {
        world.media[at].crash(at as u64);
        world.restart(at);
    }
    let leader = world.elect();
    assert!((0..3).all(|at| items(&world, at) == last), "what has gone is in the items");
    world.fill_a_segment(leader, &mut last);
    world.until("items", |world| (0..3).all(|at| items(world, at) == last).then_some(()));
}

/// Half of the room is kept for it.
#[test]
fn member_that_is_away_is_not_waited_for_when_the_log_needs_its_room() {
    let half = 15 * SEGMENT_BYTES;
    let mut world = World::with_limit(2 * half);
    let first = world.elect();
    let (away, mut last) = ((first + 1) % 3, 0);
    let present: Vec<usize> = (0..3).filter(|at| *at != away).collect();
    world.cut.insert(away);
    (0..4).for_each(|_| world.fill_a_segment(first, &mut last));
    world.turns(20_000);
    assert!(world.members[first].gc.stats.log_bytes() < half);
    assert!(present.iter().all(|at| world.oldest(*at) <= 2), "there is room for what it lacks");
    // The next leader has nothing in memory of what goes.
    present.iter().for_each(|at| world.restart(*at));
    let leader = world.elect();
    (0..10).for_each(|_| world.fill_a_segment(leader, &mut last));
    world.turns(20_000);
    segments_go(&mut world, &present);
    world.cut.clear();
    world.fill_a_segment(leader, &mut last);
    let is_named = |world: &World, by: usize| world.members[by].group.lacking.contains_key(&(away as u8 + 1));
    world.until("name of who is too far behind", |world| is_named(world, leader).then_some(()));
    world.turns(2_000);
    assert!(world.is_leading(leader), "it goes on without");
    assert!(present.iter().all(|at| world.members[*at].items().len() as u64 == last));
    assert!((world.members[away].items().len() as u64) < last, "nobody has given it the items");
    // The next one does not believe to have what is gone.
    world.restart(leader);
    let next = world.elect();
    world.until("name of who is too far behind", |world| is_named(world, next).then_some(()));
}

/// Crashes lose what was not synced, or tear it; at most one member is cut off, and one disk hangs.
/// Segments go meanwhile.
#[test]
fn what_is_acknowledged_outlives_crashes_and_cuts() {
    let (mut all, mut removed) = (0, 0);
    for seed in 0..20 {
        let (mut random, mut world) = (StdRng::seed_from_u64(seed), World::new());
        let (mut acknowledged, mut next) = (BTreeSet::new(), 0);
        for _ in 0..80 {
            match random.random_range(0..20) {
                0 | 1 => {
                    let at = random.random_range(0..3);
                    world.media[at].crash(random.random());
                    world.restart(at);
                }
                2 => world.cut = BTreeSet::from([random.random_range(0..3)]),
                3 => world.cut.clear(),
                4 => world.hung = Some(random.random_range(0..3)),
                5 => world.hung = None,
                _ => {}
            }
            world.append_to_leaders(&mut next);
            world.turns(random.random_range(10..400));
            acknowledged.extend((0..3).flat_map(|at| world.members[at].acknowledged()));
            world.start_again();
        }
        (world.cut, world.hung) = (BTreeSet::new(), None);
        let has_last =
            |world: &World, at: usize, last| world.members[at].items().last().is_some_and(|(_, n)| *n == last);
        let followers = (0..100).find_map(|_| {
            world.start_again();
            world.append_to_leaders(&mut next);
            world.turns(300);
            let followers: Vec<usize> = (0..3).filter(|at| has_last(&world, *at, next)).collect();
            (followers.len() == 3).then_some(followers)
        });
        let followers = followers.unwrap_or_else(|| panic!("seed {seed}: the group does not come to rest"));
        let [one, other] = [followers[0], followers[1]].map(|at| world.members[at].items());
        assert_eq!(one, other, "seed {seed}");
        let found: BTreeSet<u64> = one.into_iter().map(|(_, number)| number).collect();
        let missing: Vec<_> = acknowledged.difference(&found).collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:?}");
        all += acknowledged.len();
        removed += (0..3).map(|at| world.oldest(at) - 1).sum::<u64>();
    }
    assert!(all > 200, "only {all} records were acknowledged");
    assert!(removed > 200, "only {removed} segments are removed");
}
