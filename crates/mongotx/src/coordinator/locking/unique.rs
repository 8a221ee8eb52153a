//! Unique indexes between pending and committed values (decision 0006).
//!
//! The server keeps committed values apart from each other, and, in the mirrored index, pending
//! ones. A pending value is compared with the committed ones *after* it has been placed:
//!
//! 1. Place the value. If the mirrored index refuses it, the next step depends on the other value's
//!    transaction. This one: a duplicate. A decided one: repair it, try again. An active rival:
//!    wait, or a conflict.
//! 2. Find the other documents that have it in their safe versions. One that is locked by this
//!    transaction is about to change it and does not count. A clean one: a duplicate, and what was
//!    placed is taken back. A rival's: repair it, or wait for it, and read again.
//!
//! One read does 2 for all that a statement has placed, and for all indexes together, those with a
//! collation apart; only where a document is found, one read for each. A few inserts take it along
//! in the command that places them (`crate::command::writes::unique_inserts`), and so does each
//! statement of a command of several ([`key_questions::questions_behind`]).
//!
//! The other order would let a value in between the read and the placing.

pub(crate) mod key_questions;

use std::sync::Arc;

use bson::{Bson, Document, doc};
use protocol::{
    LockState, TxId, TxStatus,
    unique::{Claim, Holder, value_is_pending, value_is_safe},
};
use sd2v::{
    filter::rewrite_filter,
    index::Unique,
    names::{INSERT, REMOVE, UNSAFE, WRITER, tx_id_to_bson},
    statement,
    stored::{lock_state, strip},
    words::document_in_words,
};

use self::key_questions::{Question, questions};
use crate::{
    coordinator::{
        catalog::Catalog,
        finishing::{
            lock_wait::{Attempts, LockWait},
            repairs::Repairs,
        },
        request::{address::Address, fields::Fields, own_key::id_key, query_options::QueryOptions},
        server::Server,
        stored::lock_fields::locks_only,
        transaction::Transaction,
    },
    error::{DuplicateKey, Error, ErrorKind, Result},
    options::Namespace,
};

/// Retry limit for a check that keeps meeting rivals which have finished meanwhile, without waiting
/// in between.
const ROUNDS: usize = 256;
/// Documents of others that can have the keys of one document: more arrays are not looked at.
const MAX_RIVALS: usize = 10_000;
/// Documents whose keys one command checks.
const BATCH: usize = 1_000;

/// State of a document before this transaction's last write to it.
#[derive(Clone, Debug)]
pub(crate) enum PriorState {
    /// The document did not exist.
    Absent,
    /// Removed by this transaction itself.
    Removed,
    /// The document had its safe version.
    Safe,
    /// The document had this unsafe version.
    Unsafe(Document),
}

/// A document that was just placed, with the constraints that may be concerned.
pub(crate) struct PlacedDocument<'a> {
    pub(crate) ns: &'a Namespace,
    pub(crate) at: &'a Address,
    pub(crate) uniques: &'a [Unique],
    /// State of the document before the write.
    pub(crate) before: &'a PriorState,
    /// The whole of it, where that is known.
    pub(crate) inserted: Option<&'a Document>,
}

/// Keeps what transactions write apart from equal keys of unique indexes, pending or committed.
pub(crate) struct Uniqueness {
    server: Arc<Server>,
    catalog: Arc<Catalog>,
    repairs: Arc<Repairs>,
}

impl Uniqueness {
    pub(crate) fn new(server: Arc<Server>, catalog: Arc<Catalog>, repairs: Arc<Repairs>) -> Self {
        Self { server, catalog, repairs }
    }

