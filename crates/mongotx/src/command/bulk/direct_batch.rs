//! Writes of one document each, outside transactions, as many as one command can carry out. Each
//! takes effect by itself, as if it were sent alone: see [`crate::command::writes::direct`].
//!
//! 1. Take the first ones of one kind that name their documents by `_id`, and for which no pending
//!    value of a unique index counts.
//! 2. Send them as one `insert`, `update` or `delete`. A statement that meets a lock *fails*
//!    ([`sd2v::unheld`] where the server is trusted to refuse such updates, else
//!    [`sd2v::statement::unlocked_or_failing`]), and so does an upsert or an insert of an `_id`
//!    that is taken. The server names the statements that have failed, and has not begun with those
//!    behind one of an ordered command.
//! 3. A statement that is not named is carried out. One that may have met a lock has changed
//!    nothing, and is left to the caller, which sends it alone. All others that are named are
//!    refused, as they would be alone.
//!
//! The command is sent once. If it is not answered, each of its statements may be carried out.
//!
//! Updates that could change pending values of a unique index are transactions. The first ones that
//! name their documents by `_id` are one transaction together (decision 0074), whose statements go
//! together ([`super::bulk_write`]). Where a rival is in the way it is given up, and nothing was
//! done: each of them goes alone.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use bson::{Bson, Document, RawBson, doc, oid::ObjectId};
use sd2v::{
    filter::{is_only_id, pinned_ids},
    statement, unheld,
    update::{Update, given_fields, upserted_fields},
};

use super::bulk_write::{BulkOutcome, BulkWriteResult, write_all};
use crate::{
    command::{
        access_paths::fetch_key::is_values,
        writes::{
            direct,
            implicit::Call,
            insert::{BATCH, BATCH_BYTES, with_id},
            write_commands::{DeleteCommand, Operation, UpdateCommand},
        },
    },
    coordinator::{
        Core, catalog::Collection, locking::unique::key_questions::can_be_asked_behind, request::own_key::OwnKey,
        server::WriteAnswer,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// ConversionFailure: the statement has met a lock, or the application's own pipeline fails. (Where
/// its update is guarded, any error may be that.)
const FAILED: i32 = 241;

/// Writes of one transaction. They are locked until it is decided.
const TRANSACTION: usize = 500;

/// BadValue, FailedToParse, Unauthorized, TypeMismatch, InvalidLength, AuthenticationFailed,
/// CommandNotFound, InvalidOptions, InvalidNamespace, BSONObjectTooLarge, missing and unknown
/// fields: the server refuses a whole command by these before it begins with it.
const NOT_BEGUN: [i32; 12] = [2, 9, 13, 14, 16, 18, 59, 72, 73, 10_334, 40_414, 40_415];

/// Results of a command that carried out several writes: see [`crate::Collection::write_first`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PartialBulkResult {
    /// Number of the writes that were dealt with, from the first on. Zero: the first one has to be
    /// carried out alone.
    pub taken: usize,
    /// Sum of the results of the writes that were carried out.
    pub result: BulkWriteResult,
    /// Writes that changed nothing, by position: refused with an error, or (`None`) to be carried
    /// out alone, because a transaction may hold the document.
    pub not_done: BTreeMap<usize, Option<Error>>,
    /// The command's own failure. Each of the writes that were taken may have been made, unless the
    /// error says which ones were.
    pub failed: Option<Error>,
}

/// The command that several writes share.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Insert,
    Update,
    Delete,
}

impl Kind {
    fn of(operation: &Operation) -> Option<Self> {
        match operation {
            Operation::Insert(_) => Some(Self::Insert),
            Operation::Update(_) => Some(Self::Update),
            Operation::Delete(_) => Some(Self::Delete),
            Operation::Refused(_) => None,
        }
    }

    fn command(self, ns: &Namespace, statements: Vec<Document>, ordered: bool) -> Document {
        let (name, list) = match self {
            Self::Insert => ("insert", "documents"),
            Self::Update => ("update", "updates"),
            Self::Delete => ("delete", "deletes"),
        };
        doc! {name: &ns.coll, list: statements, "ordered": ordered}
    }
}

