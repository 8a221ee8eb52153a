//! The second rule of full queues (`docs/dtranx.md`) at the stages that get requests of their own.

mod member;
mod sizes;
mod snapshots;

use std::sync::Arc;

use super::BATCH;
use super::side::{SideMachine, SideOutlets, SideStage};
use super::transaction::{Outlets, TransactionStage};
use super::wal::WalStage;
use crate::core::machine::{AckEvent, Event, LockEvent, Outbox, TranxEvent, Turn};
use crate::core::{
    ClientId, Command, CommitAnswer, Epoch, Incarnation, Key, LogTicket, Message, MessageId, Node, NodeConfig,
    Partition, Record, Recovery, Refusal, ServerId, Settlement, SnapshotAnswer, SnapshotMessage, Standing, Transaction,
    TranxId, ValidationId, Vote, Write,
};
use crate::log::{LogError, LogOptions, Memory, TranxLog};
use crate::server::event::Append;
use crate::server::member_event::Held;
use crate::server::stats::ServerStats;
use crate::stage::{Counters, Inlet, Outlet, Signal, Source, Stage, queue};
use crate::storage::InMemory;

const ME: ServerId = ServerId(1);
const OTHER: ServerId = ServerId(2);
const TRANX: TranxId = TranxId { server: ME, number: 1 };

fn of<E>(capacity: usize) -> (Inlet<E>, Source<E>) {
    queue("test", capacity, &Arc::new(Signal::new()), &Counters::new())
}

fn outlet<E>() -> Outlet<E> {
    of(100).0.outlet()
}

fn config() -> NodeConfig {
    NodeConfig::new(ME, Partition::Hash(vec![ME]))
}

/// Answers every event with an event to the transaction stage, and counts how often its time had
/// come.
#[derive(Default)]
struct Echo {
    ticks: usize,
}

impl SideMachine for Echo {
    const STAGE: &'static str = "echo";
    type Event = AckEvent;

    fn on(&mut self, turn: &mut Turn<'_>, _: AckEvent) {
        turn.tell(Event::Tranx(TranxEvent::Applied { tranx: TRANX }));
    }

    fn tick(&mut self, _: &mut Turn<'_>) {
        self.ticks += 1;
    }

    fn next_deadline_ms(&self) -> Option<u64> {
        Some(5)
    }
}

#[test]
fn side_stage_with_something_left_takes_what_it_asked_for_and_nothing_new() {
    let (entry, from_entry) = of(8);
    let (internal, from_internal) = of(8);
    let (tranx, at_tranx) = of(1);
    let outlets = SideOutlets { tranx: tranx.outlet(), to_servers: outlet() };
    let mut stage = SideStage::new(Echo::default(), Arc::new(config()), from_entry, from_internal, outlets);
    let event = || AckEvent::Done { tranx: TRANX };
    internal.offer(event()).unwrap();
    internal.offer(event()).unwrap();
    assert_eq!(stage.run(0).unwrap(), 2);
    // One of the two is left.
    internal.offer(event()).unwrap();
    entry.offer(event()).unwrap();
    assert_eq!((stage.run(9).unwrap(), stage.machine.ticks), (1, 0));
    assert!(stage.internal.is_empty() && !stage.entry.is_empty());
    // There is room for one of two.
    let mut taken = Vec::new();
    at_tranx.take(8, &mut taken);
    assert_eq!((stage.run(9).unwrap(), stage.machine.ticks), (0, 0));
    at_tranx.take(8, &mut taken);
    assert_eq!((stage.run(9).unwrap(), stage.machine.ticks), (1, 1));
    at_tranx.take(8, &mut taken);
    assert!(taken.len() == 3 && stage.entry.is_empty() && stage.has_work());
}

/// The queues into a transaction stage of which the test has the other ends.
struct Asked {
    entry: Inlet<TranxEvent>,
    peers: Inlet<TranxEvent>,
    internal: Inlet<TranxEvent>,
    wal: Inlet<Append>,
    at_lock: Source<LockEvent>,
    at_wal: Source<Append>,
}

