//! The properties of a collection that matter to transactions, read from the server's lists: its
//! kind, its unique and text indexes, its mirrors, whether it is watched. Sends nothing: when
//! they are looked up is decided in `mod.rs`, and how long they are believed in `cache.rs`.

use std::sync::Arc;

use bson::{Bson, Document};
use sd2v::{
    index::{self, Index, PENDING_INDEX, Unique, touches_stored},
    text::{check_text_document, is_on_every_field},
    update::Update,
    validator,
};

use super::{special::unlockable_kind, wide::WideProbes};
use crate::error::Result;

/// The option of a collection that is watched.
pub(super) const IMAGES: &str = "changeStreamPreAndPostImages";

/// A collection as transactions see it.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    /// Why transactions can lock nothing in it, not even for reading.
    pub(crate) unlockable: Option<String>,
    /// Why no transaction may write to it: that, or another reason.
    pub(super) refused: Option<String>,
    /// True if it is a time series, in which nothing is ever pending.
    pub(super) is_series: bool,
    /// Strings compare by its default collation, not by their bytes.
    pub(crate) has_collation: bool,
    /// The default collation, with all of its options.
    pub(crate) collation: Option<Document>,
    /// True if it is stored in the order of its `_id`s, without an index on it.
    pub(crate) is_clustered: bool,
    /// Definition of the view, if it is one.
    pub(crate) view: Option<ViewOptions>,
    /// The application's indexes, without MongoTx's own.
    pub(crate) indexes: Vec<Index>,
    /// The unique ones, but for that on `_id`.
    pub(crate) uniques: Vec<Unique>,
    /// The unique indexes whose build is complete: during a build, older documents may share a key.
    pub(super) made: Vec<Unique>,
    /// True if so many documents are pending that queries had better search the mirrored indexes
    /// for them.
    pub(super) crowded: bool,
    wide_probes: Arc<WideProbes>,
    /// True if pending documents are found by an index.
    has_pending_index: bool,
    /// The validator as it is stored.
    pub(super) validator: Option<Document>,
    /// Content of the change events, if the collection is watched.
    pub(crate) watch: Option<Watch>,
}

/// Content of the change events of a watched collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Events hold the changed fields only.
    Changes,
    /// Besides, the documents as they were before, and as they are afterwards.
    WithImages,
}

/// A view, as the server keeps it.
#[derive(Clone, Debug)]
pub(crate) struct ViewOptions {
    pub(crate) on: String,
    pub(crate) pipeline: Vec<Document>,
    pub(crate) collation: Option<Document>,
}

impl ViewOptions {
    fn parse_view(kind: &str, options: &Document) -> Option<Self> {
        let on = options.get_str("viewOn").ok().filter(|_| kind == "view")?.to_owned();
        let stages = options.get_array("pipeline").into_iter().flatten();
        let pipeline = stages.filter_map(|stage| stage.as_document().cloned()).collect();
        Some(Self { on, pipeline, collation: options.get_document("collation").ok().cloned() })
    }
}

impl Collection {
    /// A collection that is not there: it will be an ordinary one, unless its name says otherwise.
    pub(super) fn missing(unlockable: Option<String>) -> Self {
        Self { refused: unlockable.clone(), unlockable, ..Self::default() }
    }

    /// `by_name`: why its name alone makes it unlockable.
    pub(super) fn read(by_name: Option<String>, info: &Document, stored: &[Document]) -> Self {
        let options = info.get_document("options").cloned().unwrap_or_default();
        let collation = options.get_document("collation").ok();
        let indexes = index::interpret_beside(collation, stored);
        let kind = info.get_str("type").unwrap_or("collection");
        let unlockable = by_name.or_else(|| unlockable_kind(kind, &options));
        let has_images = options.get_document(IMAGES).is_ok_and(|images| images.get("enabled") == Some(&true.into()));
        Self {
            watch: (has_images && unlockable.is_none()).then_some(Watch::WithImages),
            refused: unlockable.clone().or_else(|| indexes.iter().find_map(refused_index)),
            unlockable,
            is_series: kind == "timeseries",
            view: ViewOptions::parse_view(kind, &options),
            crowded: false,
            wide_probes: Arc::default(),
            has_pending_index: stored.iter().any(|index| index.get_str("name").is_ok_and(|name| name == PENDING_INDEX)),
            has_collation: options.contains_key("collation"),
            collation: collation.cloned(),
            is_clustered: options.contains_key("clusteredIndex"),
            uniques: indexes.iter().filter_map(Index::unique).collect(),
            made: indexes.iter().filter(|index| index.is_stored()).filter_map(Index::unique).collect(),
            indexes,
            validator: options.get_document("validator").ok().filter(|validator| !validator.is_empty()).cloned(),
        }
    }

    /// Returns true if everything is stored in the form that transactions need.
    pub(super) fn is_adopted(&self) -> bool {
        let validated = self.validator.as_ref().is_none_or(|stored| validator::unwrap(stored).is_some());
        validated && self.indexes.iter().all(Index::is_adopted)
    }

    /// Returns true if a mirrored index finds pending documents faster than the index on all of
    /// them.
    pub(crate) fn asks_mirrors(&self, filter: &Document) -> bool {
        let leads = |index: &Index| index.key().keys().next().is_some_and(|field| filter.contains_key(field));
        self.crowded && self.indexes.iter().any(|index| index.mirrored && leads(index))
    }