/// The first writes, as statements of one command.
struct Batch<'a> {
    kind: Kind,
    operations: &'a [Operation],
    statements: Vec<Document>,
    ids: Vec<Bson>,
    /// The server may be sent updates with the guard.
    is_trusted: bool,
}

/// Carries out as many of the first operations as one command can.
#[tracing::instrument(name = "mongotx.write_first", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn write_first(
    core: &Arc<Core>,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<PartialBulkResult> {
    if core.catalog.check_written(ns, false).is_err() || !core.catalog.shard_key(ns).await?.is_empty() {
        return Ok(PartialBulkResult::default());
    }
    let collection = core.catalog.look_up(ns).await?;
    let admitted = core.server.admit_plain(Some(ns)).await?;
    let line = match operations.first() {
        Some(Operation::Update(_)) => core.server.guarded_line(&core.options.tx_database).await?,
        _ => None,
    };
    let is_trusted = line.as_ref().is_some_and(|(_, is_trusted)| *is_trusted);
    let Some(mut batch) = Batch::of(&collection, operations, ordered, is_trusted) else {
        // The transaction takes connections of its own, and is no write outside transactions.
        drop((line, admitted));
        let most = TRANSACTION.min(core.options.max_documents);
        let is_routed = core.catalog.shards.are_routed();
        let is_keyed = |operation: &&Operation| !is_routed && is_keyed(&collection, operation);
        let keyed = operations.iter().take(most).take_while(is_keyed).count();
        return Ok(Box::pin(write_in_transaction(core, ns, &operations[..keyed], ordered)).await);
    };
    let command = batch.kind.command(ns, std::mem::take(&mut batch.statements), ordered);
    match core.server.write_several_directly(&ns.db, command, admitted, line.map(|(line, _)| line)).await {
        Ok(answer) => batch.judge(core, ns, &collection, answer, ordered).await,
        // Alone, each is refused where it stands.
        Err(error) if error.code().is_some_and(|code| NOT_BEGUN.contains(&code)) => Ok(PartialBulkResult::default()),
        Err(error) => {
            let failed = Some(match error.kind() {
                // Between two statements a server may also stop a command for other reasons.
                ErrorKind::Invalid => Error::new(ErrorKind::Indeterminate, error.to_string()),
                _ => error,
            });
            Ok(PartialBulkResult { taken: batch.ids.len(), failed, ..PartialBulkResult::default() })
        }
    }
}

/// Returns true if the write is a transaction because it may change values of a unique index, names
/// its document by `_id` or by a key of such an index, and says the values itself, so that it can
/// go with others. One that cannot would be a transaction of one document among many that stay
/// locked meanwhile. (Inserts are a bulk of their own: [`crate::command::writes::insert`].)
fn is_keyed(collection: &Collection, operation: &Operation) -> bool {
    let Operation::Update(command) = operation else { return false };
    let UpdateCommand { filter, update, multi, upsert, array_filters, options, .. } = &**command;
    let is_plain = !multi && array_filters.is_none() && options.is_plain() && options.hint.is_none();
    is_plain
        && collection.watch.is_none()
        && collection.needs_transaction((!upsert).then_some(update))
        && (only_id(filter).is_some() || is_values(filter) && collection.is_pinned_by(filter))
        && says_its_keys(collection, command)
        && operation.check().is_ok()
        && command.check_upsert().is_ok()
}

/// Returns true if the values of unique indexes that the update gives its document are known
/// before, whether an upsert finds one or inserts it.
fn says_its_keys(collection: &Collection, UpdateCommand { filter, update, upsert, .. }: &UpdateCommand) -> bool {
    let id = Bson::ObjectId(ObjectId::new());
    let changed = |fields: &[&str]| given_fields(update, &id, fields);
    let inserted = |fields: &[&str]| upserted_fields(filter, update, &id, fields);
    !collection.has_words()
        && can_be_asked_behind(&collection.uniques_touched(update), changed)
        && (!upsert || can_be_asked_behind(&collection.uniques, inserted))
}

