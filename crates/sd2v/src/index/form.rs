//! The stored forms of an index, and the application's index read back from them.
//!
//! An index of the application is up to three on the server: the index itself (a unique one with
//! the slot as its last field), its mirror on the unsafe versions, and the one by which documents
//! expire. [`plan_creation`] says which are made; [`Index`] is what a list of the server's indexes
//! is read as. When they are made and dropped is decided by the library (`coordinator/schema`); how
//! values of a unique index are compared is in `unique.rs`.

use bson::{Bson, Document, doc};

use super::{Unique, frozen::holds_while_renamed};
use crate::{
    error::Error,
    filter::rewrite_filter,
    names::{READERS, SLOT, UNSAFE, WRITER},
};

/// The index that finds pending documents, in proportion to what is in flight.
pub const PENDING_INDEX: &str = "_mongotx_pending";
/// Prefix of the names of MongoTx's own indexes.
pub(super) const OWN: &str = "_mongotx_";
/// Prefix of the names of stored unique indexes, followed by the application's name.
pub(super) const UNIQUE: &str = "_mongotx_unique.";
const TTL: &str = "_mongotx_ttl.";
const MIRROR: &str = "_mongotx_unsafe.";

/// Specification of the index [`PENDING_INDEX`].
pub fn pending_index() -> Document {
    doc! {"key": {WRITER: 1}, "name": PENDING_INDEX, "sparse": true}
}

/// Returns true if the stored index of this name finds pending documents only, and no committed
/// version.
pub fn is_of_pending(stored_name: &str) -> bool {
    stored_name == PENDING_INDEX || stored_name.starts_with(MIRROR)
}

/// An index as the application knows it, and how it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Specification as the application lists it: `{v, key, name, …}`.
    pub spec: Document,
    /// The name of the stored index that answers its queries.
    pub stored_name: String,
    /// True if it has a mirrored index on unsafe versions.
    pub mirrored: bool,
    /// True if its expiry spares locked documents.
    guarded: bool,
    /// True if another program has set an expiry besides, which does not.
    expires_twice: bool,
    /// True if only MongoTx's parts are stored, and the index itself is missing (or not yet made).
    partial: bool,
}

/// The stored indexes to make for one of the application's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Creation {
    /// The mirrored index, made first: so that no transaction writes past the index while it is
    /// built.
    pub mirror: Option<Document>,
    /// Made after the mirror: the index itself, in its stored form.
    pub main: Vec<Document>,
}

impl Creation {
    /// The application's index that these parts make.
    pub fn index(&self) -> Option<Index> {
        let parts: Vec<Document> = self.main.iter().chain(&self.mirror).cloned().collect();
        interpret(&parts).into_iter().next()
    }
}

impl Index {
    /// The application's name of the index.
    pub fn name(&self) -> &str {
        self.spec.get_str("name").unwrap_or_default()
    }

    /// The application's key pattern of the index.
    pub fn key(&self) -> Document {
        self.spec.get_document("key").cloned().unwrap_or_default()
    }

    /// Returns true if the index itself is there, and not only its mirror.
    pub fn is_stored(&self) -> bool {
        !self.partial
    }

    fn is_id(&self) -> bool {
        self.key().keys().eq(["_id"])
    }

    /// The unique constraint, unless it is the one on `_id`.
    pub fn unique(&self) -> Option<Unique> {
        (is_true(&self.spec, "unique") && !self.is_id()).then(|| Unique::of(&self.spec))
    }

    /// Returns true if there is another stored index with the same key pattern, so that the pattern
    /// alone does not show which one is meant.
    pub fn has_twin(&self) -> bool {
        self.guarded
    }

    /// Every name under which something of it is stored, in the order in which they are to be
    /// dropped: nothing is removed any more once the index is half gone, and what is unique stays
    /// heeded to the end.
    pub fn stored_names(&self) -> Vec<String> {
        let guard = self.guarded.then(|| self.guard_name());
        let own = (!self.partial).then(|| self.stored_name.clone());
        let mirror = self.mirrored.then(|| self.mirror_name());
        [guard, own, mirror].into_iter().flatten().collect()
    }

