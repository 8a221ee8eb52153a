//! A write of one document outside a transaction: one conditional command on a clean document.
//!
//! 1. Send the user's statement with the condition that the document has no lock.
//! 2. A document matched: done. None matched: if a locked document could have, repair it if its
//!    transaction is decided, otherwise wait for it (as MongoDB's own writes do, up to the client's
//!    limit), and go to 1.
//! 3. That no document matches is an answer only if it was so at one moment. A transaction that
//!    moves what the filter asks for from one document to another is finished document by document:
//!    looks in between find it in neither. So where a lock was met, and where the filter demands a
//!    key of a unique index, a validated read decides; if it finds something, or something has
//!    changed meanwhile, go to 1.
//!
//! The command is sent once; an answer that is lost is an indeterminate outcome, as it is with a
//! plain driver whose server cannot retry writes.

use bson::{Document, doc};
use sd2v::{
    filter::guard_filter,
    names::{INSERT, READERS, RESERVED, WRITER},
    statement, stored, view,
};

use crate::{
    command::isolation::{validated, validation::Validation},
    coordinator::{
        Core,
        finishing::lock_wait::{Attempts, LockWait},
        request::{
            address::Address,
            query::{self, Query},
            query_options::QueryOptions,
        },
        stamps::retry_history::RetryHistory,
        stored::lock_fields::locks_only,
    },
    error::{Error, ErrorKind, Result},
    options::{Isolation, Namespace, TransactionOptions},
};

/// Attempts without waiting in between.
const ATTEMPTS: usize = 64;

/// The user's filter and the condition that the document has no lock, in one.
pub(crate) fn unlocked(filter: &Document) -> Document {
    let mut both = guard_filter(filter);
    both.extend(statement::unlocked());
    both
}

/// Waits for, or clears, whatever locked document the filter could match. A rival's pending insert
/// matches nothing, but stands in the way of an upsert with its `_id`.
///
/// Returns true if the write is to be tried again: the lock was removed, or was waited for and may
/// still be there. False: no lock is in the way, and no document matches.
async fn clear_the_way(
    core: &Core,
    ns: &Namespace,
    filter: &Document,
    options: &QueryOptions,
    upsert: bool,
    lock_wait: &mut LockWait,
) -> Result<bool> {
    let pinned = query::pinned_id(core, ns, filter, options).await?;
    let key = core.catalog.shard_key(ns).await?;
    let mut has_met = false;
    let may_match = match &pinned {
        Some(id) => {
            let mut at = Address::named(id.clone(), filter, options, &key).filter();
            at.insert(
                "$or",
                [guard_filter(filter), doc! {WRITER: {"$exists": true}}, doc! {READERS: {"$exists": true}}],
            );
            at
        }
        None => {
            let settled = core.pending.settle_pending(ns, filter, options, None).await?;
            core.repairs.refuse_unfinished(ns, filter, &settled.unfinished).await?;
            has_met = settled.was_pending;
            // Held by a lock, or by metadata without an owner.
            let locked = RESERVED.map(|name| doc! {name: {"$exists": true}});
            doc! {"$and": [view::without_pending_inserts(filter), {"$or": locked.to_vec()}]}
        }
    };
    let mut find = doc! {"find": &ns.coll, "filter": may_match, "projection": locks_only(&key)};
    options.add_to(&mut find);
    let Some(found) = core.server.find_first(ns, find).await? else {
        return match pinned {
            Some(_) => Ok(false),
            None => unlocked_match(core, ns, filter, options, has_met).await,
        };
    };
    let (at, lock) = (Address::of(&found, &key)?, stored::lock_state(&found)?);
    let Some(rival) = core.repairs.clear_locks(ns, &at, &lock, None).await? else { return Ok(true) };
    let in_the_way = if lock.insert { upsert } else { safe_matches(core, ns, &at, filter, options).await? };
    if !in_the_way {
        return match pinned {
            Some(_) => Ok(false),
            None => unlocked_match(core, ns, filter, options, true).await,
        };
    }
    lock_wait.wait_for(&core.server, ns, &at.id, rival).await?;
    Ok(true)
}

/// Looks for a matching document, which was locked when the write was tried. It may be free now, or
/// locked by the next rival: the next attempt meets that. `has_met`: something was pending.
///
/// Returns false if no document matches, true if the write is to be tried again.
async fn unlocked_match(
    core: &Core,
    ns: &Namespace,
    filter: &Document,
    options: &QueryOptions,
    has_met: bool,
) -> Result<bool> {
    let matching = view::without_pending_inserts(filter);
    let mut find = doc! {"find": &ns.coll, "filter": matching, "projection": {"_id": 1}};
    options.add_to(&mut find);
    if core.server.find_first(ns, find).await?.is_some() {
        return Ok(true);
    }
    let may_have_moved = has_met || core.catalog.look_up(ns).await?.is_pinned_by(filter);
    Ok(may_have_moved && !is_none_at_one_moment(core, ns, filter, options).await?)
}

