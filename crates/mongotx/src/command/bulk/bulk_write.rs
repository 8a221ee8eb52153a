//! `bulk_write`: several writes of one collection, in order or not. Here it is decided which go
//! together and which one by one. Those that one command carries out are sent by
//! `combined_writes`, upserts by `upserts`; single writes are those of `insert`, `update` and
//! `delete`.

use std::sync::Arc;

use bson::Bson;

use super::{
    combined_writes::{CombineOptions, CombinedWrites, MOST_COMBINED, send_together},
    upserts::{self, Inserted, Presence},
};
use crate::{
    command::writes::{delete, implicit, insert, update, write_commands::Operation},
    coordinator::{Core, locking::batch::StatementForm, transaction::Transaction},
    error::{Error, Progress, Result, WriteError},
    options::Namespace,
};

/// Commands of several that may end early before the next writes are sent one by one: what such a
/// command has locked behind its end is given back, and is locked again.
const MOST_STOPS: usize = 4;

/// The result of a bulk write: counts by kind, and the `_id`s of new documents.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteResult {
    /// Number of documents inserted by insert models.
    pub inserted_count: u64,
    /// Number of documents matched by update and replace models.
    pub matched_count: u64,
    /// Number of documents modified by update and replace models.
    pub modified_count: u64,
    /// Number of documents deleted by delete models.
    pub deleted_count: u64,
    /// `_id`s of inserted documents, each with the position of its model.
    pub inserted_ids: Vec<(usize, Bson)>,
    /// `_id`s of upserted documents, each with the position of its model.
    pub upserted_ids: Vec<(usize, Bson)>,
}

impl BulkWriteResult {
    /// Notes that these operations, the first of which is at `place`, are done. Those that are not
    /// among the `inserted` have matched one document each, and removed it or perhaps changed it:
    /// `modified` of all these documents are not as before.
    fn note_done(&mut self, place: usize, operations: &[Operation], modified: usize, inserted: Vec<(usize, Bson)>) {
        let removed = operations.iter().filter(|operation| matches!(operation, Operation::Delete(_))).count() as u64;
        self.matched_count += operations.len() as u64 - removed - inserted.len() as u64;
        self.modified_count += (modified as u64).saturating_sub(removed);
        self.deleted_count += removed;
        for (offset, id) in inserted {
            match operations.get(offset) {
                Some(Operation::Insert(_)) => {
                    self.inserted_count += 1;
                    self.inserted_ids.push((place + offset, id));
                }
                _ => self.upserted_ids.push((place + offset, id)),
            }
        }
    }
}

