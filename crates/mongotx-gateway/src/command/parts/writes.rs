//! Shared parts of `insert`, `update` and `delete`: statements one after the other, and their
//! results.

use bson::{Bson, Document, doc};
use mongotx::{BulkWriteResult, Error, ErrorKind, PartialBulkResult};

use super::{body::Body, call::Call, write_errors::WriteErrors};
use crate::{
    failure::{Answer, Failure, codes},
    fields::as_number,
    session::retry::{MOST_STATEMENTS, StatementResult},
};

/// # Errors
/// 16 for none and for too many.
pub(crate) fn check_count(count: usize) -> Answer<()> {
    if (1..=MOST_STATEMENTS).contains(&count) {
        return Ok(());
    }
    let message = format!("Write batch sizes must be between 1 and {MOST_STATEMENTS}. Got {count} operations.");
    Err(Failure::new(codes::INVALID_LENGTH, message))
}

/// Results of the statements so far.
#[derive(Default)]
pub(crate) struct Tally {
    is_ordered: bool,
    n: u64,
    modified: Option<u64>,
    upserted: Vec<Bson>,
    errors: WriteErrors,
    retried: Vec<i32>,
    /// The `writeConcernError` of writes that the server has made and may lose again.
    concern_error: Option<Document>,
}

impl Tally {
    pub(crate) fn new(is_ordered: bool) -> Self {
        Self { is_ordered, ..Self::default() }
    }

    /// An empty tally with `nModified`, as updates have it.
    pub(crate) fn of_updates(is_ordered: bool) -> Self {
        Self { modified: Some(0), ..Self::new(is_ordered) }
    }

    /// Returns true if the statement was done before, by the same retryable write, and so is not
    /// run again.
    ///
    /// # Errors
    /// The error of a statement whose result is unknown.
    pub(crate) fn retried(&mut self, call: &Call<'_>, statement: usize) -> Answer<bool> {
        match call.retry.as_deref().and_then(|retry| retry.done(statement)) {
            None => Ok(false),
            Some(StatementResult::Unknown(failure)) => Err(failure),
            Some(done) => {
                self.retried.push(i32::try_from(statement).unwrap_or(i32::MAX));
                self.add(statement, &done);
                Ok(true)
            }
        }
    }

    fn add(&mut self, statement: usize, done: &StatementResult) {
        match done {
            StatementResult::Count(n) => self.n += n,
            StatementResult::Update { matched, modified, upserted } => {
                self.n += matched;
                self.modified = self.modified.map(|total| total + modified);
                if let Some(id) = upserted {
                    self.n += 1;
                    self.upserted.push(doc! {"index": statement as i32, "_id": id.clone()}.into());
                }
            }
            StatementResult::Modify(_) | StatementResult::Unknown(_) => {}
        }
    }

    /// Notes the result of a statement.
    pub(crate) fn done(&mut self, call: &mut Call<'_>, statement: usize, done: StatementResult) {
        self.add(statement, &done);
        if call.context.options.has_test_commands() {
            call.context.tx.fail_points.panic_before_noting(call.name);
        }
        if let Some(retry) = call.retry.as_deref_mut() {
            retry.note(statement, done);
        }
    }

    /// A statement was refused: goes on (true), stops here, or the whole command fails.
    ///
    /// # Errors
    /// Any error that concerns the whole command, not this statement.
    pub(crate) fn refused(&mut self, call: &mut Call<'_>, statement: usize, error: &Error) -> Answer<bool> {
        if let Some(done) = error.unreplicated_answer() {
            for (place, done) in self.results_in(&done.answer) {
                self.add(statement + place, &done);
            }
            self.concern_error = Some(done.concern_error.clone());
            note_unknown(call, [statement], error, &Failure::from(error));
            return Ok(true);
        }
        // A name that no collection can have is the command's, and no statement's.
        let is_of_name = error.code() == Some(codes::INVALID_NAMESPACE);
        // The results of other statements stand, and are answered.
        if error.kind() == ErrorKind::Unsupported && self.has_results() && !call.is_in_transaction() {
            return Ok(self.failed(call, statement, &Failure::from(error)));
        }
        if error.kind() != ErrorKind::Invalid || is_of_name {
            let failure = Failure::from(error);
            note_unknown(call, [statement], error, &failure);
            return Err(failure);
        }
        Ok(self.failed(call, statement, &Failure::from(error)))
    }

