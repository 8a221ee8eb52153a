//! States of the model of the read lease: the server, the holder of the lease with its queries, and
//! the newcomer. What changes them is in the files of the participants.

use super::plan::Plan;

/// Index of the holder's transaction.
pub const OWN: usize = 0;
/// Index of the newcomer's transaction.
pub const THEIRS: usize = 1;

/// Progress of a command: from its sending to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The command is under way.
    Sent,
    /// The server has carried it out, and the answer is under way.
    Done,
}

/// The holder's record, as the server has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// True if the record holds the flag of the lease.
    pub flag: bool,
    /// True if a sweep has fenced the record.
    pub fenced: bool,
    /// The tick at which it was closed.
    pub closed: Option<u8>,
}

/// A transaction with two documents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// True if the server has decided the transaction.
    pub decided: bool,
    /// Collections of the transaction's two documents, by document.
    pub collections: [usize; 2],
    /// True for each of its documents that is finished: plain queries see these.
    pub finished: [bool; 2],
    /// Knowledge of users about the transaction.
    pub known: Known,
}

/// Knowledge of users about a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Known {
    /// True if the server has acknowledged the commit to the client.
    pub acknowledged: bool,
    /// The holder's users have seen a part of it.
    pub seen: bool,
}

impl Transaction {
    fn documents(&self, collection: usize) -> impl Iterator<Item = usize> {
        let collections = self.collections;
        (0..2).filter(move |document| collections[*document] == collection)
    }

    /// Returns true if a plain query of the collection does not show all of the transaction,
    /// although it is decided.
    pub fn is_missed(&self, collection: usize) -> bool {
        self.decided && self.documents(collection).any(|document| !self.finished[document])
    }

    /// Returns true if a plain query of the collection shows some of the transaction.
    pub fn is_shown(&self, collection: usize) -> bool {
        self.decided && self.documents(collection).any(|document| self.finished[document])
    }

    /// Finishes what is in the collection.
    pub fn finish(&mut self, collection: usize) {
        if self.decided {
            let documents: Vec<usize> = self.documents(collection).collect();
            documents.into_iter().for_each(|document| self.finished[document] = true);
        }
    }
}

/// The holder's task that keeps the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// The holder has no task.
    Off,
    /// The flag is being written.
    Flags(Message),
    /// The flag is written, and lists are sent again and again.
    Runs,
    /// The lease is dropped: because the holder was not alone any more, or for another reason.
    Dropped {
        /// The holder had a lease, and was not alone any more.
        met: bool,
    },
    /// The flag is being taken away.
    Unsets(Message),
}

/// A list of the open records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct List {
    /// Time of its sending by the holder's clock.
    pub sent: u8,
    /// True if the flagged record was the holder's own when the list was sent.
    pub owns: bool,
    /// The answer: whether the holder is alone.
    pub alone: Option<bool>,
}

/// A look for pending documents of a collection, with their finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settling {
    /// Collection whose pending documents are looked for.
    pub collection: usize,
    /// The server's process that was known when it was sent.
    pub process: u8,
    /// Place of the look's message on its way to the server and back.
    pub message: Message,
}

/// A plain query that the holder sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// Collection that the query reads.
    pub collection: usize,
    /// The server's process that was known when it was sent.
    pub process: u8,
    /// True if the lease's period is still that in which it was sent.
    pub same_period: bool,
    /// Knowledge of users about each transaction when it was sent.
    pub known: [Known; 2],
    /// Answer of the query, if the server has carried it out.
    pub answer: Option<Answer>,
}

/// Answer of a plain query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The transactions that were decided and are not shown as a whole.
    pub misses: [bool; 2],
    /// The transactions of which something is shown.
    pub shows: [bool; 2],
}

