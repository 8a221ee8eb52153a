//! Names of the model's steps. `model` says which function carries out each.

/// The process that meets a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The transaction with this index.
    Run(usize),
    /// The janitor, during a sweep or at a single lock.
    Janitor,
}

/// A step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A transaction takes its next step.
    Run(usize),
    /// A client takes its next step for its record.
    Record(usize),
    /// The reader takes its next step.
    Read,
    /// The janitor takes its next step.
    Janitor,
    /// The janitor fetches a document.
    Look(usize),
    /// The janitor begins to sweep up after a fenced client.
    Scan(usize),
    /// A client's lease is found expired, with or without a lock of it in the way.
    Expire(usize),
    /// A process rolls back the one transaction whose lock it has met.
    Abort(Actor),
    /// A transaction's next message is given up by its sender.
    WriteLate(usize),
    /// A client's next record write is given up by its sender.
    RecordLate(usize),
    /// A late message arrives at the server.
    Deliver(usize),
    /// Nothing that is written from here on will survive the next restart.
    ForeseeRestart,
    /// The server restarts as foreseen.
    Restart,
    /// An answer from before a restart is lost.
    LoseAnswer(usize),
    /// An owner waits no longer for the outcome of its record write.
    GiveUp(usize),
    /// A client's next decision is refused, because a reader has set quiet and the decision's first
    /// transaction would disturb it.
    Quiet(usize),
    /// A client tries again to decide the transactions that it has held back.
    Release(usize),
    /// A client dies, and takes no further step.
    Die(usize),
    /// A document is deleted from outside.
    Delete(usize),
    /// A client of another tx database meets a lock.
    Stranger(usize),
    /// A write outside transactions gives a document what looks like a lock of this transaction.
    Forge(usize, usize),
    /// The date that a document had at the start is over from this step on.
    DateOver(usize),
    /// The TTL monitor finds a document in its index.
    MonitorFinds(usize),
    /// The TTL monitor removes a document that it has found, if the document is still expired.
    MonitorRemoves(usize),
}