#[tracing::instrument(name = "mongotx.bulk_write", level = "debug", skip_all, fields(%ns))]
pub(crate) async fn write_bulk(
    core: &Arc<Core>,
    tx: Option<&mut Transaction>,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<BulkWriteResult> {
    match tx {
        Some(tx) => inside(core, tx, ns, operations, ordered).await,
        None => {
            operations.iter().try_for_each(Operation::check)?;
            implicit::in_transaction!(core, |tx| inside(core, tx, ns, operations, ordered))
        }
    }
}

async fn inside(
    core: &Arc<Core>,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<BulkWriteResult> {
    let BulkOutcome { result, refused } = write_all(core, tx, ns, operations, ordered).await?;
    let Some(first) = refused.first() else { return Ok(result) };
    let message =
        format!("{} of {} writes to {ns} refused; the first: {}", refused.len(), operations.len(), first.message);
    let progress = Progress {
        inserted: result.inserted_count,
        matched: result.matched_count,
        modified: result.modified_count,
        deleted: result.deleted_count,
        upserted: result.upserted_ids.len() as u64,
    };
    Err(Error::invalid(first.code, message).with_write_errors(refused).with_progress(progress))
}

/// Results of the writes of a bulk.
pub(super) struct BulkOutcome {
    /// Sum of the results of the writes that were carried out.
    pub(crate) result: BulkWriteResult,
    /// Errors of the writes that were refused, in their order: of the first one alone, if it has
    /// stopped the bulk.
    pub(crate) refused: Vec<WriteError>,
}

/// Carries out the writes inside a transaction.
///
/// # Errors
/// Any error that ends the transaction; refused writes are in the result.
pub(super) async fn write_all(
    core: &Arc<Core>,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    ordered: bool,
) -> Result<BulkOutcome> {
    let mut result = BulkWriteResult::default();
    let mut refused = Vec::new();
    let mut progress = BulkProgress::new();
    while let Some(operation) = operations.get(progress.index) {
        if progress.go_together(core, tx, ns, operations, &mut result).await? {
            continue;
        }
        let before = result.matched_count - result.modified_count;
        let done = one(core, tx, ns, operation, progress.index, &mut result).await;
        match tx.end_write(done) {
            // The document had the new values already, as those of the next operations may.
            Ok(()) if result.matched_count - result.modified_count > before => progress.form = StatementForm::InTwo,
            Ok(()) => {}
            Err(error) if error.ends_transaction() => return Err(error),
            Err(error) => {
                refused.push(WriteError::new(progress.index, error));
                if ordered {
                    break;
                }
            }
        }
        progress.index += 1;
    }
    Ok(BulkOutcome { result, refused })
}

/// Progress of a bulk, and what it has learned about sending its operations together.
struct BulkProgress {
    /// Place of the next operation.
    index: usize,
    /// Place from which on documents may be located by other keys than `_id`.
    keys_from: usize,
    /// Place from which on operations may go together.
    together_from: usize,
    /// The operation before which a command of several has ended: it goes alone.
    alone: Option<usize>,
    /// Number of commands of several that have ended early.
    stops: usize,
    form: StatementForm,
    /// Place from which on one statement may name several documents again.
    apart_until: usize,
    there: Presence,
}

impl BulkProgress {
    fn new() -> Self {
        let there = Presence::default();
        let (form, alone) = (StatementForm::Short, None);
        Self { index: 0, keys_from: 0, together_from: 0, alone, stops: 0, form, apart_until: 0, there }
    }

    /// Carries out the next operations together, if they can be. Returns true if any was carried
    /// out, or they are to be tried in another form; otherwise the next one goes alone.
    async fn go_together(
        &mut self,
        core: &Arc<Core>,
        tx: &mut Transaction,
        ns: &Namespace,
        operations: &[Operation],
        result: &mut BulkWriteResult,
    ) -> Result<bool> {
        let index = self.index;
        let rest = if index < self.together_from || self.alone == Some(index) { &[] } else { &operations[index..] };
        if let Err(error) = self.there.ask(core, tx, ns, index, rest).await {
            tracing::debug!(%error, "it was not found out which documents are there");
        }
        let inserted = upserted_together(core, tx, ns, rest, index, &mut self.there).await?;
        if !inserted.is_empty() {
            self.index += inserted.len();
            result.upserted_ids.extend((index..).zip(inserted));
            return Ok(true);
        }
        let is_apart = self.form == StatementForm::Short && index < self.apart_until;
        let form = if is_apart { StatementForm::Apart } else { self.form };
        let how = CombineOptions { by_key: index >= self.keys_from, form };
        let together = send_together(core, tx, ns, rest, index, how, &self.there).await;
        let together = match tx.end_write(together) {
            Ok(together) => together,
            Err(error) if error.ends_transaction() => return Err(error),
            // One by one they are refused where they stand.
            Err(error) => {
                tracing::debug!(%error, "the statements of a bulk could not be sent together");
                self.together_from = index + MOST_COMBINED;
                CombinedWrites::default()
            }
        };
        if together.is_refused_as_one {
            self.apart_until = index + MOST_COMBINED;
            return Ok(true);
        }
        let is_stopped = self.note_end(&together);
        if together.done == 0 {
            return Ok(false);
        }
        let done = &operations[index..index + together.done];
        result.note_done(index, done, together.modified, together.inserted);
        self.index += together.done;
        self.alone = is_stopped.then_some(self.index);
        Ok(true)
    }

    /// Notes where a command of several has ended. Returns true if that was before its end.
    fn note_end(&mut self, together: &CombinedWrites) -> bool {
        let is_stopped = together.done < together.named && !together.is_full;
        if is_stopped {
            self.stops += 1;
            if self.stops == MOST_STOPS || together.is_unclear {
                (self.stops, self.together_from) = (0, self.index + together.named);
            }
            // Asking again for the places of the others would cost a command for each of them.
            self.keys_from = self.index + together.named;
        }
        is_stopped
    }
}

/// Inserts the documents of the first upserts that are not there, as many as one command takes.
/// Returns their `_id`s; none, if the first goes another way.
async fn upserted_together(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    operations: &[Operation],
    place: usize,
    there: &mut Presence,
) -> Result<Vec<Bson>> {
    let absent = there.absent(place).min(operations.len());
    // Behind inserts alone a validation can go. Others go with the changes beside them.
    if absent < 2 || absent < operations.len() {
        return Ok(Vec::new());
    }
    let inserted = upserts::insert_together(core, tx, ns, &operations[..absent]).await;
    let inserted = match tx.end_write(inserted) {
        Err(error) if !error.ends_transaction() => {
            // One by one they are refused where they stand.
            tracing::debug!(%error, "upserts could not be sent together");
            Inserted::default()
        }
        inserted => inserted?,
    };
    if inserted.is_next_refused || inserted.ids.is_empty() {
        there.leave(place + inserted.ids.len());
    }
    if inserted.is_next_refused {
        there.note_stop();
    }
    Ok(inserted.ids)
}

async fn one(
    core: &Arc<Core>,
    tx: &mut Transaction,
    ns: &Namespace,
    operation: &Operation,
    index: usize,
    result: &mut BulkWriteResult,
) -> Result<()> {
    match operation {
        Operation::Insert(document) => {
            result.inserted_ids.push((index, insert::one(core, tx, ns, document.clone()).await?));
            result.inserted_count += 1;
        }
        Operation::Update(command) => {
            let done = update::update_documents(core, Some(tx), ns, command).await?;
            result.matched_count += done.matched_count;
            result.modified_count += done.modified_count;
            result.upserted_ids.extend(done.upserted_id.map(|id| (index, id)));
        }
        Operation::Delete(command) => {
            result.deleted_count += delete::delete_documents(core, Some(tx), ns, command).await?
        }
        Operation::Refused(error) => return Err(error.clone()),
    }
    Ok(())
}
