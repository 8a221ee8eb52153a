//! The one way in for decisions about the status of transactions.
//!
//! Two layouts implement it: [`crate::coordinator::decisions::client_record`] (the default) and
//! [`crate::coordinator::decisions::published`] (the baseline).

use bson::{Bson, Document, oid::ObjectId};
use futures_util::future::BoxFuture;
use protocol::{ClientId, Concern, Decided, TxId, TxStatus};

use crate::{
    coordinator::stamps::{
        changes::{Changes, RecordScan},
        closed_records::ClosedRecords,
        quiet::{Heard, Length},
        tag::{Tag, Tags},
    },
    error::Result,
    options::Namespace,
};

/// A transaction that may send its first prepared write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) id: TxId,
    /// The connection epoch before the first prepared write; see `protocol::recorder`.
    pub(crate) epoch: u64,
}

/// The outcome of a transaction, as [`crate::Client::outcome`] answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Not decided yet, and the client is alive: ask again.
    Active,
    /// Committed. The answer is durable.
    Committed,
    /// Not committed, and never will be: the transaction may be run again.
    RolledBack,
    /// No record is stored of it: it never existed, or it ended longer ago than outcomes are kept
    /// (30 minutes), or its client keeps its record in another database.
    Unknown,
}

/// A client's knowledge of one of its transactions, without asking the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// No rival can have fenced its record.
    Sound,
    /// Unknown: a rival may have fenced its record.
    Doubtful,
    /// The transaction cannot be committed any more.
    Lost,
}

/// The connection over which a record is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordConnection {
    /// Over any connection: for what others write to the record.
    Plain,
    /// Over the connection for record writes, which notices whether the server was replaced.
    AtServer,
}

/// State of the record and the connection at a barrier.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub(crate) epoch: u64,
    /// The client's record is fenced, durably.
    pub(crate) fenced: bool,
    /// The collections that the record lists. A fenced record takes no more of them, an open one
    /// may.
    pub(crate) namespaces: Vec<Namespace>,
}

impl Barrier {
    /// Returns true if the server was the same all the while since `earlier`, and the record
    /// fenced.
    pub(crate) fn follows(&self, earlier: &Self) -> bool {
        (self.epoch, self.fenced) == (earlier.epoch, earlier.fenced)
    }
}

/// The store of the transactions' outcomes.
pub(crate) trait TxLog: Send + Sync {
    /// A new transaction, able to write to `ns`. `lease_ms`: how long rivals leave it alone without
    /// a sign of life.
    fn start(&self, lease_ms: u64, ns: &Namespace) -> BoxFuture<'_, Result<Started>>;

    /// Before the first prepared write to a further collection.
    fn enlist<'a>(&'a self, id: TxId, ns: &'a Namespace) -> BoxFuture<'a, Result<()>>;

    /// Returns true if it is a live record of this client.
    fn owns(&self, client: ClientId) -> bool;

    /// Returns whether a transaction of this client can still be committed, as far as that is known
    /// without a command.
    fn standing(&self, started: Started) -> Standing;

    /// An error if the transaction cannot be committed any more: its record says so, or the server
    /// was replaced.
    fn vouch(&self, started: Started, connection: RecordConnection) -> BoxFuture<'_, Result<()>>;

    /// Decides. Every prepared write was acknowledged before. `changed`: the tags of the
    /// collections that it has written to. `None`: a reader has had quiet there that it has not
    /// heard of, and what it has read is to be validated again.
    fn commit(
        &self,
        started: Started,
        concern: Concern,
        changed: Vec<Tag>,
        heard: Heard,
    ) -> BoxFuture<'_, Result<Option<Decided>>>;

    /// Change stamps and requests for quiet in all clients' records, those excepted that are known
    /// to be closed.
    fn changes<'a>(&'a self, known: &'a ClosedRecords) -> BoxFuture<'a, Result<RecordScan>>;

    /// The command that reads them, with its database, for a caller that sends it together with
    /// others; [`super::records::scan_records`] reads its answer. `None`: there is no such command.
    fn ask_for_changes(&self, known: &ClosedRecords) -> Option<(&str, Document)>;

