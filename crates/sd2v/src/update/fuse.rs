//! Lock, copy and change in one statement, for the updates where a pipeline provably does what the
//! operators do.
//!
//! Taken: `$set`, `$inc`, and `$currentDate` with a date, of at most 16 top-level fields of a
//! *clean* document, where
//!
//! - each incremented field is missing, or a number other than a decimal with less than 53 bits,
//!   and no array: there `$add` (to zero, where it is missing) and `$inc` give the same value and
//!   type, and the value always changes;
//! - something changes, so that the document counts as modified: any `$inc` but one by zero does,
//!   else a field must differ from its new value.
//!
//! These conditions stand in the pipeline and not in the query: a query that says nothing but the
//! `_id` takes the server's shortest way (measured: a fifth of the statement's cost). A document
//! that fails them comes out as it went in, so the server counts it as matched and not as modified;
//! nothing is refused: the caller takes the way of two statements.
//!
//! The caller's own demands besides the `_id` stand in the pipeline for the same reason, where they
//! are no more than fields and their values ([`crate::filter::plain_demands`]). A document may
//! match the filter and fail them: then, too, the caller takes the way of two statements.
//!
//! A document that one of some transactions known to be committed has left locked can be *taken
//! over*: its unsafe version stands for the clean document, and becomes the safe version in the
//! same statement. A document that such a transaction has removed is not taken over.
//!
//! Updates of several documents that differ in nothing but their constants are one statement, in
//! which the constants of each stand apart ([`fuse_together`], decision 0079).

use std::sync::LazyLock;

use bson::{
    Bson, Document, RawArrayBuf, RawBson, RawDocumentBuf,
    raw::{CStr, CString, cstr},
    rawdoc,
};
use protocol::TxId;

use super::{Update, check};
use crate::{
    expression::{
        Exactly,
        path::{self, is_plain_field},
        path_of,
    },
    filter::{Demand, Exact},
    names::{INSERT, READERS, REMOVE, REMOVE_KEY, SLOT, UNSAFE, UNSAFE_KEY, WRITER, WRITER_KEY, tx_id_to_raw},
    statement::held_by,
};

const MAX_FIELDS: usize = 16;
/// Limit, in bytes, of values that stand twice in the statement, which has to fit into a command.
/// Updates with larger values are sent as operators, where each stands once.
const MAX_BYTES: usize = 1024 * 1024;
/// Integers below this are exact as doubles.
const EXACT: i64 = 1 << 53;

enum Change<'a> {
    Set(&'a Bson),
    Inc(&'a Bson),
    /// The server's time when it runs the command.
    Now,
}

/// The time of the command in a pipeline, to the millisecond as in a date.
const NOW: &str = "$$NOW";

impl Change<'_> {
    /// Returns true if it changes the field whatever its value was.
    fn is_modifying(&self) -> bool {
        matches!(self, Self::Inc(step) if !matches!(step, Bson::Int32(0) | Bson::Int64(0)))
    }
}

/// Returns true if [`fuse`] can make one statement of the update.
pub fn can_fuse(update: &Update) -> bool {
    changes_of(update).is_some()
}

/// An update of one document, as [`fuse_together`] makes it part of a statement.
#[derive(Clone, Copy, Debug)]
pub struct Fusing<'a> {
    /// The `_id` of the document that is updated.
    pub id: &'a Bson,
    /// Update of the document. Only operators can be fused.
    pub update: &'a Update,
    /// Values that it has to have.
    pub demands: &'a [Demand<'a>],
    /// Fields that have to be as they were read.
    pub as_read: &'a [Exact],
}

/// The updates of several documents, as parts of one statement
/// ([`lock_change_each`](crate::statement::lock_change_each)).
#[derive(Clone, Debug, PartialEq)]
pub struct FusedTogether {
    /// The `_id`s of the documents.
    pub ids: RawArrayBuf,
    /// The `u` of the statement.
    pub pipeline: RawArrayBuf,
}

