//! A state of the model: the members, the owner, the sweeper.

use std::collections::BTreeSet;

use protocol::{ClientRecord, Concern, Recorder, Seq, TxId, TxStatus, recorder::RecordWrite};

use super::{
    breakage::Breakage,
    members::{Members, Sent},
    plan::{Faults, Plan},
};
use crate::{
    plan::Op,
    server::{Data, Doc, Stored, client_id, mark},
    shared::Shared,
    state::Reported,
};

/// Number of documents that the transaction changes.
pub const DOCS: usize = 2;

/// A command under way: executed, and waiting for the majority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting<T> {
    /// Member and position at which it was executed.
    pub sent: Sent,
    /// Answer of the command, which is given once the command counts.
    pub answer: T,
}

/// Progress of the owner's transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to insert the record.
    Registering,
    /// The insert of the record has been sent.
    Registered(Waiting<()>),
    /// About to lock and change a document.
    Writing(usize),
    /// The write of the document has been sent.
    Written(usize, Waiting<()>),
    /// The transaction has requested its commit.
    Committing,
    /// Decided: about to finish or to undo a document.
    Cleaning(usize),
    /// The finish or undo has been sent.
    Cleaned(usize, Waiting<()>),
    /// The transaction is over, with nothing left to do.
    Over,
}

/// The owner's write to its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pump {
    /// No write is under way.
    Idle,
    /// A primary has applied this write of the record.
    Applied(RecordWrite, Waiting<()>),
    /// Not applied, or unknown: about to read the record.
    Examine(RecordWrite),
    /// The record has been read; its content counts once the majority has acknowledged the read.
    Examined(RecordWrite, Waiting<Option<ClientRecord>>),
    /// Not applied: about to be sent again.
    Resend(RecordWrite),
    /// The record is of no more use, or retired.
    Gone,
}

/// The process that runs the transaction. It has two drivers: one for documents, one for its
/// record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// True if the owner lives.
    pub alive: bool,
    /// Progress of the owner's transaction.
    pub step: Step,
    /// Sequence number of the owner's transaction.
    pub seq: Seq,
    /// Outcome that was reported to the user.
    pub reported: Option<Reported>,
    /// The owner's side of its record.
    pub recorder: Recorder,
    /// The record write under way.
    pub pump: Pump,
    /// Last record write that was applied.
    pub last: Option<RecordWrite>,
    /// The newest term that has answered each driver: for documents, for the record.
    pub known: [u8; 2],
}

/// State of a rival's task: a sweep of a fenced record, or one locked document (`alone`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// About to fence the record.
    Fence,
    /// The fence has been sent.
    Fenced(Waiting<()>),
    /// About to read the record durably, before the documents or (`true`) after them.
    Barrier(bool),
    /// The record has been read: whether it is fenced.
    AtBarrier(bool, Waiting<bool>),
    /// About to look at a document.
    Look(usize),
    /// The document is locked: about to ask for the status.
    Ask(usize),
    /// The status has been read.
    Asked(usize, Waiting<TxStatus>),
    /// About to repair the document.
    Repair(usize, TxStatus),
    /// The repair has been sent.
    Repaired(usize, Waiting<()>),
    /// About to remove the record.
    Retire,
    /// The removal of the record has been sent.
    Retired(Waiting<()>),
}

/// A rival that repairs and sweeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sweeper {
    /// Task of the rival, if it has one.
    pub task: Option<Task>,
    /// True if the task is about one document, without a sweep.
    pub alone: bool,
    /// The newest term that has answered it.
    pub known: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Members of the replica set.
    pub members: Members,
    /// The owner of the transaction.
    pub owner: Shared<Owner>,
    /// The rival that repairs and sweeps.
    pub sweeper: Sweeper,
    /// Faults that may still happen.
    pub faults: Faults,
}

/// Record as it is inserted at registration.
pub fn new_record() -> Shared<Stored> {
    Shared::new(Stored { record: Recorder::initial_record(), forgotten: BTreeSet::new(), names: u8::MAX })
}

impl State {
    /// The state in which `plan` begins: documents clean, a record, a transaction with a number.
    pub fn new(plan: &Plan) -> Self {
        let mut recorder = Recorder::new();
        let seq = recorder.allocate();
        let mut doc = Doc { stored: true, ..Doc::default() };
        let mut step = if plan.registers { Step::Registering } else { Step::Writing(0) };
        if plan.locked {
            doc.prepare(TxId { client: client_id(0), seq }, Op::Update, mark(0), None);
            recorder.request_commit(seq, Concern::Majority, 0);
            step = Step::Committing;
        }
        let data =
            Data { docs: vec![doc; DOCS], records: vec![(!plan.registers).then(new_record)], archive: BTreeSet::new() };
        let owner =
            Owner { alive: true, step, seq, reported: None, recorder, pump: Pump::Idle, last: None, known: [1; 2] };
        Self {
            members: Members::new(data),
            owner: Shared::new(owner),
            sweeper: Sweeper { task: None, alone: false, known: 1 },
            faults: plan.faults,
        }
    }

    /// Id of the owner's transaction.
    pub fn tx(&self) -> TxId {
        TxId { client: client_id(0), seq: self.owner.seq }
    }

    /// Primaries to which a process may send; `known` is the newest term that has answered it.
    pub fn primaries(&self, plan: &Plan, known: u8) -> Vec<usize> {
        let any = plan.has(Breakage::OlderPrimary);
        let may = |m: &usize| self.members.all[*m].primary && (any || self.members.all[*m].term >= known);
        (0..self.members.all.len()).filter(may).collect()
    }

    /// Cuts off the log entries that all members have.
    pub fn trim(&mut self) {
        let cut = self.members.trim();
        if cut == 0 {
            return;
        }
        let owner = &mut *self.owner;
        let sent = [
            match &mut owner.step {
                Step::Registered(waiting) | Step::Written(_, waiting) | Step::Cleaned(_, waiting) => {
                    Some(&mut waiting.sent)
                }
                _ => None,
            },
            match &mut owner.pump {
                Pump::Applied(_, waiting) => Some(&mut waiting.sent),
                Pump::Examined(_, waiting) => Some(&mut waiting.sent),
                _ => None,
            },
            match &mut self.sweeper.task {
                Some(Task::Fenced(waiting) | Task::Repaired(_, waiting) | Task::Retired(waiting)) => {
                    Some(&mut waiting.sent)
                }
                Some(Task::AtBarrier(_, waiting)) => Some(&mut waiting.sent),
                Some(Task::Asked(_, waiting)) => Some(&mut waiting.sent),
                _ => None,
            },
        ];
        for sent in sent.into_iter().flatten() {
            // An entry that all members have stays acknowledged: the last common entry stands for
            // it.
            sent.length = sent.length.saturating_sub(cut).max(1);
        }
    }
}
