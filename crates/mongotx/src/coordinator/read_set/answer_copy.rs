//! Copy of the answer to a query, with the fields that it shows: a few small documents, of a query
//! that names them by their `_id`s.

use std::collections::{HashMap, HashSet};

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use sd2v::filter::{Exact, exact, is_only_id, pinned_ids};

use crate::coordinator::request::{own_key::OwnKey, query::Query};

/// Documents of one answer, and bytes of all of them.
const MOST_DOCUMENTS: usize = 64;
const MOST_BYTES: usize = 16 * 1024;
/// Limit of fields of one document.
const MOST_FIELDS: usize = 16;
/// Limit of answers that one transaction keeps copies of.
pub(super) const MOST_ANSWERS: usize = 64;

/// Copy of the documents of the answer to one query.
#[derive(Debug)]
pub(crate) struct AnswerCopy {
    /// The fields that are shown, `_id` among them.
    fields: Vec<String>,
    /// The number of `_id`s in the query.
    named: usize,
    documents: HashMap<OwnKey, RawDocumentBuf>,
    bytes: usize,
    /// The documents that the transaction has locked as they were read.
    locked: HashSet<OwnKey>,
}

impl AnswerCopy {
    /// Place for the answer to this query. `None`: the answer to this query is not copied.
    pub(crate) fn of(query: &Query) -> Option<Self> {
        let options = &query.options;
        let is_plain = options.is_plain()
            && options.hint.is_none()
            && query.skip == 0
            && query.sort.is_none()
            && !query.is_for_locks;
        if !is_plain || !is_only_id(&query.filter) || query.sees_lock_fields() {
            return None;
        }
        let fields = shown_fields(query.projection.as_ref()?)?;
        let named = pinned_ids(&query.filter)?.iter().map(OwnKey::of_simple).collect::<Option<HashSet<_>>>()?.len();
        let may_show_all = query.limit == 0 || usize::try_from(query.limit).is_ok_and(|limit| limit >= named);
        let fits = (1..=MOST_DOCUMENTS).contains(&named) && may_show_all;
        fits.then(|| Self { fields, named, documents: HashMap::new(), bytes: 0, locked: HashSet::new() })
    }

    /// The answer with one more document. `None`: it has become too large, or unclear.
    pub(super) fn with(mut self, document: &RawDocument) -> Option<Self> {
        self.bytes += document.as_bytes().len();
        if self.bytes > MOST_BYTES || self.has_all() {
            return None;
        }
        let key = OwnKey::of_simple(&id_of(document)?)?;
        let is_new = self.documents.insert(key, document.to_owned()).is_none();
        is_new.then_some(self)
    }

    /// Returns true if every `_id` of the query has a document.
    pub(super) fn has_all(&self) -> bool {
        self.documents.len() == self.named
    }

    /// The document with this `_id`.
    pub(super) fn get(&self, key: &OwnKey) -> Option<&RawDocumentBuf> {
        self.documents.get(key)
    }

    /// The fields that are shown, `_id` among them.
    pub(super) fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The transaction has locked the document, and it was as it was read.
    pub(super) fn note_locked(&mut self, key: &OwnKey) {
        self.locked.insert(key.clone());
    }

    /// Returns true if every document is locked, as it was read.
    pub(super) fn is_locked(&self) -> bool {
        self.has_all() && self.locked.len() == self.named
    }

    /// Conditions under which all fields of the document are as they were read. `None`: there are
    /// none for the value of one of them.
    pub(super) fn conditions(&self, key: &OwnKey) -> Option<Vec<Exact>> {
        let document = self.documents.get(key)?;
        let condition = |field: &String| {
            let value = document.get(field).ok()?.map(Bson::try_from).transpose().ok()?;
            exact(field, value.as_ref())
        };
        self.fields.iter().map(condition).collect()
    }
}

/// The `_id` of a document.
fn id_of(document: &RawDocument) -> Option<Bson> {
    Bson::try_from(document.get("_id").ok()??).ok()
}

/// The fields that a projection shows, if it is a list of such and shows the `_id`.
fn shown_fields(projection: &Document) -> Option<Vec<String>> {
    let is_shown = |value: &Bson| matches!(value, Bson::Boolean(true) | Bson::Int32(1) | Bson::Int64(1));
    let is_plain = |name: &String| !name.is_empty() && !name.contains(['.', '$']);
    let fits = !projection.is_empty() && projection.len() <= MOST_FIELDS;
    if !fits || !projection.values().all(is_shown) || !projection.keys().all(is_plain) {
        return None;
    }
    let others = projection.keys().filter(|name| *name != "_id");
    Some(["_id".to_owned()].into_iter().chain(others.cloned()).collect())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn copied(filter: Document, projection: Document) -> Option<AnswerCopy> {
        AnswerCopy::of(&Query { filter, projection: Some(projection), ..Query::default() })
    }

    #[test]
    fn answers_of_few_documents_and_fields_are_copied() {
        let both = || doc! {"_id": {"$in": [1, 2]}};
        assert!(copied(both(), doc! {"a": 1, "_id": true}).is_some());
        let ids: Vec<i32> = (0..=MOST_DOCUMENTS as i32).collect();
        let names: Document = (0..=MOST_FIELDS).map(|name| (format!("f{name}"), Bson::Int32(1))).collect();
        for (filter, projection) in [
            (doc! {"_id": {"$in": ids}}, doc! {"a": 1}),
            (both(), names),
            (both(), doc! {}),
            (both(), doc! {"a": 0}),
            (both(), doc! {"a": 1, "_id": 0}),
            (both(), doc! {"a.b": 1}),
            (both(), doc! {"a": "$b"}),
            (doc! {"_id": 1, "b": 2}, doc! {"a": 1}),
            (doc! {"_id": {"$gt": 1}}, doc! {"a": 1}),
            (doc! {"_id": 1.5}, doc! {"a": 1}),
            (doc! {"_id": {"$in": []}}, doc! {"a": 1}),
        ] {
            assert!(copied(filter.clone(), projection.clone()).is_none(), "{filter} {projection}");
        }
        let query =
            |limit, skip| Query { filter: both(), projection: Some(doc! {"a": 1}), limit, skip, ..Query::default() };
        assert!(AnswerCopy::of(&query(2, 0)).is_some());
        assert!(AnswerCopy::of(&query(1, 0)).is_none() && AnswerCopy::of(&query(0, 1)).is_none());
        let mut hinted = query(0, 0);
        hinted.options.hint = Some("a_1".into());
        assert!(AnswerCopy::of(&hinted).is_none());
    }
}
