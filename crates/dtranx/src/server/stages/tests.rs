//! The second rule of full queues (`docs/dtranx.md`) at the stages that get requests of their own.

use std::sync::Arc;

use super::side::{SideHands, SideMachine, SideStage};
use super::transaction::{Hands, TransactionStage};
use super::wal::WalStage;
use crate::core::acknowledgement::AckEvent;
use crate::core::lock::LockEvent;
use crate::core::machine::{Event, Outbox, Turn};
use crate::core::tranx_service::TranxEvent;
use crate::core::{ClientId, Incarnation, LogTicket, Node, NodeConfig, Partition, Record, Recovery, ServerId, TranxId};
use crate::log::{LogError, LogOptions, Memory, TranxLog};
use crate::server::board::Board;
use crate::server::event::Append;
use crate::stage::{Counters, Inlet, Outlet, Signal, Source, Stage, queue};
use crate::storage::InMemory;

const ME: ServerId = ServerId(1);
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

/// Tells the transaction stage something for whatever it is told, and counts how often its time had come.
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
    let mut stage = SideStage {
        machine: Echo::default(),
        config: Arc::new(config()),
        entry: from_entry,
        internal: from_internal,
        hands: SideHands { tranx: tranx.outlet(), outgoing: outlet() },
        batch: Vec::new(),
        out: Outbox::default(),
    };
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

#[test]
fn transaction_stage_with_something_left_takes_what_it_asked_for_and_nothing_new() {
    let (entry, from_entry) = of(8);
    let (internal, from_internal) = of(8);
    let (lock, at_lock) = of(1);
    let Node { tranx, .. } = Recovery::new(config(), None).finish(0, &mut Vec::new());
    let release = || Event::Lock(LockEvent::Release { work: TRANX.into() });
    let mut stage = TransactionStage {
        tranx,
        config: Arc::new(config()),
        storage: Arc::new(InMemory::new()),
        board: Arc::new(Board::new(ME, "none".to_owned(), Counters::new(), u64::MAX)),
        entry: from_entry,
        internal: from_internal,
        hands: Hands {
            wal: outlet(),
            storage: outlet(),
            outgoing: outlet(),
            lock: lock.outlet(),
            ack: outlet(),
            recovery: outlet(),
            gc: of(8).0,
        },
        out: Outbox { events: vec![release(), release()], ..Outbox::default() },
        batch: Vec::new(),
        gc_interval_ms: 1000,
        collect_at_ms: 5,
        note_at_ms: 0,
    };
    assert_eq!(stage.run(0).unwrap(), 0);
    // One of the two is left.
    internal.offer(TranxEvent::Granted { work: TRANX.into() }).unwrap();
    entry.offer(TranxEvent::ClientGone { client: ClientId { incarnation: Incarnation(1), number: 1 } }).unwrap();
    assert_eq!((stage.run(9).unwrap(), stage.collect_at_ms), (1, 5));
    assert!(stage.internal.is_empty() && !stage.entry.is_empty());
    at_lock.take(8, &mut Vec::new());
    assert_eq!((stage.run(9).unwrap(), stage.collect_at_ms), (1, 1009));
    assert!(stage.entry.is_empty() && !stage.has_work());
}

/// What was acknowledged last before a silence is told from a torn tail after a power failure, too.
#[test]
fn seal_behind_what_was_persisted_last_becomes_durable_by_itself() {
    let segment = "segment-00000000000000000001.wal";
    for seed in 0..20 {
        let medium = Memory::new();
        let options = LogOptions::new(ME.0, 4096);
        let log = TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap().log;
        let (append, source) = of(8);
        let board = Arc::new(Board::new(ME, "memory".to_owned(), Counters::new(), u64::MAX));
        let mut stage = WalStage::new(log, board, source, outlet(), outlet());
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