    /// The name of the stored index whose expiry spares locked documents.
    pub fn guard_name(&self) -> String {
        format!("{TTL}{}", self.name())
    }

    /// Returns true if another program has set an expiry on an index that has one already, where
    /// that program does not see it. The new one counts, once it is stored in place of the other.
    pub fn expires_twice(&self) -> bool {
        self.expires_twice
    }

    /// Returns true if it has this key pattern, its fields in this order, numbers compared by their
    /// values.
    pub fn has_key(&self, key: &Document) -> bool {
        let own = self.key();
        let is_same = |((field, kind), (other, asked)): ((&String, &Bson), (&String, &Bson))| {
            field == other && (kind == asked || direction(kind).is_some() && direction(kind) == direction(asked))
        };
        own.len() == key.len() && own.iter().zip(key).all(is_same)
    }

    /// The stored index by which the server removes what has expired. `None`: nothing in it
    /// expires.
    pub fn expiring(&self) -> Option<String> {
        if self.guarded && !self.expires_twice {
            return Some(self.guard_name());
        }
        self.spec.contains_key("expireAfterSeconds").then(|| self.stored_name.clone())
    }

    /// The stored index to be made so that its documents expire after `seconds` seconds.
    pub fn to_expire(&self, seconds: i64) -> Document {
        let mut spec = self.spec.clone();
        spec.insert("expireAfterSeconds", seconds);
        ttl_spec(&spec)
    }

    /// The name of its mirrored index.
    pub fn mirror_name(&self) -> String {
        format!("{MIRROR}{}", self.name())
    }

    /// Returns true if it is stored so that transactions may write to the collection.
    pub fn is_adopted(&self) -> bool {
        let mirror = !needs_mirror(&self.spec) || self.mirrored;
        let unique = self.unique().is_none() || self.stored_name != self.name();
        let ttl = !self.spec.contains_key("expireAfterSeconds") || self.guarded && !self.expires_twice;
        mirror && unique && ttl
    }
}

/// A message of the server in the application's terms: without the names of stored indexes and
/// fields.
pub fn shown(message: &str) -> String {
    let own = [UNIQUE, TTL, MIRROR];
    let names = own.iter().fold(message.to_owned(), |text, name| text.replace(name, ""));
    let slot = format!(", {SLOT}: null");
    names.replace(&format!("{UNSAFE}."), "").replace(&slot, "")
}

/// A key pattern or a key of a stored index in the application's terms, and whether it was of a
/// mirrored index.
pub fn shown_key(stored: &Document) -> (Document, bool) {
    let prefix = format!("{UNSAFE}.");
    let mirrored = stored.keys().any(|field| field.starts_with(&prefix));
    let shown = stored.iter().filter(|(field, _)| *field != SLOT);
    let shown = shown.map(|(field, value)| (field.strip_prefix(&prefix).unwrap_or(field).to_owned(), value.clone()));
    (shown.collect(), mirrored)
}

/// Returns true if the stored index of this name has the slot as its last field.
pub fn has_slot(stored_name: &str) -> bool {
    stored_name.starts_with(UNIQUE)
}

fn is_true(spec: &Document, option: &str) -> bool {
    match spec.get(option) {
        Some(Bson::Boolean(flag)) => *flag,
        Some(Bson::Int32(flag)) => *flag != 0,
        Some(Bson::Int64(flag)) => *flag != 0,
        Some(Bson::Double(flag)) => *flag != 0.0,
        _ => false,
    }
}

fn direction(kind: &Bson) -> Option<f64> {
    match kind {
        Bson::Int32(n) => Some(f64::from(*n)),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    }
}

/// Returns true if the server would refuse some documents for this index, so that it must see
/// unsafe versions.
fn needs_mirror(spec: &Document) -> bool {
    let Ok(key) = spec.get_document("key") else { return false };
    if !can_mirror(key) || key.keys().eq(["_id"]) {
        return false;
    }
    let special = key.values().any(|kind| matches!(kind.as_str(), Some("2d" | "2dsphere" | "hashed")));
    // Several fields: two of them may not be arrays in one document.
    special || key.len() > 1 || is_true(spec, "unique")
}

