//! A query, as the application writes it, and what its filter says about `_id`s.

use std::borrow::Cow;

use bson::{Bson, Document, Regex, doc};
use sd2v::{filter, projection, stored};

use super::query_options::QueryOptions;
use crate::{
    coordinator::{
        Core,
        request::address::{Address, among},
    },
    error::Result,
    options::Namespace,
};

/// A `find`, as the application writes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Query {
    pub(crate) filter: Document,
    pub(crate) sort: Option<Document>,
    pub(crate) skip: u64,
    /// Greatest number of documents; 0 for no limit.
    pub(crate) limit: u64,
    pub(crate) projection: Option<Document>,
    pub(crate) batch_size: Option<u32>,
    /// True if the documents found are going to be locked: then pending ones are better finished
    /// than shown as they are.
    pub(crate) is_for_locks: bool,
    pub(crate) options: QueryOptions,
}

impl Query {
    pub(crate) fn of(filter: Document, options: QueryOptions) -> Self {
        Self { filter, options, ..Self::default() }
    }

    /// The query with a hint that the server knows.
    pub(crate) async fn resolved(&self, core: &Core, ns: &Namespace) -> Result<Cow<'_, Self>> {
        Ok(match self.options.resolved(core, ns).await? {
            Cow::Borrowed(_) => Cow::Borrowed(self),
            Cow::Owned(options) => Cow::Owned(Self { options, ..self.clone() }),
        })
    }

    /// Returns true if filter or projection reads stored documents as a whole, their locks
    /// included.
    pub(crate) fn sees_lock_fields(&self) -> bool {
        filter::sees_lock_fields(&self.filter) || self.projection.as_ref().is_some_and(projection::shows_lock_fields)
    }

    /// Returns true if the server fetches the one document and never looks at the sort.
    pub(crate) fn is_fetch(&self) -> bool {
        let one = |value: &Bson| !matches!(value, Bson::Document(operators) if operators.contains_key("$in"));
        let by_id = filter::is_only_id(&self.filter) && self.filter.get("_id").is_some_and(one);
        by_id && self.skip == 0 && self.options.hint.is_none()
    }

    /// Returns true if filter and order are about nothing but the `_id`, so that they mean the same
    /// for both versions of a document, which is to be shown.
    pub(crate) fn is_by_id_alone(&self) -> bool {
        let names = self.filter.keys().chain(self.sort.iter().flat_map(Document::keys));
        !self.is_for_locks && !self.filter.is_empty() && names.into_iter().all(|name| name == "_id")
    }

    /// Returns true if its answer is one document, as the application wrote it, or none, and
    /// nothing else.
    pub(crate) fn is_whole_document(&self) -> bool {
        let bare = self.skip == 0 && self.projection.is_none() && self.options.collation.is_none();
        bare && self.options.staleness.is_none() && self.options.find_only.is_none() && filter::is_only_id(&self.filter)
    }

    /// Returns true if it answers every document that matches, with its `_id`.
    pub(crate) fn lists_documents(&self) -> bool {
        self.skip == 0 && self.limit == 0 && self.shows_ids()
    }

    /// Returns true if each document of the answer has its `_id`.
    pub(crate) fn shows_ids(&self) -> bool {
        let shows_id = |projection: &Document| match projection.get("_id") {
            None | Some(Bson::Boolean(true)) => true,
            Some(value) => [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0)].contains(value),
        };
        let shows_keys = self.options.find_only.as_ref().is_some_and(|only| only.return_key);
        !shows_keys && self.projection.as_ref().is_none_or(shows_id)
    }

    /// # Errors
    /// Names the condition or option that MongoTx does not support.
    pub(crate) fn check(&self) -> Result<()> {
        filter::check_filter(&self.filter)?;
        if let Some(projection) = &self.projection {
            projection::check_projection(projection)?;
        }
        let bounds = self.options.find_only.iter().flat_map(|only| [&only.min, &only.max]).flatten();
        for field in self.sort.iter().chain(bounds).flat_map(Document::keys) {
            stored::check_path(field)?;
        }
        Ok(())
    }

    /// The one `_id` that can match, where strings compare by their bytes.
    pub(crate) async fn pinned_id(&self, core: &Core, ns: &Namespace) -> Result<Option<Bson>> {
        pinned_id(core, ns, &self.filter, &self.options).await
    }

    /// `find` on stored documents, with this filter and the query's other options.
    pub(crate) fn to_find(&self, ns: &Namespace, filter: Document) -> Document {
        let mut find = doc! {"find": &ns.coll, "filter": filter};
        if let Some(sort) = self.sort.as_ref().filter(|sort| !sort.is_empty()) {
            find.insert("sort", sort.clone());
        }
        if self.skip > 0 {
            find.insert("skip", self.skip as i64);
        }
        if self.limit > 0 {
            find.insert("limit", self.limit as i64);
        }
        if let Some(projection) = &self.projection {
            find.insert("projection", projection::with_lock_fields(projection));
        }
        if let Some(size) = self.batch_size {
            find.insert("batchSize", i64::from(size));
        }
        self.options.add_to(&mut find);
        self.options.add_hint(&mut find);
        if let Some(find_only) = &self.options.find_only {
            find_only.add_to(&mut find);
        }
        find
    }
}

/// The one `_id` that the filter can match: `None` when there may be others, or when a collation
/// decides which.
pub(crate) async fn pinned_id(
    core: &Core,
    ns: &Namespace,
    filter: &Document,
    options: &QueryOptions,
) -> Result<Option<Bson>> {
    let Some(mut ids) = filter::pinned_ids(filter) else { return Ok(None) };
    if ids.len() != 1 {
        return Ok(None);
    }
    let Some(id) = ids.pop() else { return Ok(None) };
    let by_bytes = matches!(
        id,
        Bson::ObjectId(_)
            | Bson::Int32(_)
            | Bson::Int64(_)
            | Bson::Double(_)
            | Bson::Boolean(_)
            | Bson::DateTime(_)
            | Bson::Binary(_)
            | Bson::Decimal128(_)
    );
    if by_bytes {
        return Ok(Some(id));
    }
    let collated = options.collation.is_some() || core.catalog.look_up(ns).await?.has_collation;
    Ok((!collated).then_some(id))
}

/// The condition for just these `_id`s, in a command with these options: under a collation a string
/// equals others, but not as a pattern. (A document that holds strings has no such pattern.)
pub(crate) fn exactly(addresses: &[Address], options: &QueryOptions) -> Document {
    if options.collation.is_none() {
        return among(addresses);
    }
    let patterns: Vec<Address> =
        addresses.iter().map(|at| Address::new(exact_pattern(&at.id), at.key().clone())).collect();
    among(&patterns)
}

fn exact_pattern(id: &Bson) -> Bson {
    let Bson::String(text) = id else { return id.clone() };
    let quoted = format!(r"^\Q{}\E\z", text.replace(r"\E", r"\E\\E\Q"));
    match (quoted.try_into(), "".try_into()) {
        (Ok(pattern), Ok(options)) => Regex { pattern, options }.into(),
        _ => id.clone(),
    }
}

/// As [`pinned_id`], for a write that goes straight to that document: without a hint, which the
/// server would check, and without a condition that only an index answers.
pub(crate) async fn named_id(
    core: &Core,
    ns: &Namespace,
    filter: &Document,
    options: &QueryOptions,
) -> Result<Option<Bson>> {
    if options.hint.is_some() || filter::has_special(filter) {
        return Ok(None);
    }
    pinned_id(core, ns, filter, options).await
}
