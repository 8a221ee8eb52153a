//! A transaction: begin, what it holds, commit, roll back.
//!
//! 1. `begin` writes nothing; the number is allocated before the first prepared write ([`Core::ensure_started`]).
//! 2. Every document is noted in `held` *before* the command that may lock it is sent; where only the answer tells which one it is, that
//!    there may be one that is not known ([`Transaction::hold_unknown`]).
//! 3. `commit` validates what was read ([`crate::command::validation`]), looks after what may expire ([`super::expiry`]), decides through the log, then hands what is held to the finisher.
//! 4. `roll_back` undoes what is held, then tells the log.
//!
//! Interrupted between 2 and 3, or a future dropped while a prepared write was under way: rolled back, by the next call,
//! by dropping the session, or by rivals when the lease ends.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Instant,
};

use bson::{Bson, doc, oid::ObjectId};
use protocol::{Concern, Decided, TxId};
use sd2v::{shard, statement::OwnReadLock, stored::check_id};
use tracing::instrument::{Instrument, WithSubscriber};

use super::{
    Core,
    address::Address,
    changes::stamps_of_changes,
    finisher::{Held, Job},
    own_key::{OwnKey, id_key},
    quiet::{Attempts, Heard, Quiet},
    read_set::ReadSet,
    siblings::{Claims, Left},
    txlog::Started,
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::{Isolation, Layout, Namespace, TransactionOptions},
};

/// Times that a transaction is validated because readers have had quiet in between.
const VALIDATIONS: usize = 16;

/// The documents of one collection, by the bytes of their `_id`s.
#[derive(Default)]
pub(crate) struct HeldSet {
    pub(crate) written: HashMap<Vec<u8>, Address>,
    /// Those that it may have read-locked.
    pub(crate) read: HashMap<Vec<u8>, Address>,
    /// Of the written ones: those that are known to be locked, and not removed.
    locked: HashSet<Vec<u8>>,
    /// Those of them that the server has said are read-locked: what is read under these locks must not change.
    kept: HashSet<Vec<u8>>,
    /// Of the written ones: those that are known to be this transaction's until it ends, in the order in which they became so.
    own: HashMap<OwnKey, usize>,
    pub(crate) inserts: bool,
    pub(crate) removes: bool,
    /// A command is under way, or was never answered, that may have locked a document which only its answer names.
    unknown: bool,
    /// Some of the written ones may have been given other keys of unique indexes.
    rekeyed: bool,
}

pub(crate) struct Transaction {
    pub(crate) options: TransactionOptions,
    isolation: Isolation,
    begun: Instant,
    pub(crate) started: Option<Started>,
    held: HashMap<Namespace, HeldSet>,
    count: usize,
    /// What others of this client have to wait for; from the start on.
    pub(crate) claims: Option<Claims>,
    doubt: Doubt,
    /// How many connections for data there were before the first prepared write, or when the server was last known to be the same.
    pub(crate) connections: u64,
    /// A statement has answered from what the transaction itself has written.
    own_view: AtomicBool,
    /// What it has read, if that is to be validated.
    pub(crate) reads: ReadSet,
    /// How those before it have ended.
    pub(crate) attempts: Attempts,
    /// The quiet that it has asked for.
    pub(crate) quiet: Option<Quiet>,
    /// Its decision was sent: what became of it only the log knows.
    is_deciding: bool,
}

/// What is not known of a transaction, should the future of a statement be dropped now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// Nothing is not known: every statement so far has come to its end.
    None,
    /// A statement has changed documents and has not come to its end: half of it may be done, or done and not checked.
    Statement,
    /// A prepared write is under way, or its answer was lost: it may still arrive.
    Message,
}

/// Does no other `_id` name the same document? A number equals numbers of other types, a string those that a collation
/// makes equal.
fn is_equal_only_to_itself(id: &Bson) -> bool {
    matches!(id, Bson::ObjectId(_) | Bson::Binary(_) | Bson::Boolean(_) | Bson::DateTime(_) | Bson::Timestamp(_))
}