/// A collection has one text index only, and a wildcard index covers unsafe versions already.
fn can_mirror(key: &Document) -> bool {
    let wildcard = |field: &String| field == "$**" || field.ends_with(".$**");
    !key.keys().any(wildcard) && !key.values().any(|kind| kind.as_str() == Some("text"))
}

/// Returns the stored form of an index. `mirror`: also on unsafe versions, even if that is not
/// needed.
///
/// # Errors
/// [`Error::Invalid`] (67, CannotCreateIndex) for a name or a field that is MongoTx's own;
/// [`Error::Unsupported`] for a partial filter that cannot be evaluated on unsafe versions.
pub fn plan_creation(spec: &Document, mirror: bool) -> Result<Creation, Error> {
    let spec = named(spec)?;
    let key = spec.get_document("key").cloned().unwrap_or_default();
    let mirrored = needs_mirror(&spec) || mirror && can_mirror(&key) && !key.keys().eq(["_id"]);
    let mut main = Vec::new();
    if spec.contains_key("expireAfterSeconds") {
        main.push(ttl_spec(&spec));
    }
    main.push(main_spec(&spec));
    Ok(Creation { mirror: mirrored.then(|| mirror_spec(&spec)).transpose()?, main })
}

/// With the name that the server would give it, and nothing in it that is reserved.
fn named(spec: &Document) -> Result<Document, Error> {
    let cannot = |message: String| Error::Invalid { code: 67, message };
    let Ok(key) = spec.get_document("key") else {
        return Err(cannot("an index needs a key pattern under \"key\"".to_owned()));
    };
    if key.is_empty() {
        return Err(cannot("an index needs at least one field in its key pattern".to_owned()));
    }
    for field in key.keys() {
        crate::stored::check_path(field)?;
    }
    let mut spec = spec.clone();
    if !spec.contains_key("name") {
        let parts = key.iter().map(|(field, kind)| match kind {
            Bson::String(kind) => format!("{field}_{kind}"),
            Bson::Double(direction) if direction.fract() == 0.0 => format!("{field}_{}", *direction as i64),
            other => format!("{field}_{other}"),
        });
        spec.insert("name", parts.collect::<Vec<_>>().join("_"));
    }
    let name = spec.get_str("name").unwrap_or_default();
    if name.starts_with(OWN) {
        return Err(cannot(format!("the index name {name:?} is reserved: it begins with {OWN:?}")));
    }
    Ok(spec)
}

/// The application's index, as it is stored.
fn main_spec(spec: &Document) -> Document {
    let mut main = spec.clone();
    main.remove("expireAfterSeconds");
    let key = spec.get_document("key").cloned().unwrap_or_default();
    if is_true(spec, "unique") && !key.keys().eq(["_id"]) {
        let mut slotted = key;
        slotted.insert(SLOT, 1);
        main.insert("key", slotted);
        main.insert("name", format!("{UNIQUE}{}", spec.get_str("name").unwrap_or_default()));
    }
    main
}

/// The index by which the server removes what has expired, of unlocked documents only.
fn ttl_spec(spec: &Document) -> Document {
    let mut unlocked = spec.get_document("partialFilterExpression").cloned().unwrap_or_default();
    unlocked.insert(WRITER, Bson::Null);
    unlocked.insert(READERS, Bson::Null);
    let mut ttl = doc! {
        "key": spec.get_document("key").cloned().unwrap_or_default(),
        "name": format!("{TTL}{}", spec.get_str("name").unwrap_or_default()),
        "expireAfterSeconds": spec.get("expireAfterSeconds").cloned().unwrap_or(Bson::Null),
        "partialFilterExpression": unlocked,
    };
    // The filter goes by it.
    ttl.extend(spec.get("collation").map(|collation| ("collation".to_owned(), collation.clone())));
    ttl
}

