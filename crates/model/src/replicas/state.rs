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
    state::Told,
};

/// How many documents the transaction changes.
pub const DOCS: usize = 2;

/// A command under way: executed, and waiting for the majority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Waiting<T> {
    /// Where it was executed.
    pub sent: Sent,
    /// What it has answered, when it counts.
    pub answer: T,
}

/// Where the transaction is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// About to insert the record.
    Registering,
    /// That has been sent.
    Registered(Waiting<()>),
    /// About to lock and change a document.
    Writing(usize),
    /// That has been sent.
    Written(usize, Waiting<()>),
    /// Commit is requested.
    Committing,
    /// Decided: about to finish or to undo a document.
    Cleaning(usize),
    /// That has been sent.
    Cleaned(usize, Waiting<()>),
    /// Nothing is left to do.
    Over,
}

/// The owner's write to its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pump {
    /// None is under way.
    Idle,
    /// A primary has applied this write of the record.
    Applied(RecordWrite, Waiting<()>),
    /// Not applied, or unknown: about to read the record.
    Examine(RecordWrite),
    /// The record is read, and about to be believed.
    Examined(RecordWrite, Waiting<Option<ClientRecord>>),
    /// Not applied: about to be sent again.
    Resend(RecordWrite),
    /// The record is of no more use, or retired.
    Gone,
}

/// The process that runs the transaction. It has two drivers: one for documents, one for its record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Not dead.
    pub alive: bool,
    /// Where the transaction is.
    pub step: Step,
    /// Its number.
    pub seq: Seq,
    /// What the user was told.
    pub told: Option<Told>,
    /// The owner's state.
    pub recorder: Recorder,
    /// The record write under way.
    pub pump: Pump,
    /// The last one that was applied.
    pub last: Option<RecordWrite>,
    /// The newest term that has answered each driver: for documents, for the record.
    pub known: [u8; 2],
}

/// What a rival is at: a sweep of a fenced record, or one locked document (`alone`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// About to fence.
    Fence,
    /// Fenced.
    Fenced(Waiting<()>),
    /// About to read the record durably, before the documents or (`true`) after them.
    Barrier(bool),
    /// Read: is it fenced?
    AtBarrier(bool, Waiting<bool>),
    /// About to look at a document.
    Look(usize),
    /// It is locked: about to ask for the status.
    Ask(usize),
    /// The status.
    Asked(usize, Waiting<TxStatus>),
    /// About to repair it.
    Repair(usize, TxStatus),
    /// That has been sent.
    Repaired(usize, Waiting<()>),
    /// About to remove the record.
    Retire,
    /// That has been sent.
    Retired(Waiting<()>),
}

/// A rival.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sweeper {
    /// What it is at.
    pub task: Option<Task>,
    /// Is it about one document, without a sweep?
    pub alone: bool,
    /// The newest term that has answered it.
    pub known: u8,
}

/// A state of the model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The replica set.
    pub members: Members,
    /// The owner.
    pub owner: Shared<Owner>,
    /// A rival.
    pub sweeper: Sweeper,
    /// Budgets left.
    pub faults: Faults,
}

/// The record as it is inserted.
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
        let owner = Owner { alive: true, step, seq, told: None, recorder, pump: Pump::Idle, last: None, known: [1; 2] };
        Self {
            members: Members::new(data),
            owner: Shared::new(owner),
            sweeper: Sweeper { task: None, alone: false, known: 1 },
            faults: plan.faults,
        }
    }

    /// The transaction.
    pub fn tx(&self) -> TxId {
        TxId { client: client_id(0), seq: self.owner.seq }
    }

    /// The primaries that a process may send to, to which `known` has answered.
    pub fn primaries(&self, plan: &Plan, known: u8) -> Vec<usize> {
        let any = plan.has(Breakage::OlderPrimary);
        let may = |m: &usize| self.members.all[*m].primary && (any || self.members.all[*m].term >= known);
        (0..self.members.all.len()).filter(may).collect()
    }

    /// Cuts off what all members have.
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
            // What all have stays acknowledged: the last common entry stands for it.
            sent.length = sent.length.saturating_sub(cut).max(1);
        }
    }
}