/// Carries the writes out as one transaction, which fails at once where a rival is in the way. Then
/// nothing was done, and none is taken.
async fn write_in_transaction(
    core: &Arc<Core>,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> PartialBulkResult {
    if operations.len() < 2 || core.catalog.check_written(ns, true).is_err() {
        return PartialBulkResult::default();
    }
    let mut call = Call::at_once(core);
    let tx = call.begin();
    let result = Box::pin(write_all(core, tx, ns, operations, ordered)).await;
    match Box::pin(call.end(result)).await {
        Ok(Some(BulkOutcome { result, refused })) => {
            let taken = refused.first().filter(|_| ordered).map_or(operations.len(), |first| first.index + 1);
            let not_done = refused.into_iter().map(|refused| (refused.index, Some(refused.error))).collect();
            PartialBulkResult { taken, result, not_done, failed: None }
        }
        // Alone, each has a way to an answer, or to an error that names it.
        Ok(None) => PartialBulkResult::default(),
        // By these it is certain that nothing was done.
        Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Expired) => {
            tracing::debug!(%error, "writes of several documents could not be one transaction");
            PartialBulkResult::default()
        }
        Err(error) => {
            PartialBulkResult { taken: operations.len(), failed: Some(error), ..PartialBulkResult::default() }
        }
    }
}

impl<'a> Batch<'a> {
    /// `None`: fewer than two can go together.
    fn of(collection: &Collection, operations: &'a [Operation], ordered: bool, is_trusted: bool) -> Option<Self> {
        let kind = Kind::of(operations.first()?)?;
        let (mut statements, mut ids, mut bytes, mut seen) = (Vec::new(), Vec::new(), 0, HashSet::new());
        for operation in operations.iter().take(BATCH).take_while(|operation| Kind::of(operation) == Some(kind)) {
            let Some((id, statement)) = statement_of(collection, operation, is_trusted) else { break };
            bytes += statement.to_vec().map_or(BATCH_BYTES, |bytes| bytes.len());
            // Writes to one document are carried out in their order, even in a command without an
            // order: the second is not sent before the first, which may not have been done, has
            // been carried out.
            let is_next = ordered || kind == Kind::Insert || seen.insert(OwnKey::of(&id));
            if bytes > BATCH_BYTES || !is_next {
                break;
            }
            statements.push(statement);
            ids.push(id);
        }
        let operations = &operations[..ids.len()];
        (ids.len() > 1).then_some(Self { kind, operations, statements, ids, is_trusted })
    }

    async fn judge(
        &self,
        core: &Core,
        ns: &Namespace,
        collection: &Collection,
        answer: WriteAnswer,
        ordered: bool,
    ) -> Result<PartialBulkResult> {
        let sent = self.ids.len();
        let taken = answer.errors.first().filter(|_| ordered).map_or(sent, |(place, _)| sent.min(place + 1));
        let mut result = self.counted(&answer);
        let is_there = self.surely_there(core, ns, collection, &answer).await?;
        let judged = answer.errors.into_iter().map(|(place, error)| {
            let is_left = self.may_have_met_a_lock(place, &error) && !is_there.contains(&place);
            (place, (!is_left).then_some(error))
        });
        let not_done: BTreeMap<usize, Option<Error>> = judged.collect();
        if self.kind == Kind::Insert {
            let inserted = (0..taken).filter(|place| !not_done.contains_key(place));
            result.inserted_ids = inserted.map(|place| (place, self.ids[place].clone())).collect();
        }
        Ok(PartialBulkResult { taken, result, not_done, failed: None })
    }

    fn counted(&self, answer: &WriteAnswer) -> BulkWriteResult {
        let (n, modified) = (u64::try_from(answer.n).unwrap_or(0), u64::try_from(answer.modified).unwrap_or(0));
        let mut result = BulkWriteResult::default();
        match self.kind {
            Kind::Insert => result.inserted_count = n,
            Kind::Delete => result.deleted_count = n,
            Kind::Update => {
                result.upserted_ids.clone_from(&answer.upserted);
                result.matched_count = n.saturating_sub(answer.upserted.len() as u64);
                result.modified_count = modified;
            }
        }
        result
    }

    fn may_have_met_a_lock(&self, place: usize, error: &Error) -> bool {
        match self.operations.get(place) {
            Some(Operation::Insert(_)) => error.is_duplicate_id(),
            Some(Operation::Update(command)) if command.upsert && error.is_duplicate_key() => true,
            // Its operators may have failed because of what a document has in it that is held.
            Some(Operation::Update(command)) if self.is_trusted && guarded(command).is_some() => true,
            _ => error.code() == Some(FAILED),
        }
    }

