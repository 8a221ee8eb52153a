//! The values that a write gives to fields of a document, whatever the document was before: they
//! say which keys it has in an index, without a look at it.

use bson::{Bson, Document};

use super::Update;
use crate::expression::path::head;

/// Source of the value of one field.
enum Source<'a> {
    /// The write sets it to this value.
    Value(&'a Bson),
    /// The write removes it.
    Removed,
    /// The write does not name it.
    Untouched,
    /// The value depends on the document.
    Unknown,
}

/// These fields of the document with this `_id` as the update leaves them; more fields may be
/// there. A field that is missing in the result is missing in the document. `None`: that depends on
/// the document.
///
/// ```
/// use bson::doc;
/// use sd2v::update::{Update, given_fields};
///
/// let update = Update::parse_update(doc! {"$set": {"k": 7}, "$inc": {"n": 1}}.into())?;
/// assert_eq!(given_fields(&update, &1.into(), &["k"]), Some(doc! {"k": 7}));
/// assert_eq!(given_fields(&update, &1.into(), &["n"]), None);
/// # Ok::<(), sd2v::Error>(())
/// ```
pub fn given_fields(update: &Update, id: &Bson, fields: &[&str]) -> Option<Document> {
    let operators = match update {
        Update::Operators(operators) => operators,
        Update::Replacement(replacement) => return Some(replaced(replacement, id, fields)),
        Update::Pipeline(_) => return None,
    };
    let mut given = Document::new();
    for field in fields {
        match source(operators, field, &["$set"]) {
            Source::Value(value) => drop(given.insert(*field, value.clone())),
            Source::Removed => {}
            Source::Untouched if *field == "_id" => drop(given.insert("_id", id.clone())),
            Source::Untouched | Source::Unknown => return None,
        }
    }
    Some(given)
}

/// These fields of the document with this `_id` that an upsert by this filter inserts, as
/// [`given_fields`]. `None`: only the server knows what it makes of filter and update.
pub fn upserted_fields(filter: &Document, update: &Update, id: &Bson, fields: &[&str]) -> Option<Document> {
    let operators = match update {
        Update::Operators(operators) => operators,
        Update::Replacement(replacement) => return Some(replaced(replacement, id, fields)),
        Update::Pipeline(_) => return None,
    };
    let mut given = Document::new();
    for field in fields.iter().filter(|field| **field != "_id") {
        match source(operators, field, &["$set", "$setOnInsert"]) {
            Source::Value(value) => drop(given.insert(*field, value.clone())),
            Source::Untouched if is_values(filter) => {
                given.extend(filter.get(field).map(|value| ((*field).to_owned(), value.clone())));
            }
            Source::Untouched | Source::Removed | Source::Unknown => return None,
        }
    }
    if fields.contains(&"_id") {
        given.insert("_id", id.clone());
    }
    Some(given)
}

/// The values that a replacement has in these fields, whose names may be paths, and its `_id`.
fn replaced(replacement: &Document, id: &Bson, fields: &[&str]) -> Document {
    let mut document = Document::new();
    for field in fields.iter().map(|field| head(field)) {
        document.extend(replacement.get(field).map(|value| (field.to_owned(), value.clone())));
    }
    document.insert("_id", id.clone());
    document
}

/// Source of the value of a field at the top. `setting`: the operators that set one.
fn source<'a>(operators: &'a Document, field: &str, setting: &[&str]) -> Source<'a> {
    let mut source = Source::Untouched;
    if field.contains('.') {
        return Source::Unknown;
    }
    for (operator, targets) in operators {
        let Bson::Document(targets) = targets else { return Source::Unknown };
        for (target, value) in targets {
            let is_renamed = operator == "$rename" && value.as_str().is_some_and(|to| head(to) == field);
            if head(target) != field && !is_renamed {
                continue;
            }
            source = match (operator.as_str(), &source) {
                // Twice: the server refuses it.
                (_, Source::Value(_) | Source::Removed) => return Source::Unknown,
                (name, _) if setting.contains(&name) && target == field => Source::Value(value),
                ("$unset", _) if target == field => Source::Removed,
                _ => return Source::Unknown,
            };
        }
    }
    source
}

