//! An update pipeline, run with the unsafe version as its root.
//!
//! 1. The unsafe version becomes the root; the root keeps the stored document in a field with a
//!    reserved name, the stash.
//! 2. The user's stages run as they are, except that those that build a new root carry the stash
//!    over, and that the root read as a whole (`$$ROOT`, `$$CURRENT`) is read without it.
//! 3. The stash becomes the root again, and what the stages left becomes its `_unsafe`, with `_id`
//!    first as the server would put it. A changed `_id` is set at the top level too, where the
//!    server refuses it.

use bson::{Bson, Document, doc};

use crate::{
    error::Error,
    expression::hide_field_of_root,
    names::{REMOVE, UNSAFE},
    projection::{Shape, stage_shape},
    reserved::unless_reserved,
};

/// Field of the root that holds the stored document meanwhile. Any reserved name would do, because
/// the user's stages can name none.
const STASH: &str = REMOVE;

/// The stages that make the user's change to `_unsafe`.
pub(super) fn rewrite(user: &[Document]) -> Result<Vec<Document>, Error> {
    let mut stages = vec![unsafe_to_root()];
    for stage in user {
        stages.push(rewrite_stage(stage)?);
    }
    stages.extend(root_to_unsafe());
    Ok(stages)
}

fn unsafe_to_root() -> Document {
    doc! { "$replaceWith": { "$mergeObjects": [format!("${UNSAFE}"), { STASH: "$$ROOT" }] } }
}

fn root_to_unsafe() -> [Document; 4] {
    let with_id = doc! { "$mergeObjects": [{ "_id": "$stored._id" }, "$changed"] };
    [
        doc! { "$replaceWith": { "stored": format!("${STASH}"), "changed": "$$ROOT" } },
        doc! { "$unset": format!("changed.{STASH}") },
        doc! { "$replaceWith": { "$mergeObjects": ["$stored", { UNSAFE: with_id }] } },
        doc! { "$set": { "_id": changed_id() } },
    ]
}

/// An equal number of another type is no change to the server; the stored `_id` takes it when it is
/// finished.
fn changed_id() -> Document {
    let changed = format!("${UNSAFE}._id");
    let same_number = doc! { "$and": [{ "$isNumber": "$_id" }, { "$eq": ["$_id", changed.as_str()] }] };
    doc! { "$cond": [same_number, "$_id", changed] }
}

fn rewrite_stage(stage: &Document) -> Result<Document, Error> {
    stage.iter().map(|(name, spec)| rewrite_entry(name, spec)).collect()
}

fn rewrite_entry(name: &str, spec: &Bson) -> Result<(String, Bson), Error> {
    let rewritten = match (name, spec) {
        ("$set" | "$addFields", _) => hide_field_of_root(spec, STASH)?,
        ("$project", Bson::Document(fields)) => keep_stash(fields)?,
        ("$replaceWith", root) => new_root(root)?.into(),
        ("$replaceRoot", Bson::Document(fields)) => match fields.get("newRoot") {
            Some(root) if fields.len() == 1 => return Ok(("$replaceWith".to_owned(), new_root(root)?.into())),
            _ => spec.clone(),
        },
        _ => spec.clone(),
    };
    Ok((name.to_owned(), rewritten))
}

fn keep_stash(fields: &Document) -> Result<Bson, Error> {
    let mut kept = hide_field_of_root(&Bson::Document(fields.clone()), STASH)?;
    if let (Shape::Inclusive, Bson::Document(fields)) = (stage_shape(fields), &mut kept) {
        fields.insert(STASH, 1);
    }
    Ok(kept)
}

/// The new root with the stash. A value that is no object stays as it is, for the server to refuse
/// (40228); an object with a reserved field is refused by the guard, since no field of this name
/// may enter a document.
fn new_root(root: &Bson) -> Result<Document, Error> {
    let not_an_object = doc! { "$ne": [{ "$type": "$$root" }, "object"] };
    let stashed = doc! { "$mergeObjects": ["$$root", { STASH: format!("${STASH}") }] };
    let guarded = unless_reserved("$$root", stashed.into());
    let chosen = doc! { "$cond": [not_an_object, "$$root", guarded] };
    Ok(doc! { "$let": { "vars": { "root": hide_field_of_root(root, STASH)? }, "in": chosen } })
}
