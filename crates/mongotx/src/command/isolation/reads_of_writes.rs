//! Reads of statements that write: what a statement has found is locked when it is answered, so
//! that a lock settles a read, a check replaces one, or the read is noted to be validated at the
//! commit.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::{bracket::matters_to, committed, validation::Validation};
use crate::{
    command::query::order,
    coordinator::{
        Core,
        read_set::{
            Entry, Read,
            as_read::AsRead,
            changed,
            witness::{Digest, Witness},
        },
        request::query::Query,
        transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// The document was locked by a statement that shows it as it was: it must be what was read.
pub(crate) async fn settle_shown(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    id: &Bson,
    shown: &Document,
) -> Result<()> {
    let Some(point) = tx.reads.point(ns, id) else { return Ok(()) };
    // Bytes that a document has no other form for may have become others on the way: then the
    // commit compares them.
    if Digest::of([&*RawDocumentBuf::try_from(shown)?]) == point.digest {
        tx.reads.settle_point(ns, id);
        return Ok(());
    }
    match Validation::of(core).check_point(tx, ns, id).await.map_err(|error| ending(tx, error))? {
        true => Ok(()),
        false => Err(lost(tx, changed(ns, Some(id)))),
    }
}

/// The document was locked by a statement that shows it as it was, at least in the fields that were
/// read: these must be what was read.
pub(crate) async fn settle_as_read(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    as_read: &AsRead,
    shown: &Document,
) -> Result<()> {
    if as_read.is_same(&RawDocumentBuf::try_from(shown)?) {
        tx.reads.settle_as_read(as_read);
        return Ok(());
    }
    // The bytes alone may differ: so another read finds out whether the answer is still the same.
    // If it is, the commit reads once more.
    for entry in tx.reads.entries_of(as_read) {
        if !Validation::of(core).is_as_read(tx, entry).await.map_err(|error| ending(tx, error))? {
            return Err(lost(tx, changed(ns, entry.pinned.as_ref())));
        }
    }
    Ok(())
}

/// The query for the document that others would find first, if there is such a query that can be
/// sent again.
pub(crate) async fn first_of_others(
    core: &Core,
    tx: &Transaction,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Query>> {
    let first = Query { limit: 1, ..query.clone() };
    let of_others = Query { projection: Some(doc! {"_id": 1}), ..matters_to(core, tx, ns, &first).await? };
    Ok((of_others.limit == 1).then_some(of_others))
}

/// The read of a write that has changed the first document in an order when [`first_of_others`] was
/// called; the document looked like `before` then. It is the transaction's own: what comes behind
/// it in the order is of no consequence.
pub(crate) fn read_of_first(ns: &Namespace, first: Query, id: &Bson, before: &Document) -> Result<Entry> {
    let found = RawDocumentBuf::try_from(&doc! {"_id": id.clone()})?;
    let witness = Witness::of(Digest::of([&*found]));
    let ahead = first.sort.as_ref().and_then(|sort| order::ahead_of(before, sort));
    Ok(Entry { ahead, ..Entry::of(ns, Read::Find(first), 0, witness) })
}

/// Notes a [`read_of_first`], which is validated at the commit. `is_certain`: no other document
/// stood before the one found; otherwise the write could not see all of them.
///
/// # Errors
/// A read set that is full, which ends the transaction.
pub(crate) fn note_first(core: &Core, tx: &mut Transaction, read: Entry, is_certain: bool) -> Result<()> {
    let read = Entry { is_answered: is_certain, ..read };
    tx.reads.note(read, core.options.max_documents).map_err(|error| ending(tx, error))
}

/// Makes certain of a [`read_of_first`] now, where nothing is validated at the commit.
///
/// # Errors
/// A conflict if another document is the first.
pub(crate) async fn check_first(core: &Core, tx: &Transaction, read: &Entry) -> Result<()> {
    // The document itself is locked: it stands where it stood.
    match is_still_first(core, tx, read).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(lost(tx, changed(&read.ns, None))),
        Err(error) => Err(lost(tx, ending(tx, error))),
    }
}

/// Returns true if no document of others stands before the one that the entry has found. Documents
/// that could come before it are looked for first: of several at the same place of the order, the
/// query may find another one.
async fn is_still_first(core: &Core, tx: &Transaction, entry: &Entry) -> Result<bool> {
    if let (Some(ahead), Read::Find(first)) = (&entry.ahead, &entry.read) {
        let filter = doc! {"$and": [first.filter.clone(), ahead.clone()]};
        let mut found = committed::find(core, None, &entry.ns, &Query { filter, sort: None, ..first.clone() }).await?;
        if found.next().await.transpose()?.is_none() {
            return Ok(true);
        }
    }
    Validation::of(core).is_as_read(tx, entry).await
}

/// A write of many has locked what matched when it was locked: that must be all that was selected.
pub(crate) fn check_all_matched(tx: &Transaction, ns: &Namespace, selected: usize, matched: u64) -> Result<()> {
    if !tx.validates() || matched == selected as u64 {
        return Ok(());
    }
    Err(changed(ns, None).for_transaction(tx.id()))
}

/// A write has found nothing that matches.
pub(crate) async fn note_nothing(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<()> {
    if !tx.validates() {
        return Ok(());
    }
    let pinned = query.pinned_id(core, ns).await?;
    if pinned.as_ref().is_some_and(|id| tx.is_own(ns, id)) {
        return Ok(());
    }
    let own = tx.own_mark(ns);
    let limit = if own == 0 { 1 } else { 0 };
    let query = Query { limit, sort: None, projection: Some(doc! {"_id": 1}), ..query.clone() };
    let nothing = Entry::of(ns, Read::Find(query), own, Witness::of(Digest::of([])));
    tx.reads.note(Entry { pinned, ..nothing }, core.options.max_documents)
}

/// Counts a check under a lock that has failed. The session's next transaction selects the first
/// document of an order before it locks it; one that validates and loses so again and again is
/// given quiet, as one that loses at its commit.
fn lost(tx: &Transaction, error: Error) -> Error {
    tx.attempts.lost(tx.stamps_of_all_reads(), tx.quiet.as_ref());
    error.for_transaction(tx.id())
}

/// Makes the error of a check one that ends the transaction: a statement has changed a document
/// before the check, and the transaction must not go on with that change.
fn ending(tx: &Transaction, error: Error) -> Error {
    if error.ends_transaction() {
        return error;
    }
    let message = format!("a document was changed, and whether it was the right one is not known: {error}");
    Error::new(ErrorKind::Conflict, message).for_transaction(tx.id())
}
