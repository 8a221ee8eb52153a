//! Prepared writes of many documents: locked and changed by one command, or locked by one and
//! changed by a second, in the order in which they were selected.
//!
//! Before all that, the documents of a batch are claimed among the transactions of this client.
//!
//! 0. Where one statement can lock a document and change it, the same statement does so for all of
//!    a batch. If not all of the batch is changed, a read finds out which documents are; the others
//!    go on with 1.
//! 1. Lock and copy whatever is clean and still matches, of a batch; if it is to be removed, lock
//!    and mark it, and that is all.
//! 2. If not all of the batch is locked now, a read finds out which documents are. The others take
//!    the way of single documents, which finds out why.
//! 3. Change the locked ones, a statement each, so that a statement that the server refuses stops
//!    exactly where it would without MongoTx.

use std::{
    collections::{BTreeMap, HashSet, btree_map::Entry},
    iter,
};

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use protocol::TxId;
use sd2v::{
    filter::{LockCondition, guard_filter, has_special, is_only_id, lock_condition, rewrite_filter, sees_lock_fields},
    statement::{self, OwnReadLock},
    update::{fuse, rewrite_update},
};

use super::{
    Locking,
    change::Change,
    target::{Target, update_of},
};
use crate::{
    coordinator::{
        finishing::lock_wait::LockWait,
        request::{
            address::{Address, among},
            fields::Fields,
            own_key::{OwnKey, id_key},
            query_options::QueryOptions,
        },
        siblings::{Claim, Claims},
        transaction::{Hold, Transaction},
    },
    error::Result,
    options::Namespace,
};

/// Documents and bytes of statements in one command.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Limit of documents that one statement claims: for more the server alone decides.
const MOST_CLAIMED: usize = 100_000;

/// Claims on documents of a batch that are not known to be locked yet, by the keys of their `_id`s.
#[derive(Default)]
struct BatchClaims<'c>(BTreeMap<Vec<u8>, Claim<'c>>);

impl BatchClaims<'_> {
    /// Committed transactions of this client that may still be found on the documents.
    fn left(&self) -> Vec<TxId> {
        HashSet::<TxId>::from_iter(self.0.values().filter_map(Claim::left)).into_iter().collect()
    }

    /// Notes that the server has given the transaction these documents.
    fn keep(&mut self, locked: &[Address]) {
        for at in locked {
            if let Some(claim) = self.0.remove(&id_key(&at.id)) {
                claim.keep();
            }
        }
    }
}

/// Result of a prepared write of many documents.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MultiWriteResult {
    pub(crate) matched: u64,
    pub(crate) modified: u64,
}

/// The documents, and the conditions under which they are to be changed.
pub(crate) struct Targets<'a> {
    pub(crate) ns: &'a Namespace,
    pub(crate) at: &'a [Address],
    pub(crate) filter: &'a Document,
    pub(crate) options: &'a QueryOptions,
}

impl<'a> Targets<'a> {
    fn one(&self, at: &'a Address) -> Target<'a> {
        Target { ns: self.ns, at, filter: self.filter, options: self.options, chosen: false }
    }
}

impl Locking {
    /// Locks and changes these documents inside a transaction, as far as they match.
    #[tracing::instrument(name = "mongotx.prepare_many", level = "debug", skip_all, fields(ns = %targets.ns, documents = targets.at.len()))]
    pub(crate) async fn prepare_multi(
        &self,
        tx: &mut Transaction,
        targets: &Targets<'_>,
        change: &Change<'_>,
    ) -> Result<MultiWriteResult> {
        let mut done = MultiWriteResult::default();
        let checked = match change {
            Change::Update { update, .. } => {
                let key = self.catalog.shard_key(targets.ns).await?;
                let collection = self.catalog.look_up(targets.ns).await?;
                let placed = collection.needs_transaction(Some(update)) || collection.words_touched(update);
                placed || targets.at.iter().any(|at| key.may_be_changed(update, at.key()))
            }
            Change::Remove => false,
        };
        // Changes that may have to be taken back are made one by one, as the server does: values of
        // unique indexes, shard keys, words. Strings that a collation calls equal need a statement
        // of their own each.
        if targets.at.len() < 3 || checked || targets.options.collation.is_some() {
            for at in targets.at {
                self.prepare_single(tx, targets, at, change, &mut done).await?;
            }
            return Ok(done);
        }
        let me = self.lifecycle.ensure_started(tx, targets.ns).await?;
        self.catalog.admit_writes(targets.ns, me).await?;
        let size = match change {
            Change::Update { update, .. } => {
                rewrite_update(update)?.to_string().len() + targets.filter.to_string().len() + 200
            }
            Change::Remove => 0,
        };
        let gate = self.take_first(tx, targets, change, &mut done).await?;
        let rest: Vec<Address>;
        let left = match gate {
            Some(gate) => {
                rest = targets.at.iter().filter(|at| !std::ptr::eq(*at, gate)).cloned().collect();
                &rest[..]
            }
            None => targets.at,
        };
        let all = tx.claims.clone().filter(|_| left.len() <= MOST_CLAIMED);
        for at in left.chunks((BATCH_BYTES / size.max(1)).clamp(1, BATCH)) {
            let batch = Targets { at, ..*targets };
            let mut claimed = self.claim_batch(tx, all.as_ref(), &batch).await?;
            tx.check_alive()?;
            let left = self.change_at_once(tx, me, &batch, change, &mut claimed, &mut done).await?;
            let left = left.as_deref().map_or((at, true), |left| (left, false));
            match left {
                ([], _) => {}
                (at, false) => {
                    let batch = Targets { at, ..batch };
                    self.lock_then_change(tx, me, &batch, change, &[], claimed, &mut done).await?;
                }
                (at, true) => {
                    let owned: Vec<&Address> = at.iter().filter(|at| tx.may_hold(targets.ns, &at.id)).collect();
                    self.lock_then_change(tx, me, &batch, change, &owned, claimed, &mut done).await?;
                }
            }
        }
        Ok(done)
    }

