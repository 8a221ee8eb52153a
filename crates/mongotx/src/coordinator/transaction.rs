//! A transaction: how it begins, and what is known of it until it ends.
//!
//! 1. `begin` writes nothing ([`super::lifecycle`]); the number is allocated before the first
//!    prepared write (`ensure_started` there).
//! 2. Every document is noted in `held` *before* the command that may lock it is sent ([`held`]).
//! 3. It is committed (`crate::command::commit`), if what it has read stands ([`reads`]), or rolled
//!    back ([`end`]).
//!
//! Interrupted between 2 and 3, or a future dropped while a prepared write was under way: rolled
//! back, by the next call, by dropping the session, or by rivals when the lease ends.

mod ahead;
mod end;
pub(crate) mod forecast;
mod held;
mod reads;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};

use bson::oid::ObjectId;
use protocol::{Concern, TxId};

use self::held::HeldSet;
pub(crate) use self::{
    ahead::{ExpectedEvent, ValidationAhead},
    held::Hold,
};
use super::{
    log::txlog::Started,
    read_set::{ReadSet, seen_keys::SeenKeys},
    request::fields::Fields,
    server::live::{Doubt, Live},
    siblings::Claims,
    stamps::{
        begin_point::BeginPoint,
        quiet::{Heard, Quiet},
        retry_history::RetryHistory,
    },
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::{Isolation, Namespace, TransactionOptions},
};

/// A transaction from its beginning to its end: what it holds, has read, and has sent.
pub(crate) struct Transaction {
    pub(crate) options: TransactionOptions,
    isolation: Isolation,
    begun: Instant,
    pub(crate) started: Option<Started>,
    held: HashMap<Namespace, HeldSet>,
    count: usize,
    /// Number of documents that are its own until it ends.
    count_own: usize,
    /// Claims on documents that others of this client have to wait for; from the start on.
    pub(crate) claims: Option<Claims>,
    doubt: Doubt,
    /// True if the write at hand has changed documents, and that change is neither complete and
    /// checked nor taken back (decision 0084).
    is_half_done: bool,
    /// Number of connections for data that there were before the first prepared write, or when the
    /// server was last known to be the same.
    pub(crate) connections: u64,
    /// Fields that it has changed, by collections.
    touched: HashMap<Namespace, Fields>,
    /// A statement has answered from what the transaction itself has written.
    own_view: AtomicBool,
    /// Reads of the transaction, if they are to be validated.
    pub(crate) reads: ReadSet,
    /// `_id`s of documents that it has read, by their keys.
    pub(crate) seen: SeenKeys,
    /// Results of the attempts before this one.
    pub(crate) attempts: RetryHistory,
    /// The quiet that it has requested.
    pub(crate) quiet: Option<Quiet>,
    /// True if the statement at hand replaces documents as a whole.
    replacing: bool,
    /// Validation ahead of the commit, behind the last write.
    pub(crate) ahead: Option<ValidationAhead>,
    /// Event that is expected behind the last write.
    pub(crate) expected: Option<ExpectedEvent>,
    /// The moment at which it began, for reads that nothing has changed since.
    pub(crate) begin_point: Option<BeginPoint>,
    /// Longest wait for a rival while it holds documents itself, where that is shorter than the
    /// wait that the options allow: the rival may wait for this one.
    pub(crate) patience: Option<Duration>,
    /// True if its statements of many documents lock the first one before all others.
    pub(crate) goes_in_order: bool,
    /// True if its decision was sent: from then on only the log knows its outcome.
    pub(crate) is_deciding: bool,
}

impl Transaction {
    /// One that begins now, at `begin_point` if what it reads may be found unchanged.
    pub(super) fn new(
        isolation: Isolation,
        begin_point: Option<BeginPoint>,
        options: TransactionOptions,
        attempts: RetryHistory,
    ) -> Self {
        Self {
            begin_point,
            isolation,
            options,
            begun: Instant::now(),
            started: None,
            held: HashMap::new(),
            count: 0,
            count_own: 0,
            claims: None,
            doubt: Doubt::None,
            is_half_done: false,
            connections: 0,
            touched: HashMap::new(),
            own_view: AtomicBool::new(false),
            reads: ReadSet::default(),
            seen: SeenKeys::default(),
            attempts,
            quiet: None,
            replacing: false,
            ahead: None,
            expected: None,
            patience: None,
            goes_in_order: false,
            is_deciding: false,
        }
    }

    /// Longest wait of the next write for a rival.
    pub(crate) fn lock_wait(&self) -> Duration {
        match self.patience.filter(|_| self.has_written_anything()) {
            Some(patience) => self.options.lock_wait.min(patience),
            None => self.options.lock_wait,
        }
    }

    /// Returns true if it has held documents of this collection.
    pub(super) fn has_held_in(&self, ns: &Namespace) -> bool {
        self.held.contains_key(ns)
    }

    pub(crate) fn id(&self) -> Option<TxId> {
        self.started.map(|started| started.id)
    }

