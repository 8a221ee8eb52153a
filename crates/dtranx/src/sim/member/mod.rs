//! The state of a group's member beside its node: its machine, its log (`log`), and what it reads
//! of that while it has no node.

mod log;

use std::collections::BTreeMap;

use rand::rngs::StdRng;

use super::place::Place;
use crate::core::{
    Command, Input, NodeConfig, Record, Recovery, SegmentId, TranxId, Write,
    gc::Gc,
    group::{Group, Index, MemberId, Message, Timer, WriteId},
    machine::{GcEvent, Outbox, Turn},
};
use log::Log;

/// Number of members of a group.
pub(crate) const MEMBERS: u8 = 3;

/// Something that happens to a member.
#[derive(Clone, Debug)]
pub(crate) enum GroupEvent {
    /// A timer goes off, unless it was set again.
    Timer {
        boot: u64,
        timer: Timer,
        setting: u64,
    },
    /// Writes up to this one are synced, unless the member has crashed since.
    Synced {
        boot: u64,
        write: WriteId,
    },
    Receive {
        from: Place,
        message: Message,
    },
    /// The records that the node of this life has logged become an entry.
    Gather {
        life: u64,
    },
    /// The disk is gone, with everything on it.
    LoseDisk,
    /// The disk syncs nothing for so long, in microseconds.
    Hang(u64),
    /// The leader of this member's group is cut off from the others for so long, in microseconds.
    Isolate(u64),
}

/// One member of a group.
#[derive(Debug)]
pub(crate) struct Member {
    /// `None` while it is down.
    pub(crate) machine: Option<Group>,
    pub(crate) log: Log,
    /// Whether its disk is gone for good.
    pub(crate) is_lost: bool,
    /// Number of times that the member was started.
    pub(crate) boot: u64,
    /// The last setting of each timer.
    pub(crate) timers: BTreeMap<Timer, u64>,
    /// Time until which its disk syncs nothing.
    pub(crate) hung_until_us: u64,
    /// Reads what is committed, while there is no node.
    pub(crate) recovery: Option<Recovery>,
    /// Transactions that it has applied since it began to read, with their writes.
    pub(crate) applied: Vec<(TranxId, Vec<Write>)>,
    /// The last entry that was applied, or that was passed to the node.
    pub(crate) acted: Index,
    /// Records of the node that are in no entry yet, with the ticket of the last one.
    pub(crate) gathered: Vec<Record>,
    pub(crate) last_ticket: u64,
    /// Ticket of the last record in each entry of this life.
    pub(crate) tickets: BTreeMap<Index, u64>,
    /// Answers that wait for a round.
    pub(crate) held: BTreeMap<u64, Command>,
    pub(crate) answers: u64,
    /// Collects while there is no node.
    pub(crate) gc: Gc,
    /// The last segment that the collection knows to be complete.
    pub(crate) sealed: SegmentId,
    /// Segments up to this one may go.
    pub(crate) superfluous: SegmentId,
}

impl Member {
    pub(crate) fn new() -> Self {
        Self {
            machine: None,
            log: Log::new(),
            is_lost: false,
            boot: 0,
            timers: BTreeMap::new(),
            hung_until_us: 0,
            recovery: None,
            applied: Vec::new(),
            acted: Index::ZERO,
            gathered: Vec::new(),
            last_ticket: 0,
            tickets: BTreeMap::new(),
            held: BTreeMap::new(),
            answers: 0,
            gc: Gc::default(),
            sealed: SegmentId(0),
            superfluous: SegmentId(0),
        }
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.machine.is_some()
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Crashes: its log keeps what a disk keeps.
    pub(crate) fn crash(&mut self, rng: &mut StdRng) {
        self.machine = None;
        self.log.crash(rng);
        self.recovery = None;
        self.forget_node();
    }

    /// Forgets what belongs to a node, or to its absence.
    pub(crate) fn forget_node(&mut self) {
        self.applied.clear();
        self.gathered.clear();
        self.tickets.clear();
        self.last_ticket = 0;
        self.held.clear();
        self.gc = Gc::default();
    }

    /// Begins to read the log from its beginning.
    pub(crate) fn begin_to_read(&mut self, recovery: Recovery) {
        self.forget_node();
        self.recovery = Some(recovery);
        self.acted = self.log.before().index;
        self.sealed = SegmentId(0);
    }

    /// Goes on with a collection, without a node.
    pub(crate) fn collect(&mut self, config: &NodeConfig, input: Input) -> Vec<Command> {
        match input {
            Input::StoragePersisted => self.on_garbage(config, GcEvent::Persisted),
            Input::GcRecorded => self.on_garbage(config, GcEvent::Recorded),
            _ => Vec::new(),
        }
    }

    pub(crate) fn on_garbage(&mut self, config: &NodeConfig, event: GcEvent) -> Vec<Command> {
        let mut out = Outbox::default();
        self.gc.on(&mut Turn { now_ms: 0, config, out: &mut out }, event);
        out.commands
    }
}

/// Id of the store at a place.
pub(crate) fn id(place: Place) -> MemberId {
    MemberId(u64::from(place.member))
}
