//! States of the model of validation without reads: the server, the client that validates with its
//! transaction, and the other client. What changes them is in the files of the participants.

use super::plan::{Docs, Plan};

/// Progress of a command: from its sending to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The command is under way.
    Sent,
    /// The server has carried it out, and the answer is under way.
    Done,
}

/// State of the deployment server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// The committed value of each document.
    pub values: [u8; 2],
    /// Values that the documents have after a restart.
    pub journaled: [u8; 2],
    /// Values that a read shows which misses the last decision, while there may be one.
    pub before: Option<[u8; 2]>,
    /// The stamps of the client's own record: the number of decisions about each document.
    pub own: [u8; 2],
    /// The stamps of the other client's record.
    pub theirs: [u8; 2],
    /// Number of the other client's notices that name each document and go on.
    pub notices: [u8; 2],
    /// Number of those that say that they are over.
    pub over: [u8; 2],
    /// Documents that the server removes by an index when their time has come.
    pub expires: Docs,
    /// Documents that the server has removed by the index.
    pub expired: Docs,
    /// Number of times that the server was restarted.
    pub process: u8,
}

/// The stamps and notices that one look shows, and when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// The tick at which it was sent.
    pub sent: u8,
    /// The newest process of the server that was known then.
    pub process: u8,
    /// The stamps of the client's own record.
    pub own: [u8; 2],
    /// The stamps of the other client's record.
    pub theirs: [u8; 2],
    /// Number of notices of the other client that name each document and go on.
    pub notices: [u8; 2],
    /// Number of those that are over.
    pub over: [u8; 2],
}

/// A look that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Looking {
    /// The tick at which it was sent.
    pub sent: u8,
    /// The newest process of the server that was known then.
    pub process: u8,
    /// True if it is the later look of the transaction.
    pub later: bool,
    /// The stamps of both records, when the server has read them.
    pub stamps: Option<[[u8; 2]; 2]>,
    /// Notices that go on and that are over, when the server has looked for them.
    pub notices: Option<[[u8; 2]; 2]>,
}

/// The course of a change by the client itself: a decision, or a plain write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The change is not sent yet.
    Out,
    /// The change was sent, and its outcome is not known yet.
    Under(Message),
    /// The client knows that it is committed; the finisher does not. (Decisions only.)
    Known,
    /// The change has ended, and its outcome is known.
    Over,
    /// The client will never learn what has become of it.
    Lost(Message),
}

/// Knowledge of the client about the collection of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Known {
    /// True if the server removes the document when its time has come.
    pub expires: bool,
    /// Number of notices that were over in the last look that was answered before the look-up was
    /// sent.
    pub over: [u8; 2],
}

/// The client that validates, but for its transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    /// The newest process of the server that it has a connection to.
    pub process: u8,
    /// The last look that was answered.
    pub look: Option<Look>,
    /// The look that is under way.
    pub looking: Option<Looking>,
    /// Number of looks that it may still send besides.
    pub looks: u8,
    /// Knowledge about the collection of each document, if it was looked up.
    pub catalog: [Option<Known>; 2],
    /// The document whose collection it is looking up, and the server's answer.
    pub looking_up: Option<(usize, Known)>,
    /// The client's transactions beside the one that is validated.
    pub decisions: Vec<Change>,
    /// The client's writes outside transactions.
    pub plain: Vec<Change>,
}

/// The course of one of the other client's notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The notice is not sent yet.
    Out,
    /// The notice was sent, and is not acknowledged.
    Posting(Message),
    /// The notice is acknowledged, and its age counts from this tick.
    Posted(u8),
}

/// State of the client that does not validate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Other {
    /// Number of its transactions that are decided.
    pub decided: usize,
    /// The notices of its plain writes, by the documents that they name.
    pub notices: [Notice; 2],
    /// The ticks at which they were sent.
    pub since: [u8; 2],
    /// Number of notices that it has said to be over.
    pub ended: u8,
    /// The notices among them that the server does not take for over yet.
    pub ending: Docs,
    /// Number of its plain writes that were sent, and the tick at which the last one was.
    pub sent: (usize, u8),
    /// True for each of its plain writes that the server has carried out.
    pub written: Docs,
}