    /// Step 1, after a refusal: `Ok` when the write may be tried again.
    pub(crate) async fn meet_pending_duplicate(
        &self,
        ns: &Namespace,
        uniques: &[Unique],
        refused: Error,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        let first_time = lock_wait.note_rival();
        let nothing = DuplicateKey::default();
        let key = refused.duplicate_key().unwrap_or(&nothing);
        let unique = uniques.iter().find(|unique| unique.key == key.pattern);
        let collation = unique.and_then(|unique| unique.collation.clone());
        // The server shows a collated key in a form that no query takes: then any rival may be the
        // one.
        let filter = match &collation {
            None => key
                .value
                .iter()
                .map(|(field, value)| (format!("{UNSAFE}.{field}"), doc! {"$eq": value}.into()))
                .collect(),
            Some(_) => Document::new(),
        };
        let there = doc! {UNSAFE: {"$exists": true}, WRITER: {"$exists": true}};
        let shard_key = self.catalog.shard_key(ns).await?;
        let locks = locks_only(&shard_key);
        let find = doc! {"find": &ns.coll, "filter": {"$and": [there, filter]}, "projection": locks};
        let holders = self.server.collect(&ns.db, find, MAX_RIVALS).await?;
        let mut mine = false;
        for holder in &holders {
            let (at, lock) = (Address::of(holder, &shard_key)?, lock_state(holder)?);
            match value_is_pending(self::holder(&lock, me)) {
                Claim::Free => continue,
                Claim::Duplicate => {
                    mine = true;
                    continue;
                }
                Claim::Conflict | Claim::Repair | Claim::FetchAgain => {}
            }
            let rival = self.repairs.clear_locks(ns, &at, &writer_only(&lock), Some(me)).await?;
            return match rival {
                None => Ok(()),
                Some(rival) => lock_wait.wait_for(&self.server, ns, &at.id, rival).await,
            };
        }
        // Under a collation this transaction's own documents prove nothing, unless it is refused
        // again.
        if mine && !(collation.is_some() && first_time) { Err(refused) } else { Ok(()) }
    }