    /// In an attempt that goes in order: locks and changes the first document before all others,
    /// while nothing is held that a rival may wait for. Statements of several clients that lock the
    /// same documents wait for each other there, and not each with a part of them.
    async fn take_first<'a>(
        &self,
        tx: &mut Transaction,
        targets: &Targets<'a>,
        change: &Change<'_>,
        done: &mut MultiWriteResult,
    ) -> Result<Option<&'a Address>> {
        if !tx.goes_in_order || tx.has_written_anything() {
            return Ok(None);
        }
        let first = targets.at.iter().min_by_key(|at| id_key(&at.id));
        if let Some(first) = first {
            self.prepare_single(tx, targets, first, change, done).await?;
        }
        Ok(first)
    }

    /// Claims the documents of a batch among this client's transactions, in the order of their
    /// `_id`s. Without it two statements that lock the same documents overtake each other in the
    /// server, so that each holds some and waits for the other's.
    async fn claim_batch<'c>(
        &self,
        tx: &Transaction,
        claims: Option<&'c Claims>,
        targets: &Targets<'_>,
    ) -> Result<BatchClaims<'c>> {
        let Some(claims) = claims else { return Ok(BatchClaims::default()) };
        let lock_wait = LockWait::new(tx.lock_wait());
        let wanted = targets.at.iter().filter(|at| !tx.may_hold(targets.ns, &at.id));
        let mut claimed = BatchClaims::default();
        for (key, at) in distinct(targets.ns, wanted)? {
            if let Some(claim) = self.claim(claims, &targets.one(&at), &lock_wait).await? {
                claimed.0.insert(key, claim);
            }
        }
        Ok(claimed)
    }

    /// Step 0. Returns the documents that were not changed; `None`: the steps 1 to 3 are needed for
    /// all.
    async fn change_at_once(
        &self,
        tx: &mut Transaction,
        me: TxId,
        targets: &Targets<'_>,
        change: &Change<'_>,
        claimed: &mut BatchClaims<'_>,
        done: &mut MultiWriteResult,
    ) -> Result<Option<Vec<Address>>> {
        let Change::Update { update, array_filters: None } = change else { return Ok(None) };
        let untouched =
            !tx.has_read_locks(targets.ns) && targets.at.iter().all(|at| tx.is_untouched(targets.ns, &at.id));
        if !untouched || !targets.options.is_plain() || has_special(targets.filter) || sees_lock_fields(targets.filter)
        {
            return Ok(None);
        }
        let left = tx.claims.as_ref().map_or_else(Vec::new, |claims| claims.left_in(targets.ns));
        let Some(pipeline) = fuse(update, me, &left, &[], &[]) else { return Ok(None) };
        let (safe, taken) = match is_only_id(targets.filter) {
            true => (Document::new(), Document::new()),
            false => (guard_filter(targets.filter), rewrite_filter(targets.filter)?),
        };
        let query = doc! {"$and": [among(targets.at), statement::free_or_left(safe, taken, &left)]};
        tx.hold(&self.options, targets.ns, targets.at, Hold::Change)?;
        let statement = rawdoc! {"q": RawDocumentBuf::try_from(&query)?, "u": pipeline, "multi": true};
        let command = update_of(targets.ns, [statement]);
        let answer = self.server.send_prepared_raw(tx, targets.ns, command, &change.touches()).await?;
        if !answer.errors.is_empty() {
            // The totals do not show what a statement that has failed midway has changed.
            tx.set_half_done(true);
        }
        let (mine, others): (Vec<Address>, Vec<Address>) =
            match answer.errors.is_empty() && answer.modified == targets.at.len() as i64 {
                true => (targets.at.to_vec(), Vec::new()),
                false => {
                    let mine = self.server.held_among(targets.ns, targets.at, me).await?;
                    targets.at.iter().cloned().partition(|at| mine.contains(&OwnKey::of(&at.id)))
                }
            };
        tx.note_locked(targets.ns, &mine, false);
        claimed.keep(&mine);
        done.matched += mine.len() as u64;
        done.modified += mine.len() as u64;
        Ok(Some(others))
    }

    async fn prepare_single(
        &self,
        tx: &mut Transaction,
        targets: &Targets<'_>,
        at: &Address,
        change: &Change<'_>,
        done: &mut MultiWriteResult,
    ) -> Result<()> {
        let target = Target { at, ..targets.one(at) };
        let applied = self.prepare(tx, &target, change).await?;
        done.matched += u64::from(applied.matched);
        done.modified += u64::from(applied.modified);
        Ok(())
    }

    /// Steps 1 to 3. `owned`: those that the transaction may have held before.
    #[allow(clippy::too_many_arguments, reason = "a batch, its claims and its result")]
    async fn lock_then_change(
        &self,
        tx: &mut Transaction,
        me: TxId,
        targets: &Targets<'_>,
        change: &Change<'_>,
        owned: &[&Address],
        mut claimed: BatchClaims<'_>,
        done: &mut MultiWriteResult,
    ) -> Result<()> {
        let LockCondition { rest, text } = match is_only_id(targets.filter) {
            true => LockCondition::default(),
            false => lock_condition(targets.filter)?,
        };
        // A filter that would see this transaction's own read locks is evaluated on the copies
        // only.
        let read_locked = tx.has_read_locks(targets.ns);
        let ask_copies = read_locked && sees_lock_fields(&rest);
        let safe_rest = if ask_copies { Document::new() } else { guard_filter(&rest) };
        let removal = matches!(change, Change::Remove);
        let left = claimed.left();
        if !left.is_empty() {
            self.finisher.unfinished(targets.ns, left).await;
            tx.check_alive()?;
        }
        tx.hold(&self.options, targets.ns, targets.at, if removal { Hold::Remove } else { Hold::Change })?;
        // A removal needs no copy, for which a large document would have no room.
        let remove_now = removal && !ask_copies;
        let conditions: Vec<Document> = iter::once(safe_rest).chain(text).collect();
        let locks = lock_statements(tx, targets, &conditions, me, remove_now);
        let lock_touches = if removal { Fields::All } else { Fields::none() };
        let locked = self.server.send_prepared(tx, targets.ns, targets.command(locks), &lock_touches).await?.ok()?.n;
        let all = owned.is_empty() && locked as usize == targets.at.len();
        if remove_now {
            done.matched += locked as u64;
            done.modified += locked as u64;
            if all {
                tx.note_locked(targets.ns, targets.at, true);
                claimed.keep(targets.at);
                return Ok(());
            }
        }
        let mine = if all { None } else { Some(self.server.held_among(targets.ns, targets.at, me).await?) };
        let gone = |at: &&Address| mine.as_ref().is_some_and(|mine| !mine.contains(&OwnKey::of(&at.id)));
        if owned.iter().any(gone) || locked as usize + owned.len() > targets.at.len() {
            self.standings.vouch_for_lock(tx).await?;
        }
        let is_mine = |at: &&Address| mine.as_ref().is_none_or(|mine| mine.contains(&OwnKey::of(&at.id)));
        let (changed, others): (Vec<&Address>, Vec<&Address>) = targets.at.iter().partition(is_mine);
        let changed: Vec<Address> = changed.into_iter().cloned().collect();
        claimed.keep(&changed);
        // The others are claimed again one by one.
        drop(claimed);
        self.change_locked(tx, &Targets { at: &changed, ..*targets }, &rest, me, change, done).await?;
        let others: Vec<Address> = others.into_iter().cloned().collect();
        let others = self.without_removed(tx, targets.ns, others, owned).await?;
        for at in &others {
            self.prepare_single(tx, &Targets { at: &others, ..*targets }, at, change, done).await?;
        }
        Ok(())
    }

    /// Leaves out the documents that are gone, which match nothing: a rival has removed them.
    async fn without_removed(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: Vec<Address>,
        owned: &[&Address],
    ) -> Result<Vec<Address>> {
        if at.len() < 2 || !owned.is_empty() {
            return Ok(at);
        }
        let stored = self.server.stored_among(ns, &at).await?;
        let (stored, gone): (Vec<Address>, Vec<Address>) =
            at.into_iter().partition(|at| stored.contains(&OwnKey::of(&at.id)));
        gone.iter().for_each(|at| tx.not_held(ns, at));
        Ok(stored)
    }

    /// Step 3: changes the documents that are locked by now, as far as their copies match `rest`.
    async fn change_locked(
        &self,
        tx: &mut Transaction,
        targets: &Targets<'_>,
        rest: &Document,
        me: TxId,
        change: &Change<'_>,
        done: &mut MultiWriteResult,
    ) -> Result<()> {
        let rest = rewrite_filter(rest)?;
        let statement = |at: &Address| {
            let query = if rest.is_empty() {
                at.filter()
            } else {
                doc! {"$and": [at.filter(), rest.clone()]}
            };
            change_statement(query, me, change)
        };
        let statements: Vec<Document> = targets.at.iter().map(statement).collect::<Result<_>>()?;
        tx.note_locked(targets.ns, targets.at, false);
        if statements.is_empty() {
            return Ok(());
        }
        let command = targets.command(statements);
        let mut answer = self.server.send_prepared(tx, targets.ns, command, &change.touches()).await?;
        done.matched += answer.n as u64;
        done.modified += answer.modified as u64;
        if !answer.errors.is_empty() {
            return Err(answer.errors.swap_remove(0).1);
        }
        // Less than all: a read to find out which ones does not pay.
        if matches!(change, Change::Remove) && usize::try_from(answer.n) == Ok(targets.at.len()) {
            tx.note_locked(targets.ns, targets.at, true);
        }
        Ok(())
    }
}