    /// Returns true if another transaction of this client waits for what it holds.
    pub(crate) fn is_wanted(&self) -> bool {
        self.claims.as_ref().is_some_and(Claims::is_wanted)
    }

    /// Returns true if no other transaction of this client runs that is able to lock documents.
    pub(crate) fn is_alone(&self) -> bool {
        self.claims.as_ref().is_some_and(Claims::are_alone)
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        self.isolation == Isolation::RepeatableRead
    }

    /// Returns true if what it reads is validated at the commit.
    pub(crate) fn validates(&self) -> bool {
        self.isolation.validates()
    }

    pub(crate) fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    /// Write concern of its decision. A transaction that only read has nothing to make durable, but
    /// its reads count only if its read locks were kept to the end: a record that still takes its
    /// decision shows that no rival was allowed to remove them.
    pub(crate) fn concern(&self) -> Concern {
        if self.has_written_anything() { self.options.concern } else { Concern::Acknowledged }
    }

    /// Returns true if it has requested quiet that has not ended.
    pub(crate) fn is_in_quiet(&self) -> bool {
        self.is_serializable() && self.quiet.as_ref().is_some_and(Quiet::stands)
    }

    /// Of what quiet it has heard, if this was over before its last validation.
    pub(crate) fn heard(&self, over: Option<ObjectId>) -> Heard {
        if !self.is_serializable() || self.stamps_of_reads().is_empty() {
            return Heard::Any;
        }
        let own = self.quiet.as_ref().and_then(Quiet::asked);
        Heard::These(over.into_iter().chain(own).collect())
    }

    /// Something is answered from what the transaction itself has written.
    pub(crate) fn note_own_view(&self) {
        self.own_view.store(true, SeqCst);
    }

    /// Returns true if something was answered from its own writes since the last
    /// [`Self::take_own_view`].
    pub(crate) fn has_own_view(&self) -> bool {
        self.own_view.load(SeqCst)
    }

    /// Returns true if it has answered from its own view since the last call.
    pub(crate) fn take_own_view(&mut self) -> bool {
        std::mem::take(self.own_view.get_mut())
    }

    /// The statement that begins replaces documents as a whole, or does not: change streams
    /// distinguish the two.
    pub(crate) fn note_replacing(&mut self, replacing: bool) {
        self.replacing = replacing;
    }

    /// Returns true if the write at hand has changed documents, and it is open whether that stands.
    pub(crate) fn is_half_done(&self) -> bool {
        self.is_half_done
    }

    /// Notes whether changes of the write at hand are open: not so once they are complete, or taken
    /// back.
    pub(crate) fn set_half_done(&mut self, is_half_done: bool) {
        self.is_half_done = is_half_done;
    }

    /// One write, which may be one of a statement of several, has come to its end. A refusal leaves
    /// the transaction as it was; any other error of a write that is half done ends it.
    pub(crate) fn end_write<T>(&mut self, done: Result<T>) -> Result<T> {
        let is_half_done = std::mem::take(&mut self.is_half_done);
        done.map_err(|error| if is_half_done && !error.is_clean() { error.ending() } else { error })
    }

    /// A statement has come to its end.
    pub(crate) fn end_statement(&mut self) {
        self.is_half_done = false;
        if self.doubt == Doubt::Statement {
            self.doubt = Doubt::None;
        }
    }

    /// Checks that the next statement, or the commit, may begin.
    pub(crate) fn check_undoubted(&self) -> Result<()> {
        if self.doubt == Doubt::Statement {
            let message = "an earlier statement of the transaction was interrupted when a part of it was done";
            return Err(Error::new(ErrorKind::Expired, message).for_transaction(self.id()));
        }
        self.check_alive()
    }

    /// Fails if the transaction must not go on.
    pub(crate) fn check_alive(&self) -> Result<()> {
        if self.doubt == Doubt::Message {
            let message = "an earlier write of the transaction was interrupted before its answer arrived";
            return Err(Error::new(ErrorKind::Expired, message).for_transaction(self.id()));
        }
        match self.options.max_life {
            Some(life) if self.begun.elapsed() > life => {
                let message = format!("the transaction has lived longer than its maximum of {life:?}");
                Err(Error::new(ErrorKind::Expired, message).for_transaction(self.id()))
            }
            _ => Ok(()),
        }
    }
}

impl Live for Transaction {
    fn id(&self) -> Option<TxId> {
        self.id()
    }

    fn sending(&mut self, ns: &Namespace, touches: &Fields) -> Doubt {
        match self.touched.get_mut(ns) {
            Some(touched) => *touched = touched.and(touches),
            None => drop(self.touched.insert(ns.clone(), touches.clone())),
        }
        self.forget_ahead();
        std::mem::replace(&mut self.doubt, Doubt::Message)
    }

    fn answered(&mut self, has_changed: bool) {
        self.doubt = Doubt::Statement;
        self.is_half_done |= has_changed;
    }

    fn answered_as_before(&mut self, before: Doubt) {
        self.doubt = before;
    }
}
