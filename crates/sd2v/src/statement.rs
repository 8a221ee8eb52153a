//! The update and delete statements of the protocol, each atomic on one document.
//!
//! | statement | demands of the stored document | leaves |
//! | --- | --- | --- |
//! | [`lock_change`] | what its query says: clean, or left by a committed writer ([`free_or_left`]) | the whole of it with the change in `_unsafe`, write lock |
//! | [`lock_change_each`] | the same, of each document with one of its `_id`s | the same |
//! | [`lock_copy`] | clean (no reserved field at all); read-locked by the writer alone, if the writer has read it | the whole of it copied to `_unsafe`, write lock |
//! | [`lock_remove`] | the same | `_remove`, write lock |
//! | [`mark_removed`] | the writer's own, not removed | `_remove`, no unsafe version |
//! | [`finish_replace`], [`finish_one`], [`finish_delete`] | locked by one of the given (committed) writers | clean, or gone |
//! | [`step_aside`] | the same | its safe values out of the way of unique indexes |
//! | [`restore_safe`], [`restore_unsafe`] | the writer's own | the unsafe version as it was before a change |
//! | [`insert_pending`] | nothing, of no document; fails where one has the `_id` | a document that waits to be inserted |
//! | [`count_others`] | not the writer's | the same |
//! | [`refuse_others`] | not the writer's; fails where there is one | the same |
//! | [`give_back`], [`take_back_inserts`] | the (active) writer's own | as it was before the writer locked it, or gone |
//! | [`undo_unlock`], [`undo_delete`] | locked by one of the given (rolled-back) writers | clean, or gone |
//! | [`outlive`] | the writer's own, with a safe version that has expired | no safe version |
//! | [`look`] | the writer's own, not removed | the same |
//! | [`lock_read`] | not write-locked by another transaction | the reader among the read locks |
//! | [`unlock_readers`] | read-locked by one of the given readers | without them |
//!
//! A statement is what stands in the server's `updates` (`{q, u, multi}`) or `deletes` (`{q,
//! limit}`) array. Those that repair what decided transactions have left are [`RepairStatement`]s:
//! they may arrive late, and do no harm. All others are a live transaction's, or of no transaction.

use bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, doc, rawdoc};
use protocol::{Decided, TxId};

use crate::{
    expression::{Exactly, path_of},
    filter::pinned_ids,
    names::{INSERT, READERS, REMOVE, RESERVED, SLOT, UNSAFE, WRITER, tx_id_to_bson, tx_id_to_raw},
};

/// A statement that changes nothing but what decided transactions have left.
#[derive(Clone, Debug, PartialEq)]
pub struct RepairStatement(Document);

impl RepairStatement {
    /// The statement, to be sent in a command's `updates` or `deletes`.
    pub fn into_document(self) -> Document {
        self.0
    }
}

fn ids_of(writers: &[Decided]) -> Vec<TxId> {
    writers.iter().map(|decided| decided.id()).collect()
}

fn stored_ids(ids: &[TxId]) -> Vec<Bson> {
    ids.iter().copied().map(tx_id_to_bson).collect()
}

fn ids_in(ids: &[TxId]) -> Bson {
    let mut ids = stored_ids(ids);
    match ids.pop() {
        Some(only) if ids.is_empty() => only,
        Some(last) => {
            ids.push(last);
            Bson::Document(doc! {"$in": ids})
        }
        None => Bson::Document(doc! {"$in": []}),
    }
}

/// Read lock of the writer itself on the document that it is about to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OwnReadLock {
    /// The writer has no read lock on the document.
    None,
    /// The writer has tried to take one, with an unknown result, and has not read the document.
    Unsure,
    /// The writer has read the document under one. If the lock is gone, the document may have
    /// changed since.
    Kept,
}

/// The condition on the locks of a document that `writer` may lock. Part of the same statement that
/// sets the lock, so that no earlier read has to be trusted.
pub fn lockable_by(writer: TxId, own: OwnReadLock) -> Document {
    let mut free = unlocked();
    let mine = [tx_id_to_bson(writer)];
    match own {
        OwnReadLock::None => {}
        OwnReadLock::Unsure => {
            let unread = free.remove(READERS);
            free.insert("$and", [doc! {"$or": [{READERS: unread}, {READERS: mine}]}]);
        }
        OwnReadLock::Kept => drop(free.insert(READERS, mine)),
    }
    free
}

