//! The front of a pipeline: the stages that mean the same on stored documents of which only the
//! safe versions count.

use bson::{Bson, Document, doc};

use super::{parts, special};
use crate::{
    error::Error,
    filter::{check_filter, guard_filter, sees_lock_fields},
};

/// A pipeline, split by what its stages need.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// The leading `$match`es in one, which an index may answer.
    pub(super) filter: Document,
    /// The following stages that need nothing but the documents to count.
    pub(super) front: Vec<Document>,
    /// The stages after the filter and the front.
    pub(super) rest: Vec<Document>,
}

/// Takes a pipeline apart.
///
/// # Errors
/// Those of the filters in front, and of a stage that is none.
pub(super) fn take_apart(user: &[Document]) -> Result<Parts, Error> {
    let mut filters = Vec::new();
    let mut stages = user.iter().peekable();
    while let Some(filter) = stages.peek().and_then(|stage| plain_match(stage)) {
        check_leading(filter)?;
        if !filter.is_empty() {
            filters.push(filter.clone());
        }
        stages.next();
    }
    let mut front = Vec::new();
    while let Some(stage) = stages.peek() {
        let (name, spec) = parts(stage)?;
        let kept = match (name, plain_match(stage)) {
            ("$match", Some(filter)) => {
                check_filter(filter)?;
                doc! {"$match": guard_filter(filter)}
            }
            ("$sort" | "$skip" | "$limit" | "$sample", _) => {
                super::check::check_stage(name, spec)?;
                (*stage).clone()
            }
            _ => break,
        };
        front.push(kept);
        stages.next();
    }
    Ok(Parts { filter: all_of(filters), front, rest: stages.cloned().collect() })
}

/// The filter of a `$match` that reads no more than fields.
fn plain_match(stage: &Document) -> Option<&Document> {
    let filter = stage.get_document("$match").ok().filter(|_| stage.len() == 1)?;
    (!sees_lock_fields(filter)).then_some(filter)
}

/// The text search of a first stage is looked at elsewhere.
fn check_leading(filter: &Document) -> Result<(), Error> {
    if special::has_text(filter) { check_filter(&special::without_text(filter)) } else { check_filter(filter) }
}

/// One condition that requires all the given ones.
pub(super) fn all_of(mut filters: Vec<Document>) -> Document {
    match filters.pop() {
        None => Document::new(),
        Some(only) if filters.is_empty() => only,
        Some(last) => {
            filters.push(last);
            doc! {"$and": filters}
        }
    }
}

/// `$sort`, then `$skip` if there is one, then `$limit`.
pub(super) struct Top<'a> {
    pub(super) sort: &'a Document,
    pub(super) skip: i64,
    pub(super) limit: i64,
    /// The stages it takes up.
    pub(super) stages: usize,
}

/// The top of a sorted list, at the beginning of these stages.
pub(super) fn top(stages: &[Document]) -> Option<Top<'_>> {
    let sort = stages.first()?.get_document("$sort").ok()?;
    let number = |at: usize, name| stages.get(at)?.get(name).and_then(whole_number);
    let (skip, at) = number(1, "$skip").map_or((0, 1), |skip| (skip, 2));
    let limit = number(at, "$limit")?;
    (skip >= 0 && limit > 0 && skip.checked_add(limit).is_some()).then_some(Top { sort, skip, limit, stages: at + 1 })
}

fn whole_number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        _ => None,
    }
}