/// The course of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The transaction has not begun.
    Out,
    /// The transaction reads its documents, one after the other.
    Reads,
    /// The validation reads again what may have changed.
    Asks,
    /// The validation waits for the later look.
    Waits,
    /// The transaction is valid, and committed when it has its lock.
    Valid,
    /// The transaction has met a conflict, or is given up.
    Failed,
}

/// The transaction that is validated.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    /// Step of the transaction that comes next.
    pub phase: Phase,
    /// Values that the transaction has read.
    pub read: [Option<u8>; 2],
    /// True if it has remembered the number of own changes.
    pub has_base: bool,
    /// Documents of which an own change has ended since then.
    pub changed: Docs,
    /// The look that was remembered when it began.
    pub first: Option<Look>,
    /// Documents that may change without a trace, as its validation has found out.
    pub traceless: Docs,
    /// True if it has its lock.
    pub locked: bool,
    /// Number of rounds that the validation has begun.
    pub rounds: u8,
    /// Documents that are read again in this round.
    pub asks: Docs,
    /// The documents of this round that are not read yet.
    pub to_ask: Docs,
    /// The first look for the documents that are read again.
    pub before: Option<Look>,
    /// Documents that own changes had left unchanged when the later look was sent.
    pub unchanged: Docs,
    /// True if what it has read was so at a moment since its lock.
    pub since_lock: bool,
    /// True if it was so at a moment since its validation has begun.
    pub since_validation: bool,
}

/// State of the model of validation without reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Number of ticks that have passed.
    pub now: u8,
    /// State of the deployment server.
    pub server: Server,
    /// State of the client whose transaction is validated.
    pub client: Client,
    /// Transaction of the client, which is validated.
    pub tx: Transaction,
    /// State of the client that does not validate.
    pub other: Other,
}

impl State {
    /// The state at the beginning of a plan.
    pub fn new(plan: &Plan) -> Self {
        Self {
            now: 0,
            server: Server {
                values: [0; 2],
                journaled: [0; 2],
                before: None,
                own: [0; 2],
                theirs: [0; 2],
                notices: [0; 2],
                over: [0; 2],
                expires: [false; 2],
                expired: [false; 2],
                process: 0,
            },
            client: Client {
                process: 0,
                look: None,
                looking: None,
                looks: plan.looks,
                catalog: [None; 2],
                looking_up: None,
                decisions: vec![Change::Out; plan.decisions.len()],
                plain: vec![Change::Out; plan.plain.len()],
            },
            tx: Transaction::new(plan),
            other: Other {
                decided: 0,
                notices: [Notice::Out; 2],
                since: [0; 2],
                ended: 0,
                ending: [false; 2],
                sent: (0, 0),
                written: [false; 2],
            },
        }
    }

    /// Returns true if the transaction is committed or has failed, and nothing of interest can
    /// follow.
    pub fn is_over(&self) -> bool {
        self.tx.phase == Phase::Failed || self.is_committed()
    }

    /// Returns true if the transaction has not begun its validation.
    pub fn is_before_validation(&self) -> bool {
        matches!(self.tx.phase, Phase::Out | Phase::Reads)
    }

    /// Returns true if the transaction is valid and has its lock.
    pub fn is_committed(&self) -> bool {
        self.tx.phase == Phase::Valid && self.tx.locked
    }

    /// Takes notice of a moment at which what the transaction has read is so.
    pub fn judge(&mut self) {
        let is_so = self.tx.read == self.server.values.map(Some);
        self.tx.since_lock |= is_so && self.tx.locked;
        self.tx.since_validation |= is_so && self.tx.rounds > 0;
    }
}

impl Transaction {
    fn new(plan: &Plan) -> Self {
        Self {
            phase: Phase::Out,
            read: [None; 2],
            has_base: false,
            changed: [false; 2],
            first: None,
            traceless: [false; 2],
            locked: !plan.locks,
            rounds: 0,
            asks: [false; 2],
            to_ask: [false; 2],
            before: None,
            unchanged: [false; 2],
            since_lock: false,
            since_validation: false,
        }
    }
}