    /// Notes a statement whose refusal the library lists beside the results of others, which stand:
    /// as [`Self::refused`], but what cannot be done for this statement is not the command's error.
    pub(crate) fn refused_among(&mut self, call: &mut Call<'_>, statement: usize, error: &Error) -> Answer<bool> {
        match error.kind() {
            ErrorKind::Unsupported => Ok(self.failed(call, statement, &Failure::from(error))),
            _ => self.refused(call, statement, error),
        }
    }

    fn has_results(&self) -> bool {
        self.n > 0 || !self.errors.is_empty() || !self.retried.is_empty()
    }

    /// The results of a command's statements, from the server's answer: the sum, and the places of
    /// those that have inserted something.
    fn results_in(&self, answer: &Document) -> Vec<(usize, StatementResult)> {
        let number = |of: &Document, field| of.get(field).and_then(as_number).and_then(|n| u64::try_from(n).ok());
        let count = |field| number(answer, field).unwrap_or(0);
        if self.modified.is_none() {
            return vec![(0, StatementResult::Count(count("n")))];
        }
        let upserted = answer.get_array("upserted").into_iter().flatten().filter_map(Bson::as_document);
        let mut results: Vec<(usize, StatementResult)> = upserted
            .filter_map(|one| {
                let place = number(one, "index").and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
                Some((
                    place,
                    StatementResult::Update { matched: 0, modified: 0, upserted: Some(one.get("_id")?.clone()) },
                ))
            })
            .collect();
        let matched = count("n").saturating_sub(results.len() as u64);
        results.push((0, StatementResult::Update { matched, modified: count("nModified"), upserted: None }));
        results
    }

    /// Notes that several statements from the `first` on were done, most of them by one command
    /// that reports the sum of their results. The sum is noted for the first of them, because the
    /// results of all of them are remembered or none.
    pub(crate) fn done_together(&mut self, call: &mut Call<'_>, first: usize, writes: &PartialBulkResult) {
        let BulkWriteResult { inserted_count, matched_count, modified_count, deleted_count, upserted_ids, .. } =
            &writes.result;
        let (mut counted, mut modified) = (inserted_count + deleted_count + matched_count, *modified_count);
        for place in (0..writes.taken).filter(|place| !writes.not_done.contains_key(place)) {
            let id = upserted_ids.iter().find(|(upserted, _)| *upserted == place).map(|(_, id)| id.clone());
            let n = if id.is_none() { take_one(&mut counted) } else { 0 };
            self.done(
                call,
                first + place,
                match self.modified {
                    None => StatementResult::Count(n),
                    Some(_) => {
                        let changed = if n > 0 { take_one(&mut modified) } else { 0 };
                        StatementResult::Update { matched: n, modified: changed, upserted: id }
                    }
                },
            );
        }
    }

    /// Returns true if a refused statement ends the command.
    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    /// Notes a statement that the gateway itself refuses: goes on (true), or stops here.
    pub(crate) fn failed(&mut self, call: &mut Call<'_>, statement: usize, failure: &Failure) -> bool {
        self.errors.add(statement, failure);
        call.is_refused = true;
        !self.is_ordered && !call.is_in_transaction()
    }

    /// The reply with the results of all statements.
    pub(crate) fn finish(self, call: &Call<'_>) -> Answer<Body> {
        let n = |count: u64| Bson::Int32(i32::try_from(count).unwrap_or(i32::MAX));
        let mut reply = doc! {"n": n(self.n)};
        if !self.errors.is_empty() {
            reply.insert("writeErrors", self.errors.into_entries());
        }
        if !self.retried.is_empty() {
            reply.insert("retriedStmtIds", self.retried);
        }
        if !self.upserted.is_empty() {
            reply.insert("upserted", self.upserted);
        }
        if let Some(modified) = self.modified {
            reply.insert("nModified", n(modified));
        }
        Ok(Body::of(&reply)?.with_concern_error(self.concern_error, call.mode))
    }
}

/// Takes one of the number that is left, if there is one.
fn take_one(left: &mut u64) -> u64 {
    let one = (*left).min(1);
    *left -= one;
    one
}

/// Notes that the result of a retryable write is unknown because its answer was lost, so that it is
/// not made again.
pub(crate) fn note_unknown(
    call: &mut Call<'_>,
    statements: impl IntoIterator<Item = usize>,
    error: &Error,
    failure: &Failure,
) {
    if error.kind() == ErrorKind::Indeterminate
        && let Some(retry) = call.retry.as_deref_mut()
    {
        for statement in statements {
            retry.note(statement, StatementResult::Unknown(failure.clone()));
        }
    }
}