/// The condition that a document has no lock at all, and no other metadata that would make it a
/// transaction's: a write outside a transaction demands this.
pub fn unlocked() -> Document {
    [WRITER, READERS, INSERT, REMOVE, UNSAFE, SLOT]
        .map(|name| (name.to_owned(), doc! {"$exists": false}.into()))
        .into_iter()
        .collect()
}

/// The condition that a document has no lock, as [`unlocked`], of a statement that is sent with
/// others. A statement whose document has one fails (241, ConversionFailure) instead of passing it
/// over: the server's answer to the command names the statements that have failed, and of the
/// others has only the number of documents that all of them have matched.
pub fn unlocked_or_failing() -> Document {
    doc! {"$or": [unlocked(), failing()]}
}

/// The condition that no document meets: words are converted to a number. A document without a lock
/// has met the other one before.
fn failing() -> Document {
    doc! {"$expr": {"$toInt": {"$concat": ["MongoTx: locked by ", {"$type": format!("${WRITER}")}]}}}
}

/// Returns true if it is [`unlocked_or_failing`], perhaps with other conditions.
pub fn is_unlocked_or_failing(filter: &Document) -> bool {
    let either = filter.get_array("$or").ok().map(Vec::as_slice);
    matches!(either, Some([Bson::Document(free), Bson::Document(held)]) if *free == unlocked() && *held == failing())
}

/// The documents of which a writer may lock one that its filter finds by whatever fields: those
/// without any lock of which the safe version matches, and those that one of `left` holds and has
/// not removed of which the unsafe version does. All of `left` are committed, durably, and the
/// statement takes their documents over ([`crate::update::fuse`]).
pub fn free_or_left(safe_query: Document, unsafe_query: Document, left: &[TxId]) -> Document {
    let free = both(unlocked(), safe_query);
    if left.is_empty() {
        return free;
    }
    let left: Vec<Bson> = left.iter().copied().map(tx_id_to_bson).collect();
    let held = doc! {WRITER: {"$in": left}, REMOVE: {"$exists": false}};
    doc! {"$or": [free, both(held, unsafe_query)]}
}

fn both(left: Document, right: Document) -> Document {
    if right.is_empty() {
        left
    } else {
        doc! {"$and": [left, right]}
    }
}