impl Transaction {
    pub(crate) fn begin(core: &Core, options: TransactionOptions, attempts: Attempts) -> Self {
        Self {
            isolation: core.isolation(&options),
            options,
            begun: Instant::now(),
            started: None,
            held: HashMap::new(),
            count: 0,
            claims: None,
            doubt: Doubt::None,
            connections: 0,
            own_view: AtomicBool::new(false),
            reads: ReadSet::default(),
            attempts,
            quiet: None,
            is_deciding: false,
        }
    }

    pub(crate) fn id(&self) -> Option<TxId> {
        self.started.map(|started| started.id)
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        self.isolation == Isolation::RepeatableRead
    }

    /// Is what it reads validated at the commit?
    pub(crate) fn validates(&self) -> bool {
        self.isolation.validates()
    }

    pub(crate) fn is_serializable(&self) -> bool {
        self.isolation == Isolation::Serializable
    }

    /// Has it written to this collection?
    pub(crate) fn has_written(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_some_and(|held| !held.written.is_empty())
    }

    pub(crate) fn may_hold(&self, ns: &Namespace, id: &Bson) -> bool {
        self.held.get(ns).is_some_and(|held| held.written.contains_key(&id_key(id)))
    }

    pub(crate) fn has_read_locks(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_some_and(|held| !held.read.is_empty())
    }

    pub(crate) fn read_lock(&self, ns: &Namespace, id: &Bson) -> OwnReadLock {
        let Some(held) = self.held.get(ns).filter(|held| !held.read.is_empty()) else { return OwnReadLock::None };
        let key = id_key(id);
        match held.read.contains_key(&key) {
            true if held.kept.contains(&key) => OwnReadLock::Kept,
            false if is_equal_only_to_itself(id) => OwnReadLock::None,
            _ => OwnReadLock::Unsure,
        }
    }