    /// The change stamps with these names that this client's own records have acknowledged.
    fn own_changes(&self, tags: &Tags) -> Changes;

    /// Sets quiet, in every open record, where these change stamps would be set.
    fn ask_for_quiet(&self, by: ObjectId, tags: Vec<Bson>, length: Length) -> BoxFuture<'_, Result<()>>;

    /// Ends the quiet of this name.
    fn end_quiet(&self, by: ObjectId) -> BoxFuture<'_, Result<()>>;

    /// The last quiet in the record of this transaction of which the client knows that it is over.
    fn heard_of(&self, id: TxId) -> Option<ObjectId>;

    /// Returns true if there is an open record of another client, or if that cannot be found out.
    fn others_are_there(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async { Ok(true) })
    }

    /// Says in the record for new transactions with this lease that this client may hold the read
    /// lease of this name, if it does not say so yet; one is made, for a collection, if there is
    /// none. False: it cannot be said.
    fn flag_reader<'a>(&'a self, _by: ObjectId, _lease_ms: u64, _ns: &'a Namespace) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    /// Returns true if there is no open record of another client, and that record still holds the
    /// flag. The read is sent after this call has begun, so that the lease counts from the time
    /// before it.
    fn is_sole_reader(&self, _by: ObjectId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    /// The client does not hold the read lease of this name any more.
    fn unflag_reader(&self, _by: ObjectId) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// The owner has rolled it back; its documents may still be locked.
    fn rolled_back(&self, id: TxId) -> BoxFuture<'_, Decided>;

    /// The connection epoch now; see `protocol::recorder`.
    fn epoch(&self) -> u64;

    /// The connection epoch; 0, which is no epoch of any connection, if the connection has not been
    /// answered: then it proves nothing about what is done meanwhile.
    fn answered_epoch(&self) -> u64 {
        self.epoch()
    }

    /// Notes that no document carries the transaction's locks any more. `epoch` is
    /// [`TxLog::answered_epoch`] before the first of them was finished.
    fn clean(&self, id: TxId, epoch: u64) -> BoxFuture<'_, ()>;

    /// Everything that was acknowledged before is durable when this returns, if the epoch that it
    /// answers is the one it answered before: between two equal answers the server was not
    /// replaced.
    fn barrier(&self, client: ClientId) -> BoxFuture<'_, Result<Barrier>>;

    /// The statuses of these transactions, each read after this call began. Clients whose lease has
    /// expired are fenced first, so that `Active` means alive. Any other status is durable: a
    /// server that is killed comes back with it.
    fn statuses<'a>(&'a self, ids: &'a [TxId]) -> BoxFuture<'a, Result<Vec<TxStatus>>>;

    /// Returns true if none of these transactions is decided, by a read that is sent after this
    /// call has begun and has no effect on others: it fences no client, makes nothing durable, and
    /// waits for no transaction. False: one is decided, or that cannot be found out.
    fn are_active<'a>(&'a self, ids: &'a [TxId]) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(self.statuses(ids).await?.iter().all(|status| *status == TxStatus::Active)) })
    }

    /// Returns true if another client has read durably, since the last call, the status of
    /// transactions of this client. If so, it has met documents that they have left locked.
    fn was_asked(&self) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    /// The durable truth about one transaction.
    fn outcome(&self, id: TxId) -> BoxFuture<'_, Result<Outcome>>;

    /// Rolls back one transaction of any client, if it is not decided.
    fn abort(&self, id: TxId) -> BoxFuture<'_, Result<Outcome>>;

    /// Waits until everything that the primary of the records has acknowledged so far satisfies a
    /// write concern. Returns the server's `writeConcernError` if it is not satisfied.
    fn await_concern(&self, concern: Document) -> BoxFuture<'_, Result<Option<Document>>>;

    /// Writes what is still to be written and says goodbye.
    fn close(&self) -> BoxFuture<'_, Result<()>>;
}