/// The index on unsafe versions: of documents that have one.
fn mirror_spec(spec: &Document) -> Result<Document, Error> {
    let mut mirror = spec.clone();
    for option in ["v", "ns", "sparse", "expireAfterSeconds", "hidden", "background", "textIndexVersion"] {
        mirror.remove(option);
    }
    let key = spec.get_document("key").cloned().unwrap_or_default();
    let prefixed: Document = key.iter().map(|(field, kind)| (format!("{UNSAFE}.{field}"), kind.clone())).collect();
    let there = doc! {UNSAFE: {"$exists": true}};
    mirror.insert("key", prefixed);
    mirror.insert("name", format!("{MIRROR}{}", spec.get_str("name").unwrap_or_default()));
    match spec.get_document("partialFilterExpression") {
        Ok(filter) => drop(mirror.insert("partialFilterExpression", doc! {"$and": [there, rewrite_filter(filter)?]})),
        // Elements of an array without the field: only a sparse index does not count them as null.
        Err(_) if is_true(spec, "sparse") && is_true(spec, "unique") => drop(mirror.insert("sparse", true)),
        Err(_) => drop(mirror.insert("partialFilterExpression", there)),
    }
    Ok(mirror)
}

/// As [`interpret`], of a collection with this default collation. The server lists no collation for
/// an index that compares bytes; made again, it would get the default one.
pub fn interpret_beside(default: Option<&Document>, stored: &[Document]) -> Vec<Index> {
    let mut found = interpret(stored);
    if default.is_some() {
        for spec in found.iter_mut().map(|index| &mut index.spec).filter(|spec| !spec.contains_key("collation")) {
            spec.insert("collation", doc! {"locale": "simple"});
        }
    }
    found
}

/// The application's indexes, from the server's list.
pub fn interpret(stored: &[Document]) -> Vec<Index> {
    let name = |spec: &Document| spec.get_str("name").unwrap_or_default().to_owned();
    let named = |wanted: &str| stored.iter().find(|spec| name(spec) == wanted);
    let mut found: Vec<Index> = Vec::new();
    for spec in stored {
        let stored_name = name(spec);
        let own_name = match stored_name.strip_prefix(UNIQUE) {
            Some(of) => of.to_owned(),
            None if stored_name.starts_with(OWN) => continue,
            None => stored_name.clone(),
        };
        let ttl = named(&format!("{TTL}{own_name}"));
        let mut shown = spec.clone();
        if let Ok(key) = shown.get_document_mut("key") {
            key.remove(SLOT);
        }
        shown.insert("name", own_name.clone());
        let expires_twice = ttl.is_some() && shown.contains_key("expireAfterSeconds");
        if let Some(expiry) = ttl.and_then(|ttl| ttl.get("expireAfterSeconds")).filter(|_| !expires_twice) {
            shown.insert("expireAfterSeconds", expiry.clone());
        }
        let mirrored = named(&format!("{MIRROR}{own_name}")).is_some();
        found.push(Index { spec: shown, stored_name, mirrored, guarded: ttl.is_some(), expires_twice, partial: false });
    }
    // A unique index that is being made has its mirrored part only: transactions heed it already.
    for spec in stored {
        if let Some(of) = name(spec).strip_prefix(MIRROR)
            && is_true(spec, "unique")
            && !found.iter().any(|index| index.name() == of)
        {
            found.push(unfinished(spec, of, stored));
        }
    }
    found
}

/// What is left of indexes that are no more, or are not made yet: parts that [`interpret`] makes no
/// index of. They have the names and keys of their indexes.
pub fn left_behind(stored: &[Document]) -> Vec<Index> {
    let known = interpret(stored);
    let mut left: Vec<Index> = Vec::new();
    for spec in stored {
        if let Some(of) = part_of(spec.get_str("name").unwrap_or_default())
            && !known.iter().chain(&left).any(|index| index.name() == of)
        {
            left.push(unfinished(spec, of, stored));
        }
    }
    left
}

/// The application's name of the index that this stored one is a part of, beside the index itself.
fn part_of(stored_name: &str) -> Option<&str> {
    stored_name.strip_prefix(MIRROR).or_else(|| stored_name.strip_prefix(TTL))
}