    /// The server has said that these documents are read-locked by this transaction.
    pub(crate) fn keep_read_locks<'a>(&mut self, ns: &Namespace, at: impl IntoIterator<Item = &'a Address>) {
        let kept = &mut self.held.entry(ns.clone()).or_default().kept;
        kept.extend(at.into_iter().map(|at| id_key(&at.id)));
    }

    /// Where a document is that it holds already.
    pub(crate) fn address_of(&self, ns: &Namespace, id: &Bson) -> Option<&Address> {
        let (held, key) = (self.held.get(ns)?, id_key(id));
        held.written.get(&key).or_else(|| held.read.get(&key))
    }

    /// Notes documents that the next command may lock, unless they are too many, or no server would store them.
    pub(crate) fn hold(&mut self, core: &Core, ns: &Namespace, at: &[Address], what: Hold) -> Result<()> {
        if what == Hold::Insert {
            at.iter().try_for_each(|at| check_id(&at.id))?;
        }
        let held = self.held.entry(ns.clone()).or_default();
        match what {
            Hold::Insert => held.inserts = true,
            Hold::Remove => held.removes = true,
            Hold::Change | Hold::Read => {}
        }
        for at in at {
            let others = [&mut held.written, &mut held.read].into_iter();
            for other in others.filter_map(|set| set.get_mut(&id_key(&at.id))) {
                learn(ns, other, at)?;
            }
        }
        let set = if what == Hold::Read { &mut held.read } else { &mut held.written };
        let new: HashMap<Vec<u8>, &Address> =
            at.iter().map(|at| (id_key(&at.id), at)).filter(|(key, _)| !set.contains_key(key)).collect();
        let new: Vec<(Vec<u8>, Address)> = new.into_iter().map(|(key, at)| (key, at.clone())).collect();
        self.check_room(core, new.len())?;
        self.count += new.len();
        let Some(held) = self.held.get_mut(ns) else { return Ok(()) };
        let set = if what == Hold::Read { &mut held.read } else { &mut held.written };
        set.extend(new);
        Ok(())
    }

    /// The next command may lock a document that only its answer names. Until [`Self::hold_found`] the transaction can only be rolled
    /// back, and whatever it holds in this collection is looked for by its id.
    pub(crate) fn hold_unknown(&mut self, core: &Core, ns: &Namespace) -> Result<()> {
        self.check_room(core, 1)?;
        self.held.entry(ns.clone()).or_default().unknown = true;
        Ok(())
    }

    /// That command was answered: it has locked this document, or none.
    pub(crate) fn hold_found(
        &mut self,
        core: &Core,
        ns: &Namespace,
        found: Option<&Address>,
        what: Hold,
    ) -> Result<()> {
        if let Some(at) = found {
            self.hold(core, ns, std::slice::from_ref(at), what)?;
        }
        self.held.entry(ns.clone()).or_default().unknown = false;
        Ok(())
    }

    fn check_room(&self, core: &Core, more: usize) -> Result<()> {
        if self.count + more <= core.options.max_documents {
            return Ok(());
        }
        let message = format!("a transaction may hold at most {} documents", core.options.max_documents);
        Err(Error::invalid(290, message).for_transaction(self.id()))
    }

    /// Documents of this collection are about to be given other keys of unique indexes.
    pub(crate) fn note_rekeyed(&mut self, ns: &Namespace) {
        self.held.entry(ns.clone()).or_default().rekeyed = true;
    }

    /// Is all that it has written to in this collection removed?
    pub(crate) fn only_removed(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_none_or(|held| !held.inserts && held.locked.is_empty())
    }

    /// May a document that it has written to have a key of a unique index that it had not before?
    pub(crate) fn has_new_keys(&self, ns: &Namespace) -> bool {
        self.held.get(ns).is_some_and(|held| held.inserts || held.rekeyed)
    }

    /// Documents that were held are locked now, to be changed or to be removed.
    pub(crate) fn note_locked(&mut self, ns: &Namespace, at: &[Address], removes: bool) {
        let Some(held) = self.held.get_mut(ns) else { return };
        for key in at.iter().map(|at| id_key(&at.id)) {
            if removes {
                held.locked.remove(&key);
            } else {
                held.locked.insert(key);
            }
        }
        self.note_own(ns, at.iter().map(|at| &at.id));
    }

    /// These documents are this transaction's until it ends: locked, or inserted, by commands that were answered.
    pub(crate) fn note_own<'a>(&mut self, ns: &Namespace, ids: impl IntoIterator<Item = &'a Bson>) {
        let Some(held) = self.held.get_mut(ns) else { return };
        for id in ids {
            let next = held.own.len();
            held.own.entry(OwnKey::of(id)).or_insert(next);
        }
    }

    /// How many documents of this collection are its own.
    pub(crate) fn count_own(&self, ns: &Namespace) -> usize {
        self.held.get(ns).map_or(0, |held| held.own.len())
    }

    /// Was this document among the first `count` that became its own?
    pub(crate) fn was_own(&self, ns: &Namespace, id: &Bson, count: usize) -> bool {
        count > 0
            && self.held.get(ns).and_then(|held| held.own.get(&OwnKey::of(id))).is_some_and(|place| *place < count)
    }

    /// Is this document its own?
    pub(crate) fn is_own(&self, ns: &Namespace, id: &Bson) -> bool {
        self.was_own(ns, id, usize::MAX)
    }

    /// The `_id`s of its own documents of this collection.
    pub(crate) fn own_ids(&self, ns: &Namespace) -> Vec<Bson> {
        let Some(held) = self.held.get(ns) else { return Vec::new() };
        held.written.values().filter(|at| held.own.contains_key(&OwnKey::of(&at.id))).map(|at| at.id.clone()).collect()
    }

    fn has_written_anything(&self) -> bool {
        self.held.values().any(|held| !held.written.is_empty())
    }

    /// What its decision waits for. A transaction that only read has nothing to make durable, but what it read counts only if its read
    /// locks were kept to the end: a record that still takes its decision shows that nobody was allowed to remove them.
    fn concern(&self) -> Concern {
        if self.has_written_anything() { self.options.concern } else { Concern::Acknowledged }
    }

    /// Has it asked for quiet that has not ended?
    pub(crate) fn is_in_quiet(&self) -> bool {
        self.is_serializable() && self.quiet.as_ref().is_some_and(Quiet::stands)
    }

    /// Of what quiet it has heard, if this was over before its last validation.
    fn heard(&self, over: Option<ObjectId>) -> Heard {
        if !self.is_serializable() || self.stamps_of_reads().is_empty() {
            return Heard::Any;
        }
        let own = self.quiet.as_ref().and_then(Quiet::asked);
        Heard::These(over.into_iter().chain(own).collect())
    }

    /// The change stamps that its decision sets.
    fn changed(&self) -> Vec<String> {
        let stamps = self.held.iter().filter(|(_, held)| !held.written.is_empty()).flat_map(|(ns, held)| {
            let documents: Option<Vec<OwnKey>> = held.written.values().map(|at| OwnKey::of_simple(&at.id)).collect();
            stamps_of_changes(ns, documents.as_deref())
        });
        stamps.collect()
    }

    /// The collections with documents that must be there.
    pub(super) fn namespaces_locked(&self) -> Vec<Namespace> {
        let locked = self.held.iter().filter(|(_, held)| !held.locked.is_empty());
        locked.map(|(ns, _)| ns.clone()).collect()
    }

    /// These documents.
    pub(super) fn locked(&self, ns: &Namespace) -> Vec<Address> {
        let Some(held) = self.held.get(ns) else { return Vec::new() };
        held.locked.iter().filter_map(|key| held.written.get(key).cloned()).collect()
    }

    /// Some of what it holds there may have no safe version.
    pub(super) fn may_insert(&mut self, ns: &Namespace) {
        if let Some(held) = self.held.get_mut(ns) {
            held.inserts = true;
        }
    }

    /// A prepared write is about to be sent. Answers what was not known before.
    pub(crate) fn sending(&mut self) -> Doubt {
        std::mem::replace(&mut self.doubt, Doubt::Message)
    }

    /// It was answered.
    pub(crate) fn answered(&mut self) {
        self.doubt = Doubt::Statement;
    }

    /// It was answered, and has changed nothing that its statement must come to its end for.
    pub(crate) fn answered_as_before(&mut self, before: Doubt) {
        self.doubt = before;
    }

    /// Something is answered from what the transaction itself has written.
    pub(crate) fn note_own_view(&self) {
        self.own_view.store(true, SeqCst);
    }

    /// Was it, since this was last asked?
    pub(crate) fn take_own_view(&mut self) -> bool {
        std::mem::take(self.own_view.get_mut())
    }

    /// A statement has come to its end.
    pub(crate) fn end_statement(&mut self) {
        if self.doubt == Doubt::Statement {
            self.doubt = Doubt::None;
        }
    }

    /// May the next statement begin, or the commit?
    pub(crate) fn check_undoubted(&self) -> Result<()> {
        if self.doubt == Doubt::Statement {
            let message = "an earlier statement of the transaction was interrupted when a part of it was done";
            return Err(Error::new(ErrorKind::Expired, message).for_transaction(self.id()));
        }
        self.check_alive()
    }

    /// May it go on?
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

    /// What it holds will be free within moments.
    fn ending(&self) {
        if let Some(claims) = &self.claims {
            claims.ending();
        }
    }

    /// What is left to do, once it is decided.
    fn into_job(self, id: Decided, committed: bool) -> Job {
        self.ending();
        let held = self.held.into_iter().map(|(ns, set)| {
            let unknown = set.unknown.then(Address::any_held);
            let held = Held {
                own: set.own.len(),
                written: set.written.into_values().chain(unknown).collect(),
                read: set.read.into_values().collect(),
                inserts: set.inserts,
                removes: set.removes,
            };
            (ns, held)
        });
        Job { id, committed, held: held.collect(), claims: self.claims }
    }
}