/// Condition on a document that one of these writers holds.
#[derive(Clone, Copy)]
enum Held {
    /// The mark is there.
    With(&'static str),
    /// The mark is not there.
    Without(&'static str),
}

/// Index by which the server is to find the documents of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// The one on `_id`, where the statement names its documents by their `_id`s.
    Id,
    /// The one on pending documents, or whichever the server takes.
    Lock,
}

/// The documents of `query` that one of these writers holds.
///
/// Where they are to be found by their `_id`s, the condition is an expression, which no index
/// answers. Otherwise the server has two indexes to choose from, tries out both, and may take the
/// one on pending documents, where it passes over the keys of all that was pending a moment ago.
fn held_of(query: Document, writers: &[TxId], held: Held, by: FoundBy) -> Document {
    if by == FoundBy::Id && names_ids(&query) {
        // The query stands behind: two conditions with an `_id` in front are the mark of statements
        // that match nothing (`command::probe` of the library).
        return doc! {"$and": [{"$expr": as_document(held_expression(writers, held))}, query]};
    }
    let mut condition = doc! {WRITER: ids_in(writers)};
    match held {
        Held::With(mark) => drop(condition.insert(mark, true)),
        Held::Without(mark) => drop(condition.insert(mark, doc! {"$exists": false})),
    }
    both(condition, query)
}

/// [`held_of`] for one writer. A document that is named alone is found by its `_id`.
fn mine(query: Document, writer: TxId, held: Held) -> Document {
    let is_one = |query: &Document| pinned_ids(query).is_some_and(|ids| ids.len() == 1);
    let by = if is_one(&query) { FoundBy::Id } else { FoundBy::Lock };
    held_of(query, &[writer], held, by)
}

/// Returns true if each document of the query is named by its `_id`.
fn names_ids(query: &Document) -> bool {
    let either = query.get_array("$or").ok().map(|all| all.iter().filter_map(Bson::as_document));
    pinned_ids(query).is_some() || either.is_some_and(|mut all| all.all(|one| pinned_ids(one).is_some()))
}

fn as_document(expression: RawDocumentBuf) -> Document {
    Document::try_from(expression).unwrap_or_else(|_| unreachable!("it was made of values"))
}

/// The expression that is true of documents that one of these writers holds.
fn held_expression(writers: &[TxId], held: Held) -> RawDocumentBuf {
    let mut exactly = Exactly::new();
    if let [only] = writers {
        exactly.and(path_of(WRITER), Some(tx_id_to_raw(*only)));
    }
    match held {
        Held::With(mark) => exactly.and(path_of(mark), Some(true)),
        Held::Without(mark) => exactly.and_missing(mark),
    }
    if writers.len() == 1 {
        return exactly.into_expression();
    }
    let writers: RawArrayBuf = writers.iter().map(|id| tx_id_to_raw(*id)).collect();
    rawdoc! { "$and": [{ "$in": [path_of(WRITER), { "$literal": writers }] }, exactly.into_expression()] }
}

/// Locks for writing: copies the safe version to `_unsafe`. `query` selects among the lockable
/// documents.
pub fn lock_copy(query: Document, writer: TxId, own: OwnReadLock, multi: bool) -> Document {
    let copy = if own > OwnReadLock::None {
        // Without `$unsetField`, which came with MongoDB 5.0.
        let fields = doc! {"$filter": {"input": {"$objectToArray": "$$ROOT"}, "cond": {"$ne": ["$$this.k", READERS]}}};
        Bson::Document(doc! {"$arrayToObject": fields})
    } else {
        Bson::from("$$ROOT")
    };
    let stage = doc! {"$set": {UNSAFE: copy, WRITER: {"$literal": tx_id_to_bson(writer)}}};
    doc! {"q": both(lockable_by(writer, own), query), "u": [stage], "multi": multi}
}

/// Locks and changes in one statement: `pipeline` comes from [`crate::update::fuse`], and has done
/// so if it has modified the document.
pub fn lock_change(query: RawDocumentBuf, pipeline: RawArrayBuf) -> RawDocumentBuf {
    rawdoc! {"q": query, "u": pipeline, "multi": false}
}

/// [`lock_change`] of the documents with these `_id`s, of which it has locked as many as it has
/// modified: `pipeline` comes from [`crate::update::fuse_together`].
pub fn lock_change_each(ids: RawArrayBuf, pipeline: RawArrayBuf) -> RawDocumentBuf {
    rawdoc! {"q": {"_id": {"$in": ids}}, "u": pipeline, "multi": true}
}

/// Locks a document for removal.
pub fn lock_remove(query: Document, writer: TxId, own: OwnReadLock, multi: bool) -> Document {
    let set = doc! {"$set": {WRITER: tx_id_to_bson(writer), REMOVE: true}};
    doc! {"q": both(lockable_by(writer, own), query), "u": set, "multi": multi}
}

/// Removes a document that the writer has locked before. `unsafe_query` speaks of the unsafe
/// version.
pub fn mark_removed(unsafe_query: Document, writer: TxId, multi: bool) -> Document {
    let change = doc! {"$set": {REMOVE: true}, "$unset": {UNSAFE: ""}};
    doc! {"q": mine(unsafe_query, writer, Held::Without(REMOVE)), "u": change, "multi": multi}
}

/// Puts a document back that the writer itself has removed.
pub fn revive(who: Document, document: &Document, writer: TxId) -> Document {
    let q = mine(who, writer, Held::With(REMOVE));
    doc! {"q": q, "u": {"$set": {UNSAFE: document.clone()}, "$unset": {REMOVE: ""}}, "multi": false}
}

/// Applies `change` to the unsafe version of documents that the writer has locked.
pub fn change_unsafe(unsafe_query: Document, writer: TxId, change: Bson, multi: bool) -> Document {
    doc! {"q": mine(unsafe_query, writer, Held::Without(REMOVE)), "u": change, "multi": multi}
}

/// Finishes: the unsafe version becomes the document. `query` narrows it to known `_id`s, or
/// is empty.
///
/// ```
/// use bson::doc;
/// use protocol::{ClientId, Decided, TxId, TxStatus};
/// use sd2v::statement::{FoundBy, finish_replace};
///
/// let writer = TxId { client: ClientId([1; 12]), seq: 7 };
/// assert!(Decided::by_status(writer, TxStatus::Active).is_none()); // nothing to be finished yet
/// let committed = Decided::by_status(writer, TxStatus::Committed).unwrap();
/// let statement = finish_replace(doc! {"_id": 1}, &[committed], FoundBy::Id).into_document();
/// assert_eq!(statement.get_array("u").unwrap(), &[doc! {"$replaceWith": "$_unsafe"}.into()]);
/// ```
pub fn finish_replace(query: Document, writers: &[Decided], by: FoundBy) -> RepairStatement {
    let q = held_of(query, &ids_of(writers), Held::Without(REMOVE), by);
    RepairStatement(doc! {"q": q, "u": [{"$replaceWith": format!("${UNSAFE}")}], "multi": true})
}

/// The expression that is true of documents that one of these writers holds and has not removed.
pub(crate) fn held_by(writers: &[TxId]) -> RawDocumentBuf {
    held_expression(writers, Held::Without(REMOVE))
}

/// [`finish_replace`] of one document: `who` names its `_id` and nothing else, which takes the
/// server's shortest way: the condition stands in the pipeline. Not for removals.
pub fn finish_one(who: Document, writers: &[Decided]) -> RepairStatement {
    let held = as_document(held_by(&ids_of(writers)));
    let finished = doc! {"$cond": [held, path_of(UNSAFE), "$$ROOT"]};
    RepairStatement(doc! {"q": who, "u": [{"$replaceWith": finished}], "multi": false})
}

/// Rolls removals of committed writers forward: deletes the documents.
pub fn finish_delete(query: Document, writers: &[Decided], by: FoundBy) -> RepairStatement {
    RepairStatement(doc! {"q": held_of(query, &ids_of(writers), Held::With(REMOVE), by), "limit": 0})
}

/// Puts documents of committed writers out of the way of unique indexes, where documents of one
/// transaction exchange values. Their safe versions stay readable.
pub fn step_aside(writers: &[Decided]) -> RepairStatement {
    let q = held_of(Document::new(), &ids_of(writers), Held::Without(SLOT), FoundBy::Lock);
    RepairStatement(doc! {"q": q, "u": [{"$set": {SLOT: {"_id": "$_id"}}}], "multi": true})
}

/// Takes back everything that the writer has changed in a document that it did not insert.
pub fn restore_safe(who: Document, writer: TxId) -> Document {
    let reserved = doc! {"$in": ["$$this.k", RESERVED.to_vec()]};
    let fields = doc! {"$filter": {"input": {"$objectToArray": "$$ROOT"}, "cond": {"$not": [reserved]}}};
    let q = mine(who, writer, Held::Without(INSERT));
    doc! {"q": q, "u": [{"$set": {UNSAFE: {"$arrayToObject": fields}}}], "multi": false}
}

/// Puts back the unsafe version that a document had before the writer's last change.
pub fn restore_unsafe(who: Document, before: &Document, writer: TxId) -> Document {
    let q = mine(who, writer, Held::Without(REMOVE));
    doc! {"q": q, "u": {"$set": {UNSAFE: before.clone()}}, "multi": false}
}

/// Inserts a document that waits to be inserted, by an `update`, behind which other statements can
/// stand: an upsert that matches no document, whatever it is.
pub fn insert_pending(stored: &Document) -> Document {
    let id = stored.get("_id").cloned().unwrap_or(Bson::Null);
    doc! {"q": {"_id": {"$eq": id}, "$nor": [{}]}, "u": stored.clone(), "multi": false, "upsert": true}
}

/// Changes nothing, and matches the documents of this query that the writer does not hold.
pub fn count_others(query: Document, writer: TxId) -> Document {
    doc! {"q": of_others(query, writer), "u": [{"$replaceWith": "$$ROOT"}], "multi": true}
}

/// The query for those of its documents that the writer does not hold.
pub fn of_others(query: Document, writer: TxId) -> Document {
    doc! {"$and": [query, {WRITER: {"$ne": tx_id_to_bson(writer)}}]}
}

/// Changes nothing, and matches nothing: it fails (241, ConversionFailure) if there is a document
/// of this query that the writer does not hold. It stands behind a prepared write in the same
/// command. The server's answer to the command names the statement that has failed, and what stands
/// behind it is not carried out.
pub fn refuse_others(query: Document, writer: TxId) -> Document {
    // It is computed of the document, so that the server cannot compute it before there is one.
    let words =
        doc! {"$concat": ["MongoTx: another document has the key, and its _id is of the type ", {"$type": "$_id"}]};
    let failing = doc! {"$replaceWith": {"$toInt": words}};
    doc! {"q": of_others(query, writer), "u": [failing], "multi": false}
}

/// Gives documents back that the writer, still active, has locked and not inserted: drops their
/// unsafe versions. Its read locks stay.
pub fn give_back(query: Document, writer: TxId) -> Document {
    let q = mine(query, writer, Held::Without(INSERT));
    doc! {"q": q, "u": {"$unset": {UNSAFE: "", WRITER: "", REMOVE: ""}}, "multi": true}
}

/// Takes documents away again that the writer, still active, has inserted.
pub fn take_back_inserts(query: Document, writer: TxId) -> Document {
    doc! {"q": mine(query, writer, Held::With(INSERT)), "limit": 0}
}

/// Undoes: drops the unsafe version and the metadata.
pub fn undo_unlock(query: Document, writers: &[Decided]) -> RepairStatement {
    let q = held_of(query, &ids_of(writers), Held::Without(INSERT), FoundBy::Lock);
    let drop = doc! {"$unset": {UNSAFE: "", WRITER: "", READERS: "", REMOVE: "", SLOT: ""}};
    RepairStatement(doc! {"q": q, "u": drop, "multi": true})
}

/// Undoes inserts of these writers, by deleting the documents. A document that has neither an
/// unsafe version nor the mark of a removal stays: it may be an application's, which happens to
/// have fields of these names.
pub fn undo_delete(query: Document, writers: &[Decided]) -> RepairStatement {
    let whole = doc! {"$or": [{UNSAFE: {"$exists": true}}, {REMOVE: true}]};
    let held = held_of(query, &ids_of(writers), Held::With(INSERT), FoundBy::Lock);
    RepairStatement(doc! {"q": both(held, whole), "limit": 0})
}

/// Takes the safe version of a document that the writer has locked, where the server may be about
/// to remove it: it has expired for all other readers, and without its date the server leaves the
/// document alone. Undone, it goes. `kept`: what stays of it, the fields of the shard key.
pub fn outlive(who: Document, writer: TxId, is_over: Document, kept: &[&str]) -> Document {
    let held =
        doc! {WRITER: tx_id_to_bson(writer), REMOVE: {"$exists": false}, INSERT: {"$exists": false}, "$and": [is_over]};
    let names: Vec<&str> = ["_id", UNSAFE, WRITER, READERS].iter().chain(kept).copied().collect();
    let fields = doc! {"$filter": {"input": {"$objectToArray": "$$ROOT"}, "cond": {"$in": ["$$this.k", names]}}};
    let marks = doc! {INSERT: true, SLOT: {"_id": "$_id"}};
    let bare = doc! {"$mergeObjects": [{"$arrayToObject": fields}, marks]};
    doc! {"q": both(held, who), "u": [{"$replaceWith": bare}], "multi": true}
}

/// Changes nothing, and matches what the writer holds and has not removed.
pub fn look(who: Document, writer: TxId) -> Document {
    let q = mine(who, writer, Held::Without(REMOVE));
    doc! {"q": q, "u": [{"$replaceWith": "$$ROOT"}], "multi": true}
}

/// The condition under which `reader` may take a read lock.
pub fn readable_by(reader: TxId) -> Document {
    doc! {"$or": [{WRITER: {"$exists": false}}, {WRITER: tx_id_to_bson(reader)}]}
}

/// Takes a read lock, on every document that the query matches.
pub fn lock_read(query: Document, reader: TxId) -> Document {
    doc! {"q": both(readable_by(reader), query), "u": {"$addToSet": {READERS: tx_id_to_bson(reader)}}, "multi": true}
}

/// Gives read locks back, the owner's or a dead reader's; the last one takes the field with it.
pub fn unlock_readers(query: Document, readers: &[Decided]) -> RepairStatement {
    let readers = ids_of(readers);
    let gone = stored_ids(&readers);
    let input = format!("${READERS}");
    let left = doc! {"$filter": {"input": input.clone(), "cond": {"$not": [{"$in": ["$$this", {"$literal": gone}]}]}}};
    let none_left = doc! {"$eq": [input.clone(), []]};
    let pipeline =
        [doc! {"$set": {READERS: left}}, doc! {"$set": {READERS: {"$cond": [none_left, "$$REMOVE", input]}}}];
    RepairStatement(doc! {"q": both(doc! {READERS: ids_in(&readers)}, query), "u": pipeline.to_vec(), "multi": true})
}