    /// The counters of looks for all writers, if many documents were pending when it was looked up.
    /// `None` if it has no mirrored index, none on pending documents, or a collation.
    pub(crate) fn wide_probes(&self) -> Option<Arc<WideProbes>> {
        (self.crowded && self.has_pending_index && !self.has_collation).then(|| Arc::clone(&self.wide_probes))
    }

    /// Returns true if it has any mirrored index.
    pub(super) fn has_mirrors(&self) -> bool {
        self.indexes.iter().any(|index| index.mirrored)
    }

    /// The unique indexes that an update of a document may touch.
    pub(crate) fn uniques_touched(&self, update: &Update) -> Vec<Unique> {
        self.uniques.iter().filter(|unique| touches_stored(update, &unique.fields())).cloned().collect()
    }

    /// Returns true if the filter demands one key of a unique index, so that at most one document
    /// matches.
    pub(crate) fn is_pinned_by(&self, filter: &Document) -> bool {
        self.pinned_key(filter).is_some()
    }

    /// The key of a unique index that the filter demands, as the filter names it.
    pub(crate) fn pinned_key(&self, filter: &Document) -> Option<Document> {
        let of_any = || self.made.iter().find_map(|unique| unique.pinned_key(filter));
        if self.has_collation { None } else { of_any() }
    }

    /// The fields of the unique indexes whose keys name one document.
    pub(crate) fn plain_keys(&self) -> Vec<Vec<String>> {
        let plain = self.made.iter().filter(|unique| unique.is_plain() && !self.has_collation);
        plain.map(|unique| unique.key.keys().cloned().collect()).collect()
    }

    /// Number of keys of a unique index that the filter allows: of that many documents that match,
    /// each has one, and no other document matches.
    pub(crate) fn keys_allowed(&self, filter: &Document) -> Option<usize> {
        if self.has_collation { None } else { self.made.iter().filter_map(|unique| unique.keys_allowed(filter)).min() }
    }

    /// Returns true if a write of one document outside a transaction must be one of its own,
    /// because pending values count, or because it leaves an event.
    pub(crate) fn needs_transaction(&self, update: Option<&Update>) -> bool {
        // If no transaction may write to it, the transaction reports that.
        self.watch.is_some()
            || self.refused.is_none()
                && update.map_or(!self.uniques.is_empty(), |update| !self.uniques_touched(update).is_empty())
    }

    /// Refuses a document that the text index could not hold when it is finished.
    pub(crate) fn check_words(&self, document: &Document) -> Result<()> {
        let mut text = self.indexes.iter().filter(|index| index.spec.contains_key("textIndexVersion"));
        text.try_for_each(|index| Ok(check_text_document(document, &index.spec)?))
    }

    /// Returns true if it has a text index.
    pub(crate) fn has_words(&self) -> bool {
        self.indexes.iter().any(|index| index.spec.contains_key("textIndexVersion"))
    }

    /// Returns true if a text index could refuse what the update makes of a document.
    pub(crate) fn words_touched(&self, update: &Update) -> bool {
        self.indexes.iter().any(|index| touches_stored(update, &text_fields(&index.spec)))
    }

    /// A hint as the server must get it: the stored name where that is another.
    pub(crate) fn stored_hint(&self, hint: &Bson) -> Option<Bson> {
        let asked = self.indexes.iter().find(|index| match hint {
            Bson::String(name) => index.name() == name,
            Bson::Document(key) => index.has_key(key),
            _ => false,
        })?;
        let ambiguous = matches!(hint, Bson::Document(_)) && asked.has_twin();
        (ambiguous || asked.stored_name != asked.name()).then(|| Bson::String(asked.stored_name.clone()))
    }
}

/// Fields that a text index covers in a document; none for another kind of index.
fn text_fields(spec: &Document) -> Vec<&str> {
    let Ok(weights) = spec.get_document("weights") else { return Vec::new() };
    let others =
        spec.get_document("key").into_iter().flat_map(Document::keys).filter(|field| !field.starts_with("_fts"));
    let language = spec.get_str("language_override").unwrap_or("language");
    weights.keys().chain(others).map(String::as_str).chain([language]).collect()
}

/// A text index on every field covers uncommitted versions, too.
fn refused_index(index: &Index) -> Option<String> {
    let on_every_field = is_on_every_field(&index.spec);
    on_every_field.then(|| format!("its text index {:?} on every field would find what is not committed", index.name()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::doc;
    use sd2v::index::plan_creation;

    use super::*;

    /// Documents from before may share a key until the index itself is there, and its mirror is
    /// made first.
    #[test]
    fn a_unique_index_that_is_being_made_pins_nothing_and_is_heeded() {
        let creation = plan_creation(&doc! {"key": {"k": 1}, "unique": true}, true).unwrap();
        let mirror = creation.mirror.unwrap();
        let whole: Vec<Document> = creation.main.into_iter().chain([mirror.clone()]).collect();
        let made = Collection::read(None, &doc! {}, &whole);
        let being_made = Collection::read(None, &doc! {}, &[mirror]);
        let filter = doc! {"k": 1};
        assert!(made.is_pinned_by(&filter) && made.keys_allowed(&filter) == Some(1));
        assert!(!being_made.is_pinned_by(&filter) && being_made.keys_allowed(&filter).is_none());
        assert_eq!((made.uniques.len(), being_made.uniques.len()), (1, 1));
    }
}
