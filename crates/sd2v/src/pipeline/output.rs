//! `$out` and `$merge`: the last stage of a pipeline that writes, parsed. The pipeline before it is
//! mapped like any other; the writes are made by the caller.

use bson::{Bson, Document};

use super::parts;
use crate::{error::Error, names::SLOT};

/// The stage that writes a pipeline's documents.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// `$out`: the documents become the content of the collection.
    Out {
        /// Database of the collection, if it is named.
        db: Option<String>,
        /// Name of the collection to replace.
        collection: String,
        /// The stage, as the user wrote it.
        stage: Document,
    },
    /// `$merge`: the documents are merged into a collection.
    Merge(Merge),
}

/// `$merge`: the documents are merged into a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge {
    /// The database, if it is named.
    pub db: Option<String>,
    /// Name of the collection to merge into.
    pub collection: String,
    /// The fields that say which document is meant.
    pub on: Vec<String>,
    /// Action if a document with the result's values of `on` exists.
    pub when_matched: WhenMatched,
    /// Action if no such document exists.
    pub when_not_matched: WhenNotMatched,
    /// Variables of a [`WhenMatched::Pipeline`]: expressions on the result.
    pub variables: Option<Document>,
    /// The stage, as the user wrote it.
    pub stage: Document,
}

/// Values of `whenMatched`: what is done with an existing document.
#[derive(Clone, Debug, PartialEq)]
pub enum WhenMatched {
    /// The result replaces the document.
    Replace,
    /// The document stays as it is.
    KeepExisting,
    /// The document gets the result's fields.
    Merge,
    /// The command fails at the document.
    Fail,
    /// The document is changed by this pipeline, in which `$$new` is the result.
    Pipeline(Vec<Document>),
}

/// Values of `whenNotMatched`: what is done with a result without a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenNotMatched {
    /// The result is inserted as a new document, as MongoDB does by default.
    Insert,
    /// The result is dropped, and no document of the target is changed.
    Discard,
    /// The command fails at the result.
    Fail,
}

/// The pipeline without a final `$out` or `$merge`, and that stage.
///
/// # Errors
/// [`Error::Invalid`] for a malformed stage (9, as the server), naming the field.
pub fn split_output(user: &[Document]) -> Result<(&[Document], Option<Output>), Error> {
    let Some((last, before)) = user.split_last() else { return Ok((user, None)) };
    let output = match parts(last)? {
        ("$out", spec) => {
            let (db, collection) = target("$out", spec)?;
            Output::Out { db, collection, stage: last.clone() }
        }
        ("$merge", spec) => Output::Merge(parse_merge(spec, last)?),
        _ => return Ok((user, None)),
    };
    Ok((before, Some(output)))
}

/// The stage `$merge` with the slot among its fields `on`, as a unique index has them where it is
/// stored: so the server finds the index. `None`: it is another stage, or names no fields.
pub fn merge_on_slot(stage: &Document) -> Option<Document> {
    let mut spec = stage.get_document("$merge").ok().filter(|spec| spec.contains_key("on"))?.clone();
    let mut fields = fields_on(spec.get("on")).ok()?;
    fields.push(SLOT.to_owned());
    spec.insert("on", fields);
    Some(bson::doc! {"$merge": spec})
}

fn malformed(stage: &str, field: &str, what: &str) -> Error {
    Error::Invalid { code: 9, message: format!("{stage}: {field} {what}") }
}

/// Database and collection of a target, written as `"coll"` or `{db, coll}`.
fn target(stage: &str, spec: &Bson) -> Result<(Option<String>, String), Error> {
    match spec {
        Bson::String(collection) => Ok((None, collection.clone())),
        Bson::Document(named) => match named.get_str("coll") {
            Ok(collection) => Ok((named.get_str("db").ok().map(str::to_owned), collection.to_owned())),
            Err(_) => Err(malformed(stage, "coll", "must be the name of a collection")),
        },
        _ => Err(malformed(stage, "its argument", "must be a name or a document")),
    }
}

fn parse_merge(spec: &Bson, stage: &Document) -> Result<Merge, Error> {
    let spec = match spec {
        Bson::Document(spec) => spec.clone(),
        name => bson::doc! {"into": name.clone()},
    };
    let (db, collection) = target("$merge", spec.get("into").unwrap_or(&Bson::Null))?;
    Ok(Merge {
        db,
        collection,
        on: fields_on(spec.get("on"))?,
        when_matched: when_matched(spec.get("whenMatched"))?,
        when_not_matched: when_not_matched(spec.get("whenNotMatched"))?,
        variables: spec.get_document("let").ok().cloned(),
        stage: stage.clone(),
    })
}

fn fields_on(on: Option<&Bson>) -> Result<Vec<String>, Error> {
    let fields = match on {
        None => Some(vec!["_id".to_owned()]),
        Some(Bson::String(field)) => Some(vec![field.clone()]),
        Some(Bson::Array(fields)) => fields.iter().map(|field| field.as_str().map(str::to_owned)).collect(),
        Some(_) => None,
    };
    fields.filter(|fields| !fields.is_empty()).ok_or_else(|| malformed("$merge", "on", "must be one or more fields"))
}

fn when_matched(value: Option<&Bson>) -> Result<WhenMatched, Error> {
    match value {
        None => return Ok(WhenMatched::Merge),
        Some(Bson::String(name)) => match name.as_str() {
            "replace" => return Ok(WhenMatched::Replace),
            "keepExisting" => return Ok(WhenMatched::KeepExisting),
            "merge" => return Ok(WhenMatched::Merge),
            "fail" => return Ok(WhenMatched::Fail),
            _ => {}
        },
        Some(pipeline) => {
            if let Some(stages) = super::sub_pipeline(pipeline) {
                return Ok(WhenMatched::Pipeline(stages));
            }
        }
    }
    Err(malformed("$merge", "whenMatched", "must be replace, keepExisting, merge, fail or a pipeline"))
}

fn when_not_matched(value: Option<&Bson>) -> Result<WhenNotMatched, Error> {
    match value.map(Bson::as_str) {
        None | Some(Some("insert")) => Ok(WhenNotMatched::Insert),
        Some(Some("discard")) => Ok(WhenNotMatched::Discard),
        Some(Some("fail")) => Ok(WhenNotMatched::Fail),
        _ => Err(malformed("$merge", "whenNotMatched", "must be insert, discard or fail")),
    }
}