/// Step 3. Returns false also if something has changed meanwhile.
async fn is_none_at_one_moment(core: &Core, ns: &Namespace, filter: &Document, options: &QueryOptions) -> Result<bool> {
    let snapshot = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    let mut tx = core.lifecycle.begin(snapshot, RetryHistory::default());
    let query = Query { limit: 1, ..Query::of(filter.clone(), options.clone()) };
    let is_none = match validated::addresses(core, &mut tx, ns, &query, 1).await {
        Ok(found) if found.is_empty() => Validation::of(core).validate(&mut tx).await.map(|()| true),
        found => found.map(|_| false),
    };
    core.lifecycle.roll_back(tx).await;
    match is_none {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
        // The published layout of records cannot tell.
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(true),
        is_none => is_none,
    }
}

async fn safe_matches(
    core: &Core,
    ns: &Namespace,
    at: &Address,
    filter: &Document,
    options: &QueryOptions,
) -> Result<bool> {
    let filter = doc! {"$and": [at.filter(), {INSERT: {"$exists": false}}, guard_filter(filter)]};
    let mut find = doc! {"find": &ns.coll, "filter": filter, "projection": {"_id": 1}};
    options.add_to(&mut find);
    Ok(core.server.find_first(ns, find).await?.is_some())
}

/// A write that has waited may have begun before change streams were switched on: it would leave no
/// event.
pub(crate) async fn refuse_watched(core: &Core, ns: &Namespace) -> Result<()> {
    if core.catalog.look_up(ns).await?.watch.is_none() {
        return Ok(());
    }
    let message = format!("change streams were switched on for {ns} while the write waited: it was not made");
    Err(Error::new(ErrorKind::Conflict, message))
}

/// State that one write keeps between its attempts.
pub(crate) struct DirectAttempts<'a> {
    core: &'a Core,
    ns: &'a Namespace,
    filter: &'a Document,
    options: &'a QueryOptions,
    upsert: bool,
    lock_wait: LockWait,
    attempts: Attempts,
}

impl<'a> DirectAttempts<'a> {
    pub(crate) fn new(core: &'a Core, ns: &'a Namespace, filter: &'a Document, options: &'a QueryOptions) -> Self {
        let lock_wait = LockWait::new(core.options.write_wait);
        Self { core, ns, filter, options, upsert: false, lock_wait, attempts: Attempts::new(ATTEMPTS) }
    }

    /// The write is an upsert of the `_id` in its filter.
    pub(crate) fn upserting(self, upsert: bool) -> Self {
        Self { upsert, ..self }
    }

    /// Called after an attempt that matched nothing. Returns true if there is reason for another;
    /// false: no document matches.
    pub(crate) async fn again(&mut self) -> Result<bool> {
        let Self { core, ns, filter, options, upsert, lock_wait, attempts } = self;
        if !attempts.go_on(lock_wait) {
            let message =
                format!("documents of {ns} changed hands {ATTEMPTS} times while one of them was to be written");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let is_cleared = clear_the_way(core, ns, filter, options, *upsert, lock_wait).await?;
        refuse_watched(core, ns).await?;
        Ok(is_cleared)
    }
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use sd2v::unheld;

    use super::*;
    use crate::{
        command::query::nowhere::nowhere,
        coordinator::server::direct::{matches_nothing, spares_locked},
    };

    #[test]
    fn direct_writes_of_all_commands_are_let_through() {
        let (free, matching_nothing) = (unlocked(&doc! {"n": 1}), nowhere(&doc! {"n": 1}));
        let mut failing = doc! {"_id": 1};
        failing.extend(statement::unlocked_or_failing());
        for filter in [free, failing, matching_nothing] {
            assert!(spares_locked(&doc! {"update": "c", "updates": [{"q": filter.clone(), "u": {"$set": {"n": 2}}}]}));
            assert!(spares_locked(&doc! {"delete": "c", "deletes": [{"q": filter.clone(), "limit": 1}]}));
            assert!(spares_locked(&doc! {"findAndModify": "c", "query": filter, "remove": true}));
        }
        assert!(spares_locked(&doc! {"insert": "c", "documents": [{"_id": 1}]}));
        let guarded = unheld::guarded(&doc! {"$set": {"n": 2}}).unwrap();
        assert!(spares_locked(&doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": guarded}]}));
        assert!(!spares_locked(&doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 2}}}]}));
    }

    #[test]
    fn only_probes_match_nothing() {
        let update = |q: Document| doc! {"update": "c", "updates": [{"q": q, "u": {"$set": {"n": 2}}}]};
        let modify = |query: Document| doc! {"findAndModify": "c", "query": query, "update": {"$set": {"n": 2}}};
        let probe = nowhere(&doc! {"n": 1});
        assert!(matches_nothing(&update(probe.clone())) && matches_nothing(&modify(probe.clone())));
        let mut upsert = modify(probe);
        upsert.insert("upsert", true);
        assert!(!matches_nothing(&upsert));
        let asked = doc! {"$and": [{"_id": ObjectId::new()}, {"n": 1}]};
        for filter in [unlocked(&asked), unlocked(&doc! {"_id": ObjectId::new()})] {
            assert!(!matches_nothing(&update(filter.clone())) && !matches_nothing(&modify(filter.clone())), "{filter}");
        }
        assert!(!matches_nothing(&doc! {"insert": "c", "documents": [{"_id": 1}]}));
        assert!(!matches_nothing(&doc! {"delete": "c", "deletes": [{"q": {}, "limit": 1}]}));
    }
}