/// Of the names of all stored indexes of a collection: those that are parts of an index that is not
/// there, and those that hold while the collection is renamed.
pub fn missing_index(names: &[String]) -> Vec<String> {
    let there = |name: &str| names.iter().any(|other| other == name);
    let is_alone = |name: &&String| {
        holds_while_renamed(name) || part_of(name).is_some_and(|of| !there(of) && !there(&format!("{UNIQUE}{of}")))
    };
    names.iter().filter(is_alone).cloned().collect()
}

/// The index of which only parts are stored, `part` among them.
fn unfinished(part: &Document, name: &str, stored: &[Document]) -> Index {
    let prefix = format!("{UNSAFE}.");
    let mut spec = part.clone();
    let key = part.get_document("key").cloned().unwrap_or_default();
    let key: Document =
        key.into_iter().map(|(field, kind)| (field.strip_prefix(&prefix).unwrap_or(&field).to_owned(), kind)).collect();
    spec.insert("key", key);
    spec.insert("name", name);
    // To heed more than the index will is to be safe.
    spec.remove("partialFilterExpression");
    let there = |prefix: &str| {
        stored.iter().any(|spec| spec.get_str("name").is_ok_and(|other| other.strip_prefix(prefix) == Some(name)))
    };
    Index {
        spec,
        stored_name: format!("{UNIQUE}{name}"),
        mirrored: there(MIRROR),
        guarded: there(TTL),
        expires_twice: false,
        partial: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(models: &[(Document, bool)]) -> Vec<Document> {
        let plan = |(spec, mirror): &(Document, bool)| {
            let creation = plan_creation(spec, *mirror).unwrap();
            creation.mirror.into_iter().chain(creation.main)
        };
        models.iter().flat_map(plan).collect()
    }

    fn is_named(spec: &Document, name: &str) -> bool {
        spec.get_str("name").is_ok_and(|own| own == name)
    }

    fn without(stored: &[Document], gone: &[String]) -> Vec<Document> {
        stored.iter().filter(|spec| !gone.iter().any(|name| is_named(spec, name))).cloned().collect()
    }

    /// However far an index was dropped, its next drop finds the rest, by its name and its key; and
    /// nothing expires once a part of it is gone.
    #[test]
    fn index_that_is_dropped_half_way_is_found_again() {
        let all = stored(&[
            (doc! {"key": {"at": 1}, "name": "ttl", "expireAfterSeconds": 5}, true),
            (doc! {"key": {"u": 1}, "name": "unique ttl", "expireAfterSeconds": 5, "unique": true}, false),
            (doc! {"key": {"m": 1}, "name": "mirrored"}, true),
        ]);
        assert!(left_behind(&all).is_empty());
        for index in interpret(&all) {
            let names = index.stored_names();
            for dropped in 1..names.len() {
                let rest = without(&all, &names[..dropped]);
                assert!(!rest.iter().any(|spec| is_named(spec, &index.guard_name())), "{names:?}");
                let found: Vec<Index> = interpret(&rest).into_iter().chain(left_behind(&rest)).collect();
                let one = found.iter().find(|found| found.name() == index.name()).unwrap();
                assert!(one.has_key(&index.key()), "{one:?}");
                assert_eq!(one.stored_names(), names[dropped..]);
            }
        }
    }

    /// A drop that began with the index itself.
    #[test]
    fn guard_that_is_alone_is_left_behind() {
        let all = stored(&[(doc! {"key": {"at": 1}, "name": "ttl", "expireAfterSeconds": 5}, true)]);
        let rest = without(&all, &["ttl".to_owned()]);
        let left = left_behind(&rest);
        assert_eq!((left.len(), left[0].name()), (1, "ttl"));
        assert!(left[0].has_key(&doc! {"at": 1}) && !left[0].is_stored());
        assert_eq!(left[0].stored_names(), ["_mongotx_ttl.ttl", "_mongotx_unsafe.ttl"]);
    }
}