/// The update as the `u` of one statement that locks a clean document, or one that one of `over`
/// has left, for `writer` with the change made in `_unsafe`, or `None` where the operators must be
/// sent as they are. The lock is taken if and only if the document was modified. All of `over` are
/// committed, durably. The document has all of the values that `demands` names, and is `as_read`.
///
/// The pipeline is bytes already: every write of a transaction makes one.
pub fn fuse(
    update: &Update,
    writer: TxId,
    over: &[TxId],
    demands: &[Demand<'_>],
    as_read: &[Exact],
) -> Option<RawArrayBuf> {
    let exactly = clean_with(demands)?;
    let outcome = locked_if_exactly(exactly, update, as_read, &mut Constants::InPlace)?.by(writer, over);
    Some(stage(outcome))
}

/// Name, in a pipeline of [`fuse_together`], of the constants for one document, and the list of
/// them.
const EACH: &CStr = cstr!("each");
/// Name, among these constants, of what is demanded of the document.
const WANTED: &CStr = cstr!("f");

/// The updates as one statement of these documents, which does to each of them what [`fuse`] does
/// by a statement of its own. `None`: they differ in more than constants, one of them has no such
/// form, or the constants of all of them take more than `max_bytes`.
///
/// A document finds its constants by its `_id`, which is among what is demanded of it: a document
/// that the list does not have, for which the server takes the last entry, stays as it is.
pub fn fuse_together(all: &[Fusing<'_>], writer: TxId, over: &[TxId], max_bytes: usize) -> Option<FusedTogether> {
    let (mut ids, mut entries) = (RawArrayBuf::new(), RawArrayBuf::new());
    let mut shape: Option<Locked> = None;
    let mut bytes = 0;
    for one in all {
        let (id, mut constants) = (raw(one.id)?, Constants::Apart(RawDocumentBuf::new()));
        let mut exactly = clean().clone();
        exactly.and("$_id", Some(id.clone()));
        demand(&mut exactly, one.demands)?;
        let locked = locked_if_exactly(exactly, one.update, one.as_read, &mut constants)?;
        if *shape.get_or_insert_with(|| locked.clone()) != locked {
            return None;
        }
        let entry = constants.into_entry();
        // Each entry has its document's `_id`, which is also in two lists: the pipeline's, and that
        // of the statement's filter.
        bytes += 3 * entry.as_bytes().len();
        if bytes > max_bytes {
            return None;
        }
        ids.push(id);
        entries.push(entry);
    }
    let at = rawdoc! { "$indexOfArray": [{ "$literal": ids.clone() }, "$_id"] };
    let entry = rawdoc! { "$arrayElemAt": [{ "$literal": entries }, at] };
    let outcome = shape?.by(writer, over);
    Some(FusedTogether { ids, pipeline: stage(rawdoc! { "$let": { "vars": { EACH: entry }, "in": outcome } }) })
}

/// Place of the constants of a statement.
enum Constants {
    /// Each where it is used.
    InPlace,
    /// All of them in a document beside the pipeline, which names them.
    Apart(RawDocumentBuf),
}

impl Constants {
    /// The expression that is this value.
    fn literal(&mut self, value: RawBson) -> RawBson {
        match self {
            Self::InPlace => rawdoc! { "$literal": value }.into(),
            Self::Apart(entry) => apart(entry, value),
        }
    }

    /// The expression that is this number.
    fn number(&mut self, number: RawBson) -> RawBson {
        match self {
            Self::InPlace => number,
            Self::Apart(entry) => apart(entry, number),
        }
    }

    /// The condition that all of these are so.
    fn demanded(&mut self, exactly: Exactly) -> RawDocumentBuf {
        match self {
            Self::InPlace => exactly.into_expression(),
            Self::Apart(entry) => {
                let (found, wanted) = exactly.into_parts();
                entry.append(WANTED, wanted);
                rawdoc! { "$eq": [found, format!("$${EACH}.{WANTED}")] }
            }
        }
    }

    fn into_entry(self) -> RawDocumentBuf {
        match self {
            Self::InPlace => RawDocumentBuf::new(),
            Self::Apart(entry) => entry,
        }
    }
}

/// Puts the value among the constants, and names it.
fn apart(entry: &mut RawDocumentBuf, value: RawBson) -> RawBson {
    let name = format!("c{}", entry.iter().count());
    let key = CString::try_from(name.as_str()).unwrap_or_else(|_| unreachable!("a letter and digits are no zero byte"));
    entry.append(&key, value);
    format!("$${EACH}.{name}").into()
}

/// A change under conditions, of which only the writer is missing to be a statement's.
#[derive(Clone, PartialEq)]
struct Locked {
    condition: RawDocumentBuf,
    values: RawDocumentBuf,
}

impl Locked {
    fn by(self, writer: TxId, over: &[TxId]) -> RawDocumentBuf {
        lock_if(self.condition, self.values, writer, over)
    }
}

/// The change of a document of which everything `exactly` says is so, and which is `as_read`.
fn locked_if_exactly(
    mut exactly: Exactly,
    update: &Update,
    as_read: &[Exact],
    constants: &mut Constants,
) -> Option<Locked> {
    let changes = changes_of(update)?;
    for exact in as_read {
        exact.add_to(&mut exactly)?;
    }
    let (mut values, mut differences) = (RawDocumentBuf::new(), RawArrayBuf::new());
    for (field, change) in &changes {
        let value = value(field, change, constants)?;
        if !matches!(change, Change::Inc(_)) {
            differences.push(rawdoc! { "$ne": [path_of(field), value.clone()] });
        }
        values.append(CString::try_from(*field).ok()?, value);
    }
    let mut conditions = RawArrayBuf::new();
    conditions.push(constants.demanded(exactly));
    for (field, _) in changes.iter().filter(|(_, change)| matches!(change, Change::Inc(_))) {
        is_exact_number(field).into_iter().for_each(|condition| conditions.push(condition));
    }
    if !changes.iter().any(|(_, change)| change.is_modifying()) {
        conditions.push(rawdoc! { "$or": differences });
    }
    Some(Locked { condition: rawdoc! { "$and": conditions }, values })
}

/// Locks without a change, in the form of [`fuse`]: locks a clean document, or one that one of
/// `over` has left, for `writer`, if it has the values that `demands` names. The document is
/// modified if and only if it was locked. `None`: no statement can demand such a value.
pub fn fuse_lock(writer: TxId, over: &[TxId], demands: &[Demand<'_>]) -> Option<RawArrayBuf> {
    Some(stage(lock_if(clean_with(demands)?.into_expression(), RawDocumentBuf::new(), writer, over)))
}

/// As [`fuse_lock`], for a removal, and of a clean document only.
pub fn fuse_remove(writer: TxId, demands: &[Demand<'_>]) -> Option<RawArrayBuf> {
    let mut marks = RawDocumentBuf::new();
    marks.append(WRITER_KEY, rawdoc! { "$literal": tx_id_to_raw(writer) });
    marks.append(REMOVE_KEY, true);
    let locked = rawdoc! { "$mergeObjects": ["$$ROOT", marks] };
    Some(stage(rawdoc! { "$cond": [clean_with(demands)?.into_expression(), locked, "$$ROOT"] }))
}

/// The condition that the document is clean, and has these values.
fn clean_with(demands: &[Demand<'_>]) -> Option<Exactly> {
    let mut exactly = clean().clone();
    demand(&mut exactly, demands)?;
    Some(exactly)
}

fn demand(exactly: &mut Exactly, demands: &[Demand<'_>]) -> Option<()> {
    for (field, value) in demands {
        exactly.and(path_of(field), Some(raw(value)?));
    }
    Some(())
}

/// The pipeline of the one stage that puts the outcome in the document's place.
fn stage(outcome: RawDocumentBuf) -> RawArrayBuf {
    let mut pipeline = RawArrayBuf::new();
    pipeline.push(rawdoc! { "$replaceWith": outcome });
    pipeline
}

/// The document, locked under this condition and as it is otherwise. Paths in the condition and the
/// values start at the version that is taken for the clean document.
fn lock_if(condition: RawDocumentBuf, values: RawDocumentBuf, writer: TxId, over: &[TxId]) -> RawDocumentBuf {
    let clean = if over.is_empty() { "$$ROOT" } else { "$$CURRENT" };
    let mut added = RawDocumentBuf::new();
    added.append(UNSAFE_KEY, rawdoc! { "$mergeObjects": [clean, values] });
    added.append(WRITER_KEY, rawdoc! { "$literal": tx_id_to_raw(writer) });
    let locked = rawdoc! { "$mergeObjects": [clean, added] };
    let outcome = rawdoc! { "$cond": [condition, locked, "$$ROOT"] };
    match over {
        [] => outcome,
        over => rawdoc! { "$let": { "vars": { "CURRENT": left_by(over) }, "in": outcome } },
    }
}

/// The version that is changed: the unsafe one if one of these transactions holds the document and
/// has not removed it, otherwise the document itself.
fn left_by(over: &[TxId]) -> RawDocumentBuf {
    rawdoc! { "$cond": [held_by(over), path_of(UNSAFE), "$$ROOT"] }
}

/// The value as bytes. `None`: a document in it has a name that no document of BSON can have.
fn raw(value: &Bson) -> Option<RawBson> {
    RawBson::try_from(value.clone()).ok()
}

fn changes_of(update: &Update) -> Option<Vec<(&str, Change<'_>)>> {
    let Update::Operators(operators) = update else { return None };
    check::check_operators(operators).ok()?;
    changes(operators)
}

/// All changes in the order in which the server makes them: by name.
fn changes(operators: &Document) -> Option<Vec<(&str, Change<'_>)>> {
    let mut changes = Vec::new();
    for (operator, targets) in operators {
        for (field, value) in targets.as_document()? {
            changes.push((field.as_str(), change(operator, value)?));
        }
    }
    changes.sort_by_key(|(field, _)| *field);
    let twice = changes.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let fits = (1..=MAX_FIELDS).contains(&changes.len()) && changes.iter().all(|(field, _)| is_plain_field(field));
    let may_modify = changes.iter().any(|(_, change)| !matches!(change, Change::Inc(_)) || change.is_modifying());
    let bytes: usize = changes.iter().map(|(_, change)| bytes_of(change)).sum();
    (fits && !twice && may_modify && bytes <= MAX_BYTES).then_some(changes)
}

fn change<'a>(operator: &str, value: &'a Bson) -> Option<Change<'a>> {
    match operator {
        "$set" if is_plain_value(value, 0) => Some(Change::Set(value)),
        "$inc" if is_exact_step(value) => Some(Change::Inc(value)),
        "$currentDate" if is_date(value) => Some(Change::Now),
        _ => None,
    }
}

/// Returns true if the argument of `$currentDate` stands for a date, and not for a timestamp.
fn is_date(value: &Bson) -> bool {
    match value {
        Bson::Boolean(_) => true,
        Bson::Document(of) => of.len() == 1 && of.get_str("$type").is_ok_and(|kind| kind == "date"),
        _ => false,
    }
}

/// Returns true if all server versions treat the value alike.
fn is_plain_value(value: &Bson, depth: usize) -> bool {
    let Ok(depth) = path::deeper(depth) else { return false };
    match value {
        Bson::Document(fields) => {
            fields.iter().all(|(key, value)| !key.starts_with('$') && is_plain_value(value, depth))
        }
        Bson::Array(items) => items.iter().all(|item| is_plain_value(item, depth)),
        Bson::Timestamp(at) => at.time != 0 || at.increment != 0,
        Bson::Undefined | Bson::DbPointer(_) | Bson::Symbol(_) => false,
        Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => false,
        _ => true,
    }
}

/// Size of the new value, in bytes, about.
fn bytes_of(change: &Change<'_>) -> usize {
    fn size(value: &Bson) -> usize {
        let inner = match value {
            Bson::String(text) => text.len(),
            Bson::Binary(binary) => binary.bytes.len(),
            Bson::Document(fields) => fields.iter().map(|(name, value)| name.len() + size(value)).sum(),
            Bson::Array(items) => items.iter().map(size).sum(),
            _ => 0,
        };
        inner + size_of::<u64>()
    }
    match change {
        Change::Set(value) => size(value),
        Change::Inc(_) | Change::Now => 0,
    }
}

fn is_exact_step(value: &Bson) -> bool {
    let step = match value {
        Bson::Int32(step) => i64::from(*step),
        Bson::Int64(step) => *step,
        _ => return false,
    };
    -EXACT < step && step < EXACT
}

fn value(field: &str, change: &Change<'_>, constants: &mut Constants) -> Option<RawBson> {
    Some(match change {
        Change::Set(value) => constants.literal(raw(value)?),
        Change::Inc(step) => rawdoc! { "$add": [number_in(field), constants.number(raw(step)?)] }.into(),
        Change::Now => NOW.into(),
    })
}

/// The condition of a clean document: no lock, and no other metadata, which would belong to no
/// transaction.
fn clean() -> &'static Exactly {
    static CLEAN: LazyLock<Exactly> = LazyLock::new(|| {
        let mut clean = Exactly::new();
        [WRITER, READERS, INSERT, REMOVE, UNSAFE, SLOT].into_iter().for_each(|field| clean.and_missing(field));
        clean
    });
    &CLEAN
}

/// The field as the first operand of `$add`: a missing field counts as zero, of the smallest type.
fn number_in(field: &str) -> RawDocumentBuf {
    rawdoc! { "$ifNull": [path_of(field), 0] }
}

fn is_exact_number(field: &str) -> [RawDocumentBuf; 3] {
    let number = number_in(field);
    [
        rawdoc! { "$in": [{ "$type": path_of(field) }, ["int", "long", "double", "missing"]] },
        rawdoc! { "$gt": [number.clone(), -EXACT] },
        rawdoc! { "$lt": [number, EXACT] },
    ]
}
