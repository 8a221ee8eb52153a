//! Upserts that insert: the `_id` the server would give, and the statement that inserts a *pending*
//! document.
//!
//! The server builds the document of an upsert from the equalities of the filter and then applies
//! the update. The statement here makes it do so below `_unsafe`: the filter's equalities are
//! prefixed, and beside them stand the equalities that make the stored document: its `_id`, its
//! writer and, where no `$setOnInsert` can bring it, `_insert`.

use bson::{Bson, Document, doc};

use super::{CONTEXT, Update, operators, pipeline};
use crate::{
    error::Error,
    expression::path,
    filter::{equal, equality_ids, is_conjunction, rewrite_filter, weakened},
    names::{INSERT, SLOT, WRITER, slot_of},
    shard,
};

/// The `_id` that the server would give to the inserted document: the filter's, else the update's;
/// `None` when it would make an ObjectId.
///
/// # Errors
/// [`Error::Invalid`] (54, NotSingleValueField) when the filter gives two, and (66, ImmutableField)
/// when a replacement brings another than the filter's; [`Error::Unsupported`] when `_id` would be
/// put together from parts of it, or by anything but `$set` and `$setOnInsert` of the whole value.
pub fn upsert_id(filter: &Document, update: &Update) -> Result<Option<Bson>, Error> {
    if is_never(filter, 0)? {
        return id_of_update(update);
    }
    refuse_parts(filter, 0)?;
    let mut ids = equality_ids(filter).into_iter();
    match (ids.next(), ids.next()) {
        (Some(_), Some(_)) => Err(matched_twice()),
        (Some(id), None) => not_replaced(&id, update).map(|()| Some(id)),
        (None, _) => id_of_update(update),
    }
}

fn not_replaced(id: &Bson, update: &Update) -> Result<(), Error> {
    match update {
        Update::Replacement(document) if document.get("_id").is_some_and(|other| !equal(id, other)) => {
            let message = "the replacement's _id is not the one that the filter asks for".to_owned();
            Err(Error::Invalid { code: 66, message })
        }
        _ => Ok(()),
    }
}

fn id_of_update(update: &Update) -> Result<Option<Bson>, Error> {
    match update {
        Update::Operators(operators) => id_of_operators(operators),
        Update::Replacement(document) => Ok(document.get("_id").cloned()),
        Update::Pipeline(stages) => refuse_computed_id(stages).map(|()| None),
    }
}

fn id_of_operators(operators: &Document) -> Result<Option<Bson>, Error> {
    let mut id = None;
    for (operator, targets) in operators {
        let Bson::Document(targets) = targets else { continue };
        for (target, value) in targets.iter().filter(|(target, value)| makes_id(operator, target, value)) {
            if target != "_id" || !matches!(operator.as_str(), "$set" | "$setOnInsert") {
                return Err(path::unsupported("_id", CONTEXT, "an upsert takes it whole, from $set or $setOnInsert"));
            }
            id = Some(value.clone());
        }
    }
    Ok(id)
}

fn makes_id(operator: &str, target: &str, value: &Bson) -> bool {
    let renamed_to = if operator == "$rename" { value.as_str() } else { None };
    path::head(target) == "_id" || renamed_to.is_some_and(|to| path::head(to) == "_id")
}

fn refuse_computed_id(stages: &[Document]) -> Result<(), Error> {
    let set = |name| stages.iter().filter_map(move |stage| stage.get_document(name).ok());
    let mut targets = set("$set").chain(set("$addFields")).flat_map(Document::keys);
    match targets.any(|target| path::head(target) == "_id") {
        true => Err(path::unsupported("_id", CONTEXT, "an upsert's pipeline cannot choose it")),
        false => Ok(()),
    }
}

/// Returns true if the filter holds a condition that no document can meet: the server drops such a
/// filter, and an upsert takes no equalities from it.
fn is_never(filter: &Document, depth: usize) -> Result<bool, Error> {
    let depth = path::deeper(depth)?;
    filter.iter().try_fold(false, |found, (key, value)| {
        Ok(found
            || match value {
                Bson::Array(operands) if is_conjunction(key, operands) => operands
                    .iter()
                    .filter_map(Bson::as_document)
                    .try_fold(false, |found, operand| Ok::<_, Error>(found || is_never(operand, depth)?))?,
                Bson::Array(operands) if key == "$or" && !operands.is_empty() => operands
                    .iter()
                    .filter_map(Bson::as_document)
                    .try_fold(true, |all, operand| Ok::<_, Error>(all && is_never(operand, depth)?))?,
                Bson::Document(condition) if !key.starts_with('$') => {
                    condition.get_array("$all").is_ok_and(|values| values.is_empty())
                }
                _ => key == "$alwaysFalse",
            })
    })
}