/// The client that reads without probes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    /// The task that keeps the lease.
    pub task: Task,
    /// The list that is under way.
    pub list: Option<List>,
    /// The lease: when the list was sent on which it rests, by the holder's clock.
    pub lease: Option<u8>,
    /// For each collection the server's process in which it was settled in this period.
    pub settled: [Option<u8>; 2],
    /// The look for pending documents that is under way.
    pub settling: Option<Settling>,
    /// The query that is under way.
    pub query: Option<Query>,
    /// The newest process of the server that is known.
    pub process: u8,
    /// True if a command that takes the flag away is under way and forgotten.
    pub stray: bool,
    /// True if the record was given up, because the outcome of a decision is unknown.
    pub gave_up: bool,
}

/// The course of the holder's own transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Own {
    /// The transaction is about to be decided.
    Open,
    /// The transaction is registered as deciding.
    Registered,
    /// The decision of the transaction is under way, or the answer to it.
    Deciding(Message),
    /// The decision is acknowledged, and the transaction about to be handed over to the finisher.
    Acknowledged,
    /// The finisher finishes this document.
    Finishing(usize, Message),
    /// The answer to its decision is lost; `Sent`: the decision is still under way.
    Unknown(Message),
    /// The transaction is finished, or was never decided.
    Over,
}

/// The course of the newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Newcomer {
    /// The newcomer has no record yet.
    Out,
    /// The newcomer's record is being inserted.
    Inserts {
        /// Progress of the insert of the record.
        message: Message,
        /// The beginning of its wait, if that counts from the sending.
        since: Option<u8>,
        /// True if the newcomer will not look for flags.
        careless: bool,
    },
    /// The record is inserted, and the newcomer looks for the flag; its wait counts from this tick.
    Looks(u8, Message),
    /// The flag was there; its wait counts from this tick.
    Waits(u8),
    /// The newcomer has waited to the end, and takes the flag away.
    Unflags(Message),
    /// The newcomer may decide its transaction.
    Free,
    /// The decision of the newcomer's transaction is under way.
    Decides,
    /// The newcomer has decided its transaction.
    Decided,
    /// The newcomer's record is closed.
    Closed,
}

/// State of the model of the read lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Time of the server and of the newcomer.
    pub now: u8,
    /// Number of ticks that the holder's clock has missed.
    pub missed: u8,
    /// Process of the server: the number of its restarts.
    pub process: u8,
    /// The client record of the lease's holder.
    pub record: Record,
    /// The transactions of the holder and of the newcomer.
    pub transactions: [Transaction; 2],
    /// The client that holds the lease.
    pub holder: Holder,
    /// Progress of the holder's own transaction.
    pub own: Own,
    /// The client that registers beside the holder.
    pub newcomer: Newcomer,
    /// Number of newcomers that have come.
    pub newcomers: u8,
    /// True if a command of an earlier newcomer that takes the present flag away is under way.
    pub late_unflag: bool,
    /// Answer of the newcomer's last look, while that is under way: whether the flag was there.
    pub found: bool,
}

impl State {
    /// The state at the beginning of a plan.
    pub fn new(plan: &Plan) -> Self {
        let own = Transaction { collections: plan.own.unwrap_or_default(), ..Transaction::default() };
        // No query reads the collection of the newcomer's second document.
        let theirs = Transaction { collections: [0, 2], finished: [false, true], ..Transaction::default() };
        Self {
            now: 0,
            missed: 0,
            process: 0,
            record: Record::default(),
            transactions: [own, theirs],
            holder: Holder {
                task: Task::Off,
                list: None,
                lease: None,
                settled: [None; 2],
                settling: None,
                query: None,
                process: 0,
                stray: false,
                gave_up: false,
            },
            own: if plan.own.is_some() { Own::Open } else { Own::Over },
            newcomer: Newcomer::Out,
            newcomers: 0,
            late_unflag: false,
            found: false,
        }
    }

    /// Ticks that the holder's clock has counted.
    pub fn clock(&self) -> u8 {
        self.now - self.missed
    }

    /// The holder learns the id of the server's process, over the connection that carries its next
    /// command.
    pub fn greet_holder(&mut self) {
        self.holder.process = self.process;
    }
}