/// Returns true if the filter demands plain values of fields at the top, and nothing else: an
/// upsert takes each of them.
fn is_values(filter: &Document) -> bool {
    filter.iter().all(|(field, value)| {
        let is_plain = !matches!(
            value,
            Bson::Document(_) | Bson::Array(_) | Bson::RegularExpression(_) | Bson::JavaScriptCodeWithScope(_)
        );
        is_plain && !field.starts_with('$') && !field.contains('.')
    })
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    fn operators(update: Bson) -> Update {
        Update::parse_update(update).unwrap()
    }

    #[test]
    fn given_fields_are_those_that_do_not_depend_on_the_document() {
        let given = |update: Bson, fields: &[&str]| given_fields(&operators(update), &1.into(), fields);
        assert_eq!(given(bson!({"$set": {"k": 7, "l": [1]}}), &["l", "k"]), Some(doc! {"l": [1], "k": 7}));
        assert_eq!(given(bson!({"$set": {"k": 7}}), &["_id", "k"]), Some(doc! {"_id": 1, "k": 7}));
        assert_eq!(given(bson!({"$unset": {"k": ""}}), &["k"]), Some(doc! {}));
        for unknown in [
            bson!({"$set": {"l": 7}}),
            bson!({"$set": {"k.a": 7}}),
            bson!({"$inc": {"k": 7}}),
            bson!({"$set": {"k": 7}, "$inc": {"k": 1}}),
            bson!({"$set": {"k": 7}, "$rename": {"l": "k"}}),
            bson!({"$rename": {"k": "l"}}),
            bson!({"$setOnInsert": {"k": 7}}),
            bson!({"$unset": {"k.a": ""}}),
            bson!([{"$set": {"k": 7}}]),
        ] {
            assert_eq!(given(unknown.clone(), &["k"]), None, "{unknown}");
        }
        assert_eq!(given(bson!({"$set": {"k.a": 7}}), &["k.a"]), None);
        let whole = Update::Replacement(doc! {"k": {"a": 1}});
        assert_eq!(given_fields(&whole, &1.into(), &["k.a"]), Some(doc! {"k": {"a": 1}, "_id": 1}));
    }

    #[test]
    fn upserted_fields_are_those_of_filter_and_update() {
        let given = |filter: Document, update: Bson| upserted_fields(&filter, &operators(update), &1.into(), &["k"]);
        let other = || bson!({"$inc": {"n": 1}});
        assert_eq!(given(doc! {"_id": 1}, bson!({"$setOnInsert": {"k": 7}})), Some(doc! {"k": 7}));
        assert_eq!(given(doc! {"_id": 1, "k": 5}, bson!({"$set": {"k": 7}})), Some(doc! {"k": 7}));
        assert_eq!(given(doc! {"_id": 1, "k": 5}, other()), Some(doc! {"k": 5}));
        assert_eq!(given(doc! {"_id": 1, "k": Bson::Null}, other()), Some(doc! {"k": Bson::Null}));
        assert_eq!(given(doc! {"_id": 1}, other()), Some(doc! {}));
        for filter in [
            doc! {"_id": 1, "k.a": 5},
            doc! {"_id": 1, "$and": [{"k": 5}]},
            doc! {"_id": 1, "k": {"$in": [5]}},
            doc! {"_id": 1, "k": 5, "l": {"$all": []}},
        ] {
            assert_eq!(given(filter.clone(), other()), None, "{filter}");
        }
        assert_eq!(given(doc! {"_id": 1}, bson!({"$inc": {"k": 1}})), None);
        assert_eq!(given(doc! {"_id": 1}, bson!({"$set": {"k.a": 1}})), None);
    }
}