    /// Step 2 for one document. A duplicate is taken back before it is answered.
    pub(crate) async fn check_placed(
        &self,
        tx: &mut Transaction,
        placed: &PlacedDocument<'_>,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        if placed.uniques.is_empty() {
            return Ok(());
        }
        // The check may wait for rivals, whose other changes a validation before it has not seen.
        tx.forget_ahead();
        let versions = match placed.inserted {
            Some(document) => Some((None, document.clone())),
            None => self.fetch_both(placed, me).await?,
        };
        let Some((safe, changed)) = versions else { return Ok(()) };
        let has_new_key = |unique: &&Unique| !safe.as_ref().is_some_and(|safe| unique.same_keys(safe, &changed));
        let uniques: Vec<&Unique> = placed.uniques.iter().filter(has_new_key).collect();
        if !self.may_have_rivals(placed.ns, &uniques, &[&changed], Some(placed.at), me).await? {
            return Ok(());
        }
        for unique in uniques {
            if !self.is_indexed(placed, unique).await? {
                continue;
            }
            let found = self.wait_until_unique(placed.ns, unique, placed.at, &changed, me, lock_wait).await?;
            if found.is_some() {
                self.put_back(tx, placed, me, lock_wait).await?;
                return Err(duplicate(placed.ns, unique, &changed).clean());
            }
        }
        Ok(())
    }

    /// Step 2 for documents that were just inserted, in their order: the place of the first
    /// duplicate.
    pub(crate) async fn first_duplicate(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        uniques: &[Unique],
        documents: &[&Document],
        me: TxId,
    ) -> Result<Option<usize>> {
        // As in `check_placed`: rivals that are asked about may have committed since.
        tx.forget_ahead();
        let uniques: Vec<&Unique> = uniques.iter().collect();
        for (at, batch) in documents.chunks(BATCH).enumerate() {
            if self.may_have_rivals(ns, &uniques, batch, None, me).await? {
                // Further reads, one by one, show which documents they are, and what to do.
                return Ok(Some(at * BATCH));
            }
        }
        Ok(None)
    }

    /// Returns true if another document than `own`, which this transaction does not hold, has a key
    /// of one of these in its safe version.
    async fn may_have_rivals(
        &self,
        ns: &Namespace,
        uniques: &[&Unique],
        documents: &[&Document],
        own: Option<&Address>,
        me: TxId,
    ) -> Result<bool> {
        let own = own.map(|own| id_key(&own.id));
        for question in questions(uniques, documents) {
            let found = self.rivals(ns, question).await?;
            if found.iter().any(|(at, lock)| lock.writer != Some(me) && own.as_ref() != Some(&id_key(&at.id))) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The safe and the unsafe version, as far as the constraints look at them. `None`: removed, or
    /// not held.
    async fn fetch_both(&self, placed: &PlacedDocument<'_>, me: TxId) -> Result<Option<(Option<Document>, Document)>> {
        let mut projection = doc! {INSERT: 1, REMOVE: 1, WRITER: 1};
        for field in placed.uniques.iter().flat_map(|unique| unique.fields()) {
            let head = field.split('.').next().unwrap_or(field);
            projection.insert(head, 1);
            projection.insert(format!("{UNSAFE}.{head}"), 1);
        }
        let mine = doc! {"$and": [placed.at.filter(), {WRITER: tx_id_to_bson(me)}]};
        let find = doc! {"find": &placed.ns.coll, "filter": mine, "projection": projection};
        let Some(mut stored) = self.server.find_first(placed.ns, find).await? else { return Ok(None) };
        let lock = lock_state(&stored)?;
        let Some(Bson::Document(changed)) = stored.remove(UNSAFE) else { return Ok(None) };
        strip(&mut stored);
        Ok(Some(((!lock.insert).then_some(stored), changed)))
    }

    /// Returns true if a partial index holds the unsafe version.
    async fn is_indexed(&self, placed: &PlacedDocument<'_>, unique: &Unique) -> Result<bool> {
        let Some(partial) = &unique.partial else { return Ok(true) };
        let filter = doc! {"$and": [placed.at.filter(), rewrite_filter(partial)?]};
        let find = doc! {"find": &placed.ns.coll, "filter": filter, "projection": {"_id": 1}};
        Ok(self.server.find_first(placed.ns, find).await?.is_some())
    }

    async fn rivals(&self, ns: &Namespace, asked: Question) -> Result<Vec<(Address, LockState)>> {
        let key = self.catalog.shard_key(ns).await?;
        let mut find = doc! {"find": &ns.coll, "filter": asked.condition, "projection": locks_only(&key)};
        let options = QueryOptions { collation: asked.collation, ..QueryOptions::default() };
        options.add_to(&mut find);
        let found = self.server.collect(&ns.db, find, MAX_RIVALS).await?;
        let parse = |stored: &Document| Ok((Address::of(stored, &key)?, lock_state(stored)?));
        found.iter().map(parse).collect()
    }

    /// Waits until no rival is in the way. Returns the `_id` of a committed document with the same
    /// key, if there is one.
    async fn wait_until_unique(
        &self,
        ns: &Namespace,
        unique: &Unique,
        at: &Address,
        document: &Document,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<Option<Bson>> {
        let Some(condition) = unique.rivals_of(document) else { return Ok(None) };
        let asked = Question { condition, collation: unique.collation.clone() };
        let own = id_key(&at.id);
        let mut attempts = Attempts::new(ROUNDS);
        while attempts.go_on(lock_wait) {
            let mut again = false;
            for (other, lock) in self.rivals(ns, asked.clone()).await? {
                if id_key(&other.id) == own {
                    continue;
                }
                match value_is_safe(holder(&lock, me)) {
                    Claim::Free => {}
                    Claim::Duplicate => return Ok(Some(other.id)),
                    Claim::Conflict | Claim::Repair | Claim::FetchAgain => {
                        again = true;
                        if let Some(rival) = self.repairs.clear_locks(ns, &other, &writer_only(&lock), Some(me)).await?
                        {
                            lock_wait.wait_for(&self.server, ns, &other.id, rival).await?;
                        }
                    }
                }
            }
            if !again {
                return Ok(None);
            }
        }
        let message = format!("documents of {ns} with the key of {{_id: {at}}} changed hands {ROUNDS} times");
        Err(Error::new(ErrorKind::Conflict, message).for_transaction(Some(me)))
    }

    /// A refused statement is taken back. Then its refusal is [`Error::clean`].
    pub(crate) async fn put_back(
        &self,
        tx: &mut Transaction,
        placed: &PlacedDocument<'_>,
        me: TxId,
        lock_wait: &mut LockWait,
    ) -> Result<()> {
        self.take_back(tx, placed, me).await?;
        self.check_taken_back(placed, me, lock_wait).await
    }

    /// Takes the write back: the document becomes what it was before. If one of its values was
    /// taken meanwhile, the transaction ends.
    async fn take_back(&self, tx: &mut Transaction, placed: &PlacedDocument<'_>, me: TxId) -> Result<()> {
        let (ns, who) = (placed.ns, placed.at.filter());
        let statement = match placed.before {
            PriorState::Absent => {
                return self.server.take_back_inserts(tx, ns, std::slice::from_ref(placed.at)).await;
            }
            PriorState::Removed => statement::mark_removed(who, me, false),
            PriorState::Safe => statement::restore_safe(who, me),
            PriorState::Unsafe(before) => statement::restore_unsafe(who, before, me),
        };
        let command = doc! {"update": &ns.coll, "updates": [statement]};
        let restored = self.server.send_prepared(tx, ns, command, &Fields::All).await?.ok();
        restored.map(drop).map_err(|error| {
            let message = format!("what {{_id: {}}} of {ns} was before a duplicate key is taken: {error}", placed.at);
            Error::new(ErrorKind::Conflict, message).for_transaction(Some(me))
        })
    }

    /// Checks an unsafe version that was put back as if it were placed: other transactions may have
    /// taken its values, and committed them, since it was changed. (A safe version's values never
    /// left the index.)
    async fn check_taken_back(&self, placed: &PlacedDocument<'_>, me: TxId, lock_wait: &mut LockWait) -> Result<()> {
        let PriorState::Unsafe(before) = placed.before else { return Ok(()) };
        for unique in placed.uniques {
            if !self.is_indexed(placed, unique).await? {
                continue;
            }
            if let Some(other) = self.wait_until_unique(placed.ns, unique, placed.at, before, me, lock_wait).await? {
                let message = format!("{{_id: {other}}} of {} has taken a key of {{_id: {}}}", placed.ns, placed.at);
                return Err(Error::new(ErrorKind::Conflict, message).for_transaction(Some(me)));
            }
        }
        Ok(())
    }

    /// State of a document before this transaction writes to it again; read only where the write
    /// may have to be taken back.
    pub(crate) async fn before(&self, tx: &Transaction, ns: &Namespace, at: &Address) -> Result<PriorState> {
        let (Some(me), true) = (tx.id(), tx.may_hold(ns, &at.id)) else { return Ok(PriorState::Safe) };
        let mine = doc! {"$and": [at.filter(), {WRITER: tx_id_to_bson(me)}]};
        let find = doc! {"find": &ns.coll, "filter": mine, "projection": {UNSAFE: 1}};
        let stored = self.server.find_first(ns, find).await?;
        Ok(match stored.and_then(|mut stored| stored.remove(UNSAFE)) {
            Some(Bson::Document(before)) => PriorState::Unsafe(before),
            _ => PriorState::Safe,
        })
    }
}

/// The holder of the lock. A rival's status is read when its lock is cleared.
fn holder(lock: &LockState, me: TxId) -> Holder {
    Holder::of(lock.writer, me, |_| TxStatus::Active)
}

fn writer_only(lock: &LockState) -> LockState {
    LockState { readers: Vec::new(), ..lock.clone() }
}

/// In the server's words, which programs read for want of fields.
fn duplicate(ns: &Namespace, unique: &Unique, document: &Document) -> Error {
    let value = unique.key_value(document);
    let shown = document_in_words(&value);
    let message = format!("E11000 duplicate key error collection: {ns} index: {} dup key: {shown}", unique.name);
    let key = DuplicateKey { pattern: unique.key.clone(), value, pending: false };
    Error::invalid(11000, message).with_duplicate_key(Some(key))
}
