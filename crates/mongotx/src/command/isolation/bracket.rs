//! Answers that cannot be compared with those to the same commands sent again, and the documents of
//! others that matter to them, which can.

use bson::{Bson, RawDocument, RawDocumentBuf, doc};

use super::committed;
use crate::{
    command::query::{documents::Documents, drawn},
    coordinator::{
        Core,
        queries::nondeterminism,
        read_set::{
            Entry, Read,
            witness::{Digest, Witness},
        },
        request::{query::Query, query_options::QueryOptions},
        stamps::{changes::stamps_of_reads, tag::Tags},
        transaction::Transaction,
        validating::looks::{FirstLook, begin_for},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that an answer and what went into it are read because the collections changed in between.
const BRACKETS: usize = 16;
/// Number of disturbed attempts before quiet is requested.
const DISTURBED: usize = 3;
/// Own documents that one filter names.
const MAX_EXCLUDED: usize = 5_000;
/// Length of them all. They stand in several conditions of one command.
const MAX_EXCLUDED_BYTES: usize = 256 * 1_024;

/// An answer that cannot be compared with the same command sent again, because it shows what the
/// transaction has written, or rests on chance. Between two looks at the change stamps that agree,
/// the documents that matter to it are read and then the answer itself: these documents are noted
/// in its place.
///
/// No transaction of others commits between the two looks. A single write outside transactions
/// leaves no stamp, so the order matters: whatever it changes behind the first read, before the
/// answer or after it, differs at the commit from what was noted, unless the value comes back.
pub(super) struct Bracket<'a> {
    core: &'a Core,
    /// Documents that matter to the answer, by collection.
    matter: Vec<(Namespace, Query)>,
    /// Number of documents of each collection that are the transaction's own.
    own: Vec<usize>,
    stamps: Tags,
    look: Option<FirstLook>,
    /// What is noted if the later look agrees.
    entries: Vec<Entry>,
    left: usize,
}

impl<'a> Bracket<'a> {
    pub(super) fn of(core: &'a Core, tx: &Transaction, matter: Vec<(Namespace, Query)>) -> Self {
        let own = matter.iter().map(|(ns, _)| tx.own_mark(ns)).collect();
        let stamps = matter.iter().flat_map(|(ns, _)| stamps_of_reads(ns, None)).collect();
        Self { core, matter, own, stamps, look: None, entries: Vec::new(), left: BRACKETS }
    }

    /// Call before the command is sent: takes the first look, and reads the documents that matter.
    pub(super) async fn open(&mut self, tx: &Transaction) -> Result<()> {
        if self.look.is_none() {
            self.look = Some(self.core.looks.first_look(tx, &self.stamps).await?);
        }
        self.entries.clear();
        for ((ns, query), own) in self.matter.iter().zip(&self.own) {
            let found = at_hand(self.core, committed::find(self.core, None, ns, query).await?).await?;
            let others = found.iter().filter(|document| !id_of(document).is_some_and(|id| tx.was_own(ns, &id, *own)));
            let witness = Witness::of(Digest::of(others.map(AsRef::as_ref)));
            self.entries.push(Entry::of(ns, Read::Find(query.clone()), *own, witness));
        }
        Ok(())
    }

    /// Call after it was answered. False: it has to be sent again.
    pub(super) async fn close(&mut self, tx: &mut Transaction) -> Result<bool> {
        let later = self.core.looks.look_at_changes(begin_for(tx)).await?;
        let changed = self.look.as_ref().and_then(|look| look.changed_at(&later, &self.stamps));
        let unchanged = changed.is_some_and(|changed| changed.is_empty());
        self.look = Some(self.core.looks.as_first(later, tx));
        if unchanged {
            let mut entries = std::mem::take(&mut self.entries).into_iter();
            entries.try_for_each(|entry| tx.reads.note(entry, self.core.options.max_documents))?;
            if tx.id().is_some() {
                self.core.quiet.end_quiet(tx).await;
            }
            return Ok(true);
        }
        self.left -= 1;
        if self.left == BRACKETS - DISTURBED {
            self.core.quiet.ask_for_quiet(tx, &self.stamps).await;
        }
        if self.left > 0 {
            return Ok(false);
        }
        tx.attempts.lost(self.stamps.clone(), tx.quiet.as_ref());
        let message =
            format!("collections changed {BRACKETS} times while they were read beside the transaction's own writes");
        Err(Error::new(ErrorKind::Conflict, message).for_transaction(tx.id()))
    }
}

/// The documents of others that the query would find if it were theirs alone.
pub(super) async fn matters_to(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<Query> {
    let options = QueryOptions { staleness: None, find_only: None, is_always_probed: true, ..query.options.clone() };
    if nondeterminism::is_in(&query.filter) {
        // Its other conditions decide which documents chance is asked of.
        let rest = drawn::lasting(&query.filter).ok().flatten().filter(|rest| !nondeterminism::is_in(rest));
        return Ok(Query::of(rest.unwrap_or_default(), options));
    }
    let all = Query { sort: query.sort.clone(), ..Query::of(query.filter.clone(), options) };
    let own = tx.own_ids(ns);
    if query.limit == 0 || are_many(&own)? || may_equal_others(core, ns, query, &own).await? {
        return Ok(all);
    }
    // As many of the others as there can be in the answer.
    let filter = match own.is_empty() {
        true => all.filter.clone(),
        false => doc! {"$and": [all.filter.clone(), {"_id": {"$nin": own}}]},
    };
    Ok(Query { filter, limit: query.skip.saturating_add(query.limit), ..all })
}

/// The same for an answer that shows documents. Which are the first few has to be certain then,
/// however the server finds them: of documents that stand at the same place of the order, the
/// answer may show others than are noted.
pub(super) async fn matters_to_shown(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<Query> {
    if query.limit == 0 || has_one_order(core, ns, query).await? {
        return matters_to(core, tx, ns, query).await;
    }
    matters_to(core, tx, ns, &Query { limit: 0, ..query.clone() }).await
}

/// Returns true if no two documents that match stand at the same place of the order: it contains
/// the `_id`, or with what the filter demands a unique key.
async fn has_one_order(core: &Core, ns: &Namespace, query: &Query) -> Result<bool> {
    let Some(sort) = &query.sort else { return Ok(false) };
    if sort.contains_key("_id") {
        return Ok(true);
    }
    let mut demanded = query.filter.clone();
    demanded.extend(sort.keys().map(|field| (field.clone(), Bson::Int32(1))));
    // A `$meta` in an order is no field.
    let is_simple = query.options.collation.is_none() && !sort.values().any(|by| matches!(by, Bson::Document(_)));
    Ok(is_simple && core.catalog.look_up(ns).await?.is_pinned_by(&demanded))
}

/// Returns true if these are more, or longer, than one filter may name.
fn are_many(own: &[Bson]) -> Result<bool> {
    if own.is_empty() || own.len() > MAX_EXCLUDED {
        return Ok(!own.is_empty());
    }
    Ok(RawDocumentBuf::try_from(&doc! {"ids": own.to_vec()})?.as_bytes().len() > MAX_EXCLUDED_BYTES)
}

/// Returns true if an `_id` of another document can be equal to one of these. Strings can, under a
/// collation.
async fn may_equal_others(core: &Core, ns: &Namespace, query: &Query, own: &[Bson]) -> Result<bool> {
    if own.iter().all(is_equal_by_bytes) {
        return Ok(false);
    }
    Ok(query.options.collation.is_some() || core.catalog.look_up(ns).await?.has_collation)
}

fn is_equal_by_bytes(id: &Bson) -> bool {
    !matches!(id, Bson::String(_) | Bson::Symbol(_) | Bson::Document(_) | Bson::Array(_))
}

/// Reads all documents of an answer into memory.
pub(super) async fn at_hand(core: &Core, found: Documents) -> Result<Vec<RawDocumentBuf>> {
    let limit = core.options.max_documents;
    let found = found.all_raw(limit.saturating_add(1)).await?;
    if found.len() <= limit {
        return Ok(found);
    }
    let message = format!(
        "a query of what the transaction has written itself answers at most {limit} documents, so that they can be validated"
    );
    Err(Error::too_large(message))
}

/// The `_id` of a document as it is answered.
pub(super) fn id_of(document: &RawDocument) -> Option<Bson> {
    Bson::try_from(document.get("_id").ok()??).ok()
}