/// The same `_id` is to be held again: its shard key may have become known.
fn learn(ns: &Namespace, held: &mut Address, at: &Address) -> Result<()> {
    if held.key().is_empty() {
        *held = at.clone();
    }
    if at.key().is_empty() || shard::same(held.key(), at.key()) {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "a transaction cannot write two documents of {ns} with the _id {at} and different shard keys: {} and {}",
        held.key(),
        at.key()
    )))
}

/// How a document is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Insert,
    Change,
    Remove,
    Read,
}

impl Core {
    /// The transaction's id, able to lock documents of `ns`.
    pub(crate) async fn ensure_started(&self, tx: &mut Transaction, ns: &Namespace) -> Result<TxId> {
        tx.check_alive()?;
        // It may have to wait for those who are kept from deciding.
        self.end_quiet(tx).await;
        match tx.started {
            Some(started) => {
                if !tx.held.contains_key(ns) {
                    self.log.enlist(started.id, ns).await?;
                }
                Ok(started.id)
            }
            None => {
                let lease = tx.options.lease.unwrap_or(self.options.lease);
                let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX).max(100);
                let connections = self.server.connections();
                let started = self.log.start(lease_ms, ns).await?;
                tx.connections = connections;
                tracing::trace!(transaction = %started.id, "started");
                tx.started = Some(started);
                tx.claims = Some(Claims::new(&self.siblings, started.id));
                Ok(started.id)
            }
        }
    }

    /// Step 3, to its end even if the caller's future is dropped: what is decided must be finished.
    pub(crate) async fn commit(self: &Arc<Self>, tx: Transaction) -> Result<()> {
        let (this, id) = (Arc::clone(self), tx.id());
        tokio::spawn(async move { this.decide(tx).await }.in_current_span().with_current_subscriber())
            .await
            .unwrap_or_else(|stopped| {
                let message = format!("the commit was stopped with its runtime: {stopped}");
                Err(Error::new(ErrorKind::Indeterminate, message).for_transaction(id))
            })
    }

    #[tracing::instrument(name = "mongotx.commit", level = "debug", skip_all, fields(transaction = tx.id().map(tracing::field::display)))]
    async fn decide(&self, mut tx: Transaction) -> Result<()> {
        let counters = &self.server.counters;
        if let Err(error) = tx.check_undoubted() {
            self.roll_back(tx).await;
            counters.add(&counters.aborts_expired, 1);
            return Err(error);
        }
        let id = tx.id();
        match self.validate_and_decide(&mut tx).await {
            Ok(None) => {
                counters.add(&counters.commits, 1);
                Ok(())
            }
            Ok(Some(decided)) => {
                counters.add(&counters.commits, 1);
                let concern = tx.concern();
                self.finish(tx, decided).await;
                self.spread(concern).await.map_err(|error| error.for_transaction(id))
            }
            Err(error) if error.kind() == ErrorKind::Indeterminate && tx.is_deciding => {
                counters.add(&counters.indeterminate, 1);
                Err(error.for_transaction(id))
            }
            Err(error) => {
                self.count_abort(&error);
                self.roll_back(tx).await;
                Err(error.for_transaction(id))
            }
        }
    }

    /// Validates the transaction and decides it; again, when a reader has had quiet in between. `None`: there was nothing to decide.
    async fn validate_and_decide(&self, tx: &mut Transaction) -> Result<Option<Decided>> {
        for _ in 0..VALIDATIONS {
            let over = self.heard_of(tx);
            self.validate(tx).await?;
            self.end_quiet(tx).await;
            let Some(started) = tx.started else { return Ok(None) };
            self.outlive(tx).await?;
            if tx.has_written_anything() {
                self.finisher.room(self.options.commit_timeout).await?;
            }
            tx.ending();
            tx.is_deciding = true;
            let decided = self.log.commit(started, tx.concern(), tx.changed(), tx.heard(over)).await?;
            if decided.is_some() {
                return Ok(decided);
            }
            tx.is_deciding = false;
            tx.check_alive()?;
        }
        let message = format!("{VALIDATIONS} times readers have passed the transaction by after it was validated");
        Err(Error::new(ErrorKind::Conflict, message))
    }

    /// As long as the read locks of a transaction that only read are there, nobody else can tell that it has ended: the
    /// answer waits for that.
    async fn finish(&self, tx: Transaction, decided: Decided) {
        let wrote = tx.has_written_anything();
        let job = tx.into_job(decided, true);
        if !wrote {
            return self.finisher.run_now(job, false).await;
        }
        if self.options.layout == Layout::Published {
            // As published: each document by itself, before the answer.
            self.finisher.run_now(job, true).await;
        } else {
            self.hand_over(job);
        }
    }

    /// From now on others may take over what the transaction holds, unless it is to go.
    fn hand_over(&self, job: Job) {
        let claims = job.claims.clone();
        let removes = |(ns, held): &(Namespace, Held)| held.removes.then(|| ns.clone());
        let kept: HashSet<Namespace> = job.held.iter().filter_map(removes).collect();
        let id = job.id.id();
        self.finisher.hand_over(job);
        if let Some(claims) = claims
            && claims.leave(|ns| kept.contains(ns)) == Left::Wanted
        {
            self.finisher.ask(id);
        }
    }

    /// Step 4, waiting until the documents are free again (or handed to the finisher when the server is away).
    #[tracing::instrument(name = "mongotx.rollback", level = "debug", skip_all, fields(transaction = tx.id().map(tracing::field::display)))]
    pub(crate) async fn roll_back(&self, tx: Transaction) {
        if let Some(id) = tx.id() {
            tx.ending();
            let decided = self.log.rolled_back(id).await;
            self.finisher.run_now(tx.into_job(decided, false), false).await;
        }
    }

    async fn hand_over_undone(&self, tx: Transaction) {
        if let Some(id) = tx.id() {
            tx.ending();
            let decided = self.log.rolled_back(id).await;
            self.finisher.hand_over(tx.into_job(decided, false));
        }
    }

    pub(crate) fn count_abort(&self, error: &Error) {
        let counters = &self.server.counters;
        let counter = match error.kind() {
            ErrorKind::Conflict => &counters.aborts_conflict,
            ErrorKind::Expired => &counters.aborts_expired,
            _ => &counters.aborts_unavailable,
        };
        counters.add(counter, 1);
    }

    /// What was decided is on the majority. Waits for more members than that, where they were asked for.
    async fn spread(&self, concern: Concern) -> Result<()> {
        let Concern::Nodes(n) = concern else { return Ok(()) };
        if n < 2 {
            return Ok(());
        }
        let limit = i64::try_from(self.options.commit_timeout.as_millis()).unwrap_or(i64::MAX);
        let wanted = doc! {"w": i64::from(n), "j": true, "wtimeout": limit};
        let missed = self.records().await_concern(&self.server, wanted).await.map_err(Error::or_indeterminate)?;
        let Some(missed) = missed else { return Ok(()) };
        let reason = missed.get_str("errmsg").unwrap_or("the server gave no reason");
        let message = format!("the transaction is committed, but {n} members do not all have it yet: {reason}");
        Err(Error::new(ErrorKind::Indeterminate, message))
    }

    /// What a transaction with these options is protected from.
    pub(crate) fn isolation(&self, options: &TransactionOptions) -> Isolation {
        options.isolation.unwrap_or(self.options.isolation)
    }

    /// Options that this server can honour.
    pub(crate) fn check_options(&self, options: &TransactionOptions) -> Result<()> {
        let level = self.isolation(options);
        if level.validates() && self.options.layout == Layout::Published {
            return Err(Error::unsupported(format!(
                "isolation {level:?} validates what was read by change stamps, which the published layout does not keep"
            )));
        }
        if level.validates() && self.catalog.shards.are_routed() {
            return Err(Error::unsupported(format!(
                "isolation {level:?} is not supported behind a router (mongos): what its shards answer is of no one moment that could \
                 be validated. Read committed and repeatable read are"
            )));
        }
        match options.concern {
            // Documents are finished on the strength of a decision: it must not get lost.
            Concern::Acknowledged => Err(Error::invalid(
                2,
                "a commit waits for the journal at least: write concern j: false is not supported",
            )),
            Concern::Nodes(n) if n == 0 || (n > 1 && !self.server.nodes.are_several()) => {
                Err(Error::invalid(2, format!("write concern w: {n} cannot be satisfied by this deployment")))
            }
            _ => Ok(()),
        }
    }
}

/// A transaction dropped without commit is rolled back in the background, on the client's own runtime: whoever drops it may
/// be where none runs.
pub(crate) fn abandon(core: &Arc<Core>, tx: Transaction) {
    if tx.id().is_some() {
        let this = Arc::clone(core);
        core.runtime.spawn(async move { this.hand_over_undone(tx).await });
    }
}