    /// Inserts whose `_id` is taken by a document that is committed and not locked: they are
    /// duplicates, and are not sent again. (A locked document may be one that was never committed.)
    async fn surely_there(
        &self,
        core: &Core,
        ns: &Namespace,
        collection: &Collection,
        answer: &WriteAnswer,
    ) -> Result<HashSet<usize>> {
        let taken = answer.errors.iter().filter(|(_, error)| self.kind == Kind::Insert && error.is_duplicate_id());
        let taken: Vec<usize> = taken.map(|(place, _)| *place).filter(|place| *place < self.ids.len()).collect();
        // Under a collation the one that is there may have another `_id`.
        if taken.is_empty() || collection.has_collation {
            return Ok(HashSet::new());
        }
        let ids: Vec<Bson> = taken.iter().map(|place| self.ids[*place].clone()).collect();
        let filter = direct::unlocked(&doc! {"_id": {"$in": &ids}});
        let find = doc! {"find": &ns.coll, "filter": filter, "projection": {"_id": 1}};
        let found = core.server.collect(&ns.db, find, ids.len()).await;
        // The inserted documents have to be reported; without an answer here, the others are
        // checked one by one.
        let found = found.inspect_err(|error| tracing::debug!(%error, "duplicates could not be asked about together"));
        let found: HashSet<OwnKey> =
            found.unwrap_or_default().iter().filter_map(|there| there.get("_id").map(OwnKey::of)).collect();
        Ok(taken.into_iter().filter(|place| found.contains(&OwnKey::of(&self.ids[*place]))).collect())
    }
}

/// The `_id` that a write names, and its statement in a command of several. `None`: it has to be
/// carried out alone.
fn statement_of(collection: &Collection, operation: &Operation, is_trusted: bool) -> Option<(Bson, Document)> {
    operation.check().ok()?;
    match operation {
        Operation::Insert(document) => (!collection.needs_transaction(None)).then(|| with_id(document.clone())),
        Operation::Update(command) => {
            let UpdateCommand { filter, update, multi, upsert, array_filters, options, .. } = &**command;
            let is_plain = !multi && array_filters.is_none() && options.is_plain() && options.hint.is_none();
            if !is_plain || collection.needs_transaction((!upsert).then_some(update)) {
                return None;
            }
            let id = only_id(filter)?;
            if let Some(update) = is_trusted.then(|| guarded(command)).flatten() {
                let statement = doc! {"q": {"_id": &id}, "u": update};
                return Some((id, statement));
            }
            // An upsert knows no expressions, and meets the `_id` of whatever it does not match.
            let query = if *upsert { direct::unlocked(filter) } else { unlocked_or_failing(filter) };
            Some((id, command.statement(query, *upsert)))
        }
        Operation::Delete(command) => {
            let DeleteCommand { filter, multi, options } = &**command;
            let is_plain = !multi && options.is_plain() && options.hint.is_none() && collection.watch.is_none();
            let id = only_id(filter).filter(|_| is_plain)?;
            Some((id, doc! {"q": unlocked_or_failing(filter), "limit": 1}))
        }
        Operation::Refused(_) => None,
    }
}

/// The one `_id` that the filter demands, if it demands nothing else: of a document that does not
/// match for another reason, a lock would not be seen.
fn only_id(filter: &Document) -> Option<Bson> {
    let mut ids = pinned_ids(filter).filter(|ids| is_only_id(filter) && ids.len() == 1)?;
    ids.pop()
}

/// The update that the server refuses where the document is held, if it can be written so.
fn guarded(command: &UpdateCommand) -> Option<Document> {
    let id = RawBson::try_from(only_id(&command.filter)?).ok()?;
    let is_point = !command.upsert && unheld::has_no_fields(id.as_raw_bson_ref());
    match &command.update {
        Update::Operators(operators) if is_point => unheld::guarded(operators),
        _ => None,
    }
}

fn unlocked_or_failing(filter: &Document) -> Document {
    let mut both = filter.clone();
    both.extend(statement::unlocked_or_failing());
    both
}