impl Targets<'_> {
    fn command(&self, statements: Vec<Document>) -> Document {
        let mut command = doc! {"update": &self.ns.coll, "updates": statements, "ordered": true};
        if let Some(variables) = &self.options.variables {
            command.insert("let", variables.clone());
        }
        command
    }
}

/// The addresses by the keys of their `_id`s, in their order, each once.
///
/// # Errors
/// Two are different documents of a sharded collection.
fn distinct<'a>(ns: &Namespace, at: impl Iterator<Item = &'a Address>) -> Result<BTreeMap<Vec<u8>, Address>> {
    let mut distinct = BTreeMap::new();
    for at in at {
        match distinct.entry(id_key(&at.id)) {
            Entry::Vacant(entry) => drop(entry.insert(at.clone())),
            Entry::Occupied(mut other) => other.get_mut().learn(ns, at)?,
        }
    }
    Ok(distinct)
}

/// Statements that lock the documents whose *safe* version matches all conditions: with a copy, or
/// marked as removed.
fn lock_statements(
    tx: &Transaction,
    targets: &Targets<'_>,
    conditions: &[Document],
    me: TxId,
    removes: bool,
) -> Vec<Document> {
    let lock = |at: &[Address], own| {
        let all: Vec<Document> = iter::once(among(at)).chain(conditions.iter().cloned()).collect();
        let safe = doc! {"$and": all};
        match removes {
            true => statement::lock_remove(safe, me, own, true),
            false => statement::lock_copy(safe, me, own, true),
        }
    };
    by_read_lock(tx, targets).iter().map(|(own, at)| lock(at, *own)).collect()
}

/// The documents, apart by what their statement has to demand of this transaction's own read locks.
fn by_read_lock(tx: &Transaction, targets: &Targets<'_>) -> BTreeMap<OwnReadLock, Vec<Address>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for at in targets.at {
        groups.entry(tx.read_lock(targets.ns, &at.id)).or_default().push(at.clone());
    }
    groups
}

fn change_statement(unsafe_query: Document, me: TxId, change: &Change<'_>) -> Result<Document> {
    Ok(match change {
        Change::Remove => statement::mark_removed(unsafe_query, me, false),
        Change::Update { update, array_filters } => {
            let mut statement = statement::change_unsafe(unsafe_query, me, rewrite_update(update)?, false);
            if let Some(filters) = array_filters {
                statement.insert("arrayFilters", filters.to_vec());
            }
            statement
        }
    })
}