/// A transaction stage with room for so many requests to the lock service, and the receiver of its
/// requests.
fn transaction_stage(locks: usize) -> (TransactionStage, Asked) {
    let (entry, from_entry) = of(4096);
    let (peers, from_peers) = of(8);
    let (internal, from_internal) = of(8);
    let (lock, at_lock) = of(locks);
    let (wal, at_wal) = of(4096);
    let Node { tranx, .. } = Recovery::new(config(), None).finish(0, &mut Vec::new());
    let stage = TransactionStage {
        tranx,
        config: Arc::new(config()),
        storage: Arc::new(InMemory::new()),
        stats: Arc::new(ServerStats::new(ME, "none".to_owned(), Counters::new(), u64::MAX)),
        entry: from_entry,
        peers: from_peers,
        internal: from_internal,
        outlets: Outlets {
            wal: wal.outlet(),
            storage: outlet(),
            to_servers: outlet(),
            to_clients: outlet(),
            lock: lock.outlet(),
            ack: outlet(),
            recovery: outlet(),
            gc: of(8).0,
            answers: None,
        },
        out: Outbox::default(),
        batch: Vec::new(),
        gc_interval_ms: 1000,
        collect_at_ms: 5,
        note_at_ms: 0,
        held_back_ms: None,
    };
    (stage, Asked { entry, peers, internal, wal, at_lock, at_wal })
}

/// An event of a client.
fn gone() -> TranxEvent {
    TranxEvent::ClientGone { client: ClientId { incarnation: Incarnation(1), number: 1 } }
}

/// Server 2 requests a vote.
fn prepare(number: u64) -> TranxEvent {
    let write = Write { key: Key::smallest(), value: None };
    let part = Transaction { writes: vec![write], ..Transaction::default() };
    let message = Message::Prepare {
        tranx: TranxId { server: OTHER, number },
        participants: vec![ME, OTHER],
        part,
        standing: Standing::default(),
    };
    TranxEvent::Receive { from: OTHER, message }
}

#[test]
fn transaction_stage_with_something_left_takes_what_it_asked_for_and_nothing_new() {
    let (mut stage, asked) = transaction_stage(1);
    let release = || Event::Lock(LockEvent::Release { work: TRANX.into() });
    stage.out.events = vec![release(), release()];
    assert_eq!(stage.run(0).unwrap(), 0);
    // One of the two is left.
    asked.internal.offer(TranxEvent::Granted { work: TRANX.into() }).unwrap();
    asked.entry.offer(gone()).unwrap();
    asked.peers.offer(prepare(1)).unwrap();
    assert_eq!((stage.run(9).unwrap(), stage.collect_at_ms), (1, 5));
    assert!(stage.internal.is_empty() && !stage.entry.is_empty() && !stage.peers.is_empty());
    asked.at_lock.take(8, &mut Vec::new());
    assert_eq!((stage.run(9).unwrap(), stage.collect_at_ms), (2, 1009));
    asked.at_lock.take(8, &mut Vec::new());
    assert!(stage.entry.is_empty() && stage.peers.is_empty());
    assert!(stage.run(9).unwrap() == 0 && !stage.has_work());
}

/// More requests of clients wait than are taken at once; a request of a server that came after all
/// of them is begun first.
#[test]
fn servers_question_is_begun_while_a_flood_of_clients_requests_waits() {
    let (mut stage, asked) = transaction_stage(8);
    (0..3 * BATCH).for_each(|_| asked.entry.offer(gone()).unwrap());
    asked.peers.offer(prepare(1)).unwrap();
    stage.run(0).unwrap();
    let mut begun = Vec::new();
    asked.at_lock.take(8, &mut begun);
    assert!(matches!(begun[..], [LockEvent::Acquire { .. }]), "{begun:?}");
    assert!(!stage.entry.is_empty(), "there was no flood");
}

