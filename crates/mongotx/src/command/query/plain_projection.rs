//! Plain projections, which this library can apply by itself: flags of top-level fields. Those of
//! `findAndModify` say which fields are shown of a document that one command locks, changes and
//! shows.

use bson::{Bson, Document};
use sd2v::names::{UNSAFE, WRITER};

/// Fields that a `findAndModify` shows, and the side that picks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownFields<'a> {
    /// The whole document is shown.
    Whole,
    /// This library picks them from the whole document, by flags of top-level fields.
    Library(&'a Document),
    /// The server picks them from the version in question, by flags that include fields of any
    /// depth.
    Server(&'a Document),
}

impl<'a> ShownFields<'a> {
    /// The fields that a projection shows. `None`: it says more than that.
    pub(crate) fn of(projection: Option<&'a Document>) -> Option<Self> {
        match projection.filter(|projection| !projection.is_empty()) {
            None => Some(Self::Whole),
            Some(plain) if is_plain_projection(plain) => Some(Self::Library(plain)),
            Some(fields) if is_inclusion(fields) => Some(Self::Server(fields)),
            Some(_) => None,
        }
    }

    /// Fields of the stored document to ask the server for: those of the version before or `after`
    /// the change, and the write lock. `None`: the whole document.
    pub(crate) fn stored_fields(&self, after: bool) -> Option<Document> {
        let Self::Server(projection) = self else { return None };
        let shown = |name: &str| (if after { format!("{UNSAFE}.{name}") } else { name.to_owned() }, Bson::Int32(1));
        let own = ["_id", WRITER].map(|name| (name.to_owned(), Bson::Int32(1)));
        let id = shows_id(projection).then(|| shown("_id"));
        Some(own.into_iter().chain(id).chain(others(projection).map(|(name, _)| shown(name))).collect())
    }

    /// The fields that are shown of a document as it was answered.
    pub(crate) fn picked(&self, mut document: Document) -> Document {
        match self {
            Self::Whole => document,
            Self::Library(projection) => picked(document, projection),
            Self::Server(projection) => {
                if !shows_id(projection) {
                    document.remove("_id");
                }
                document
            }
        }
    }
}

fn others(projection: &Document) -> impl Iterator<Item = (&String, &Bson)> {
    projection.iter().filter(|(name, _)| *name != "_id")
}

fn shows_id(projection: &Document) -> bool {
    projection.get("_id").and_then(flag) != Some(false)
}

fn flag(value: &Bson) -> Option<bool> {
    match value {
        Bson::Boolean(flag) => Some(*flag),
        Bson::Int32(flag) => Some(*flag != 0),
        _ => None,
    }
}

/// A projection that the server cannot refuse: flags of top-level fields, all of one sense.
pub(crate) fn is_plain_projection(projection: &Document) -> bool {
    let plain_name = |name: &str| !name.is_empty() && !name.contains(['.', '$']);
    let first = others(projection).next().and_then(|(_, value)| flag(value));
    projection.iter().all(|(name, value)| {
        let sense = flag(value);
        plain_name(name) && sense.is_some() && (name == "_id" || sense == first)
    })
}

/// Returns true if it names the fields that are shown, at any depth. The server may refuse it.
fn is_inclusion(projection: &Document) -> bool {
    let is_shown = |(name, value): (&String, &Bson)| flag(value) == Some(true) && !name.contains('$');
    projection.get("_id").is_none_or(|id| flag(id).is_some()) && others(projection).all(is_shown)
}

/// The fields that a plain projection names, or the others.
fn picked(document: Document, projection: &Document) -> Document {
    let is_picked = is_picked(projection);
    document.into_iter().filter(|(name, _)| is_picked(name)).collect()
}

/// Returns a function that is true for the names of fields that a plain projection shows.
pub(crate) fn is_picked(projection: &Document) -> impl Fn(&str) -> bool {
    let names_wanted = others(projection).next().or_else(|| projection.iter().next());
    let names_wanted = names_wanted.is_some_and(|(_, value)| flag(value).unwrap_or(true));
    move |name: &str| match projection.get(name) {
        Some(value) => flag(value).unwrap_or(true),
        None => !names_wanted || name == "_id",
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn is_plain_projection_flags_of_one_sense_only() {
        for plain in [doc! {}, doc! {"_id": 0, "a": 1, "b": true}, doc! {"a": 0, "_id": 1}] {
            assert!(is_plain_projection(&plain), "{plain}");
        }
        for other in
            [doc! {"a": 1, "b": 0}, doc! {"a.b": 1, "a": 1}, doc! {"a": "$b"}, doc! {"a.$": 1}, doc! {"a": {"b": 1}}]
        {
            assert!(!is_plain_projection(&other), "{other}");
        }
    }

    #[test]
    fn plain_projections_pick_as_the_server_does() {
        let document = || doc! {"_id": 1, "a": 2, "b": 3};
        for (projection, picks) in [
            (doc! {}, doc! {"_id": 1, "a": 2, "b": 3}),
            (doc! {"b": 1}, doc! {"_id": 1, "b": 3}),
            (doc! {"b": true, "_id": 0, "c": 1}, doc! {"b": 3}),
            (doc! {"a": 0}, doc! {"_id": 1, "b": 3}),
            (doc! {"a": false, "_id": 1}, doc! {"_id": 1, "b": 3}),
            (doc! {"_id": 1}, doc! {"_id": 1}),
            (doc! {"_id": 0}, doc! {"a": 2, "b": 3}),
        ] {
            assert_eq!(ShownFields::of(Some(&projection)).unwrap().picked(document()), picks, "{projection}");
        }
    }

    #[test]
    fn fields_of_any_depth_are_picked_by_the_server_from_the_version_in_question() {
        let projection = doc! {"_id": 0, "a.b": 1, "c": true};
        let picks = ShownFields::of(Some(&projection)).unwrap();
        assert_eq!(picks.stored_fields(false), Some(doc! {"_id": 1, "_xTxId": 1, "a.b": 1, "c": 1}));
        assert_eq!(picks.stored_fields(true), Some(doc! {"_id": 1, "_xTxId": 1, "_unsafe.a.b": 1, "_unsafe.c": 1}));
        assert_eq!(picks.picked(doc! {"_id": 1, "c": 2}), doc! {"c": 2});
        for other in
            [doc! {"a.b": 0}, doc! {"a.b": 1, "c": 0}, doc! {"a.$": 1}, doc! {"a.b": "$c"}, doc! {"a": {"b": 1}}]
        {
            assert_eq!(ShownFields::of(Some(&other)), None, "{other}");
        }
    }
}