fn refuse_parts(filter: &Document, depth: usize) -> Result<(), Error> {
    let depth = path::deeper(depth)?;
    for (key, value) in filter {
        match value {
            _ if key.starts_with("_id.") => {
                return Err(path::unsupported(key, "in an upsert's filter", "_id is not put together from parts"));
            }
            Bson::Array(operands) if is_conjunction(key, operands) => {
                operands.iter().filter_map(Bson::as_document).try_for_each(|operand| refuse_parts(operand, depth))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn matched_twice() -> Error {
    Error::Invalid { code: 54, message: "cannot infer query fields to set, path '_id' is matched twice".to_owned() }
}

/// `(q, u)` of an update statement with `upsert: true` that inserts the document an upsert of
/// `filter` and `update` would have inserted, as a pending one of transaction `writer`:
/// `{_id: id, _unsafe: {_id: id, …}, _xTxId: writer, _insert: true}`.
///
/// `id` is what [`upsert_id`] answered, or a new ObjectId; `key` the values of the collection's
/// shard key, which the document gets beside its `_id`. The statement matches nothing but a
/// document of the same writer with the same `_id` whose unsafe version matches the filter; if
/// there is one it is updated, and its `_insert` stays as it is.
///
/// # Errors
/// Those of [`rewrite_filter`] and [`super::rewrite_update`]; [`Error::Invalid`] (9) for a
/// replacement, which is inserted directly.
pub fn rewrite_upsert(
    filter: &Document,
    update: &Update,
    id: &Bson,
    key: &Document,
    writer: &Bson,
) -> Result<(Document, Bson), Error> {
    update.check()?;
    let nothing = Document::new();
    // A filter that only an index answers gives no equalities.
    let filter = if is_never(filter, 0)? { nothing } else { weakened(filter) };
    let filter = &filter;
    let mut q = doc! { "_id": { "$eq": id.clone() } };
    q.extend(shard::condition(key));
    q.extend(doc! { WRITER: { "$eq": writer.clone() } });
    let is_pipeline = matches!(update, Update::Pipeline(_));
    if is_pipeline {
        q.insert(INSERT, doc! { "$eq": true });
        q.insert(SLOT, doc! { "$eq": slot_of(id) });
    }
    // A pipeline reads `_id` only where the filter gives it; it is added afterwards.
    if !is_pipeline || !equality_ids(filter).is_empty() {
        q.insert(path::prefixed("_id"), doc! { "$eq": id.clone() });
    }
    q.extend(rewrite_filter(&without_ids(filter, 0)?)?);
    Ok((q, inserting(update, id, writer)?))
}

/// The filter without any condition on `_id`: the statement's own says more.
fn without_ids(filter: &Document, depth: usize) -> Result<Document, Error> {
    let depth = path::deeper(depth)?;
    let kept = filter.iter().filter(|(key, _)| *key != "_id").map(|(key, value)| match value {
        Bson::Array(operands) if is_conjunction(key, operands) => {
            let operands = operands.iter().map(|operand| match operand {
                Bson::Document(operand) => without_ids(operand, depth).map(Bson::Document),
                other => Ok(other.clone()),
            });
            Ok((key.clone(), Bson::Array(operands.collect::<Result<_, _>>()?)))
        }
        _ => Ok((key.clone(), value.clone())),
    });
    kept.collect()
}

fn inserting(update: &Update, id: &Bson, writer: &Bson) -> Result<Bson, Error> {
    match update {
        Update::Operators(user) => Ok(Bson::Document(marking(operators::rewrite(user), id, writer))),
        Update::Pipeline(user) => Ok(super::stages(pipeline::rewrite(user)?)),
        Update::Replacement(_) => Err(super::invalid("a replacement is inserted, not upserted")),
    }
}

/// The operators, which also set `_insert` and the fields that the filter gives already: were its
/// equalities lost (a filter that the server finds unsatisfiable), the document would have no
/// owner. A `$setOnInsert` that is no document stays, for the server to refuse.
fn marking(mut operators: Document, id: &Bson, writer: &Bson) -> Document {
    let mut marks = doc! { INSERT: true, WRITER: writer.clone(), SLOT: slot_of(id) };
    if !operators.values().filter_map(Bson::as_document).any(|targets| targets.contains_key("_id")) {
        marks.insert("_id", id.clone());
    }
    match operators.get_mut("$setOnInsert") {
        Some(Bson::Document(targets)) => {
            targets.extend(marks);
        }
        Some(_) => {}
        None => {
            operators.insert("$setOnInsert", marks);
        }
    }
    operators
}