/// A vote waits for the log behind what is there already: that stays little, however many requests
/// of clients wait.
#[test]
fn clients_requests_wait_for_a_log_that_is_behind_and_servers_questions_do_not() {
    let (mut stage, asked) = transaction_stage(8);
    let record = || Append { ticket: LogTicket(1), record: Record::Reserve { through: 7 }, durable: true };
    (0..2 * BATCH).for_each(|_| asked.wal.offer(record()).map_err(drop).unwrap());
    asked.entry.offer(gone()).unwrap();
    asked.peers.offer(prepare(1)).unwrap();
    assert_eq!(stage.run(0).unwrap(), 1);
    assert!(stage.peers.is_empty() && !stage.entry.is_empty() && !stage.has_work());
    assert_eq!(stage.deadline_ms(), Some(1), "it looks again although no signal comes");
    asked.at_wal.take(1, &mut Vec::new());
    assert!(stage.has_work());
    assert_eq!(stage.run(1).unwrap(), 1);
    assert!(stage.entry.is_empty());
}

/// The last acknowledgement before a silence must not be taken for a torn tail after a power
/// failure.
#[test]
fn seal_behind_what_was_persisted_last_becomes_durable_by_itself() {
    let segment = "segment-00000000000000000001.wal";
    for seed in 0..20 {
        let medium = Memory::new();
        let options = LogOptions::new(ME.0, 4096);
        let log = TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap().log;
        let (append, source) = of(8);
        let stats = Arc::new(ServerStats::new(ME, "memory".to_owned(), Counters::new(), u64::MAX));
        let mut stage = WalStage::new(log, stats, source, outlet(), outlet());
        let record = Record::Reserve { through: 7 };
        append.offer(Append { ticket: LogTicket(1), record, durable: true }).map_err(drop).unwrap();
        stage.run(0).unwrap();
        stage.run(stage.deadline_ms().unwrap()).unwrap();
        assert_eq!(stage.deadline_ms(), None);
        drop(stage);
        medium.crash(seed);
        assert!(medium.damage(segment, 64 + 33));
        let opened = TranxLog::open(Arc::new(medium), &options, |_, _| Ok(()));
        assert!(matches!(opened, Err(LogError::Corrupt { offset: 64, .. })), "seed {seed}: {opened:?}");
    }
}

/// In a member of a group (decision 0075, G6).
#[test]
fn answers_that_speak_of_now_go_by_a_round_and_no_others() {
    let (mut stage, _asked) = transaction_stage(8);
    let ((answers, at_answers), (clients, at_clients), (servers, at_servers)) = (of(8), of(8), of(8));
    stage.outlets.answers = Some(answers.outlet());
    (stage.outlets.to_clients, stage.outlets.to_servers) = (clients.outlet(), servers.outlet());
    let (client, message) = (ClientId { incarnation: Incarnation(1), number: 1 }, MessageId(1));
    let validation = ValidationId { server: ME, incarnation: Incarnation(1), number: 1 };
    let reply = |answer| Command::Reply { client, message, answer };
    let snapshot = |answer| Command::ReplySnapshot { client, message, answer };
    let vote = |vote| Command::Send { to: OTHER, message: Message::Validated { validation, vote, epoch: Epoch(1) } };
    let settled = |settlement| {
        let settled = SnapshotMessage::Settled { epoch: Epoch(1), settlement };
        Command::Send { to: OTHER, message: Message::Snapshot(settled) }
    };
    let refusal = Refusal::LockWaitExpired;
    stage.out.commands = vec![
        reply(CommitAnswer::Validated(validation)),
        reply(CommitAnswer::Committed(TRANX)),
        snapshot(SnapshotAnswer::Made(Epoch(1))),
        snapshot(SnapshotAnswer::Refused(refusal.clone())),
        vote(Vote::Yes),
        vote(Vote::No(refusal)),
        settled(Settlement::Settled),
        settled(Settlement::Waits(TRANX)),
    ];
    stage.run(0).unwrap();
    let mut held = Vec::new();
    at_answers.take(8, &mut held);
    let kinds: Vec<_> = held.iter().map(|held| matches!(held, Held::ToClient(_))).collect();
    assert_eq!(kinds, [true, true, false, false]);
    assert_eq!((at_clients.take(8, &mut Vec::new()), at_servers.take(8, &mut Vec::new())), (2, 2));
}
