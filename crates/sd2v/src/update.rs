//! Updates: the three forms, what they may name, and the same change made to the unsafe version.
//!
//! The server applies the user's own operators and stages, so their semantics are the server's;
//! only the place changes.
//!
//! - `check`: refusing reserved names.
//! - `operators`, `replacement`, `pipeline`: what to send for each form, to a document that is
//!   already locked.
//! - `upsert`: the statement that inserts a pending document as an upsert would have built it.
//! - `touched`: which fields an update may change.
//! - `given`: which values it gives to fields, whatever the document was before.
//! - `fuse`: lock, copy and change in one statement, where that is provably the same.

use bson::{Bson, Document};

use crate::error::Error;

mod check;
mod fuse;
mod given;
mod operators;
mod pipeline;
mod replacement;
mod touched;
mod upsert;

pub use fuse::{FusedTogether, Fusing, can_fuse, fuse, fuse_lock, fuse_remove, fuse_together};
pub use given::{given_fields, upserted_fields};
pub use touched::{touches, touches_stored};
pub use upsert::{rewrite_upsert, upsert_id};

const CONTEXT: &str = "in an update";
/// Number of MongoDB's error code `FailedToParse`.
const FAILED_TO_PARSE: i32 = 9;

/// An update as the user wrote it.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// `{$set: …, $inc: …}`: at least one operator, and only operators.
    Operators(Document),
    /// A whole document that replaces the old one.
    Replacement(Document),
    /// Aggregation stages: at least one.
    Pipeline(Vec<Document>),
}

impl Update {
    /// Reads an update of `update_one` and `update_many`: operators or a pipeline.
    ///
    /// # Errors
    /// [`Error::Invalid`] (9, FailedToParse) for anything else, an empty document and an empty
    /// pipeline included.
    pub fn parse_update(update: Bson) -> Result<Self, Error> {
        match update {
            Bson::Document(operators) => parse_operators(operators),
            Bson::Array(stages) => parse_pipeline(stages),
            _ => Err(invalid("an update must be a document or an array")),
        }
    }

    /// Reads the replacement of `replace_one`: a document without operators.
    ///
    /// # Errors
    /// [`Error::Invalid`] (9, FailedToParse) when the first key is an operator.
    pub fn replacement(document: Document) -> Result<Self, Error> {
        match document.keys().next() {
            Some(key) if key.starts_with('$') => Err(invalid("a replacement must not start with an operator")),
            _ => Ok(Self::Replacement(document)),
        }
    }

    /// The operators without those that set `_id`; anything else as it is.
    pub fn without_id(&self) -> Self {
        let Self::Operators(operators) = self else { return self.clone() };
        let kept = operators.iter().filter_map(|(operator, targets)| match targets {
            Bson::Document(targets) if targets.contains_key("_id") => {
                let targets: Document = targets.clone().into_iter().filter(|(target, _)| target != "_id").collect();
                (!targets.is_empty()).then(|| (operator.clone(), targets.into()))
            }
            targets => Some((operator.clone(), targets.clone())),
        });
        Self::Operators(kept.collect())
    }

    /// Refuses an update that names a reserved field of the document, as a target or within an
    /// expression.
    ///
    /// Unknown operators and stages are left to the server.
    ///
    /// # Errors
    /// [`Error::Reserved`]; [`Error::Invalid`] for a field that begins with `$` (52,
    /// DollarPrefixedFieldName) and when it nests deeper than 200 levels (15);
    /// [`Error::Unsupported`] for a path that begins with such a field.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Operators(operators) => check::check_operators(operators),
            Self::Replacement(document) => check::check_replacement(document),
            Self::Pipeline(stages) => stages.iter().try_for_each(check::check_stage),
        }
    }
}

impl Update {
    /// As [`Update::check`], of an update that the server makes as it stands, on clean documents
    /// only: it judges fields that begin with `$` by itself. It lets an upsert insert them, and
    /// refuses them elsewhere.
    ///
    /// # Errors
    /// [`Error::Reserved`]; [`Error::Invalid`] for an update that nests deeper than 200 levels
    /// (15).
    pub fn check_reserved(&self) -> Result<(), Error> {
        check::check_reserved(self)
    }
}

fn parse_operators(operators: Document) -> Result<Update, Error> {
    if operators.is_empty() {
        return Err(invalid("an update must have at least one operator"));
    }
    match operators.keys().find(|key| !key.starts_with('$')) {
        Some(key) => Err(invalid(&format!("an update takes operators only, not the field {key:?}"))),
        None => Ok(Update::Operators(operators)),
    }
}

fn parse_pipeline(stages: Vec<Bson>) -> Result<Update, Error> {
    if stages.is_empty() {
        return Err(invalid("an update pipeline must have at least one stage"));
    }
    let stages = stages.into_iter().map(|stage| match stage {
        Bson::Document(stage) => Ok(stage),
        _ => Err(invalid("each stage of an update pipeline must be a document")),
    });
    Ok(Update::Pipeline(stages.collect::<Result<_, _>>()?))
}

fn invalid(message: &str) -> Error {
    Error::Invalid { code: FAILED_TO_PARSE, message: message.to_owned() }
}

/// The `u` of an update statement that makes the user's change to the unsafe version of a document
/// that is locked, so that its `_unsafe` exists. Array filters stay as they are.
///
/// A change of `_id` reaches the server as one, and the server refuses it (66, ImmutableField).
///
/// ```
/// use bson::doc;
/// use sd2v::update::{Update, rewrite_update};
///
/// let update = Update::parse_update(doc! {"$push": {"lines": {"$each": [1, 2]}}, "$rename": {"a": "b"}}.into())?;
/// let sent = doc! {"$push": {"_unsafe.lines": {"$each": [1, 2]}}, "$rename": {"_unsafe.a": "_unsafe.b"}};
/// assert_eq!(rewrite_update(&update)?, sent.into());
/// # Ok::<(), sd2v::Error>(())
/// ```
///
/// # Errors
/// Those of [`Update::check`]; [`Error::Unsupported`] for a replacement with an empty timestamp at
/// its top level, and for a pipeline that reads `$$CURRENT` whole where it also binds it.
pub fn rewrite_update(update: &Update) -> Result<Bson, Error> {
    update.check()?;
    match update {
        Update::Operators(operators) => Ok(Bson::Document(operators::rewrite(operators))),
        Update::Replacement(document) => replacement::rewrite(document).map(stages),
        Update::Pipeline(user) => pipeline::rewrite(user).map(stages),
    }
}

fn stages(stages: Vec<Document>) -> Bson {
    Bson::Array(stages.into_iter().map(Bson::Document).collect())
}
