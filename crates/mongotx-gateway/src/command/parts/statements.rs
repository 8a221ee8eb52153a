//! The statements of an `update` or `delete`, one after the other.
//!
//! In a transaction as many as possible are carried out as one bulk of the library, which sends
//! them together where it can. Outside, each is a write of its own, which takes effect whatever
//! becomes of the next: as many as possible are sent to the server by one command.

use bson::Document;
use mongotx::{BulkWriteResult, Error, Namespace, PartialBulkResult, WriteModel};

use super::{
    call::{Call, within},
    writes::{Tally, note_unknown},
};
use crate::{
    failure::{Answer, Failure},
    session::retry::StatementResult,
};

/// A statement of a write command.
pub(crate) trait Statement {
    /// The statement as a write of a bulk. `None`: a bulk cannot express it, or it is refused
    /// whatever the documents are.
    fn to_model(&self) -> Option<WriteModel>;

    /// Carries the statement out by itself, once, as the `n`th of its command. False: stop here.
    async fn run(&mut self, call: &mut Call<'_>, namespace: &Namespace, n: usize, tally: &mut Tally) -> Answer<bool>;
}

/// Carries out all statements, until a refused one ends the command.
pub(crate) async fn run_all(
    call: &mut Call<'_>,
    namespace: &Namespace,
    statements: &mut [impl Statement],
    tally: &mut Tally,
) -> Answer<()> {
    if !call.is_in_transaction() {
        return run_each(call, namespace, statements, tally).await;
    }
    let mut n = 0;
    while n < statements.len() {
        // One by itself is no bulk.
        let rest = if statements.len() - n > 1 { &statements[n..] } else { &[] };
        let models: Vec<WriteModel> = rest.iter().map_while(Statement::to_model).collect();
        let count = models.len().max(1);
        if !run_some(call, namespace, n, models, &mut statements[n..n + count], tally).await? {
            break;
        }
        n += count;
    }
    Ok(())
}

/// Outside a transaction: carries out as many as possible by one command, and the others one after
/// the other.
async fn run_each(
    call: &mut Call<'_>,
    namespace: &Namespace,
    statements: &mut [impl Statement],
    tally: &mut Tally,
) -> Answer<()> {
    let (mut n, mut pace) = (0, Pace::default());
    while n < statements.len() {
        match run_first(call, namespace, statements, n, &mut pace, tally).await? {
            None => break,
            Some(0) => {
                if !statements[n].run(call, namespace, n, tally).await? {
                    break;
                }
                n += 1;
            }
            Some(taken) => n += taken,
        }
    }
    Ok(())
}

/// Number of statements that are sent together next.
pub(crate) struct Pace(usize);

/// Most statements of one command to the server.
const MOST: usize = 1_000;

impl Default for Pace {
    fn default() -> Self {
        Self(MOST)
    }
}

impl Pace {
    /// Adapts the pace: of `sent` statements, `taken` were taken. The statements behind one that
    /// stops the others are sent again, so there must be fewer of them, or many documents that are
    /// held would cost the square of their number.
    fn after(&mut self, sent: usize, taken: usize) {
        self.0 = if taken < sent { (2 * taken).max(2) } else { (2 * self.0).min(MOST) };
    }
}

/// Outside a transaction: carries out statements from the `n`th on by one command, and those that
/// it has left, by themselves. Returns how many statements are done: none, if the `n`th has to be
/// carried out by itself. `None`: stop here.
pub(crate) async fn run_first(
    call: &mut Call<'_>,
    namespace: &Namespace,
    statements: &mut [impl Statement],
    n: usize,
    pace: &mut Pace,
    tally: &mut Tally,
) -> Answer<Option<usize>> {
    // A retryable write that is recorded is a transaction of its own.
    if call.session.is_some() || statements.len() - n < 2 {
        return Ok(Some(0));
    }
    let is_new = |n| call.retry.as_deref().is_none_or(|retry| retry.done(n).is_none());
    let next = statements[n..].iter().zip(n..).take(pace.0);
    let models: Vec<WriteModel> = next.map_while(|(statement, n)| statement.to_model().filter(|_| is_new(n))).collect();
    if models.len() < 2 {
        return Ok(Some(0));
    }
    let collection = call.collection::<Document>(namespace);
    let first = match collection.write_first(&models, tally.is_ordered()).await {
        Ok(first) => first,
        Err(error) => return tally.refused(call, n, &error).map(|goes_on| goes_on.then_some(1)),
    };
    pace.after(models.len(), first.taken);
    let goes_on = match &first.failed {
        Some(error) => {
            note_unknown(call, n..n + first.taken, error, &Failure::from(error));
            tally.refused(call, n, error)?
        }
        None => {
            tally.done_together(call, n, &first);
            run_left(call, namespace, statements, n, &first, tally).await?
        }
    };
    Ok(goes_on.then_some(first.taken))
}

/// Runs or refuses the statements that the common command has not carried out. `false`: an error
/// stops an ordered command here.
async fn run_left(
    call: &mut Call<'_>,
    namespace: &Namespace,
    statements: &mut [impl Statement],
    n: usize,
    first: &PartialBulkResult,
    tally: &mut Tally,
) -> Answer<bool> {
    for (place, refused) in &first.not_done {
        let goes_on = match refused {
            Some(error) => tally.refused(call, n + place, error)?,
            None => statements[n + place].run(call, namespace, n + place, tally).await?,
        };
        if !goes_on {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Statements from the `n`th on, of which there are `models` if these can be a bulk. False: stop
/// here.
async fn run_some(
    call: &mut Call<'_>,
    namespace: &Namespace,
    n: usize,
    models: Vec<WriteModel>,
    statements: &mut [impl Statement],
    tally: &mut Tally,
) -> Answer<bool> {
    if models.len() > 1 {
        let collection = call.collection::<Document>(namespace);
        return match within!(call, collection.bulk_write(models)).await {
            Ok(result) => {
                note(call, n, result, tally);
                Ok(true)
            }
            Err(error) => refused(call, n, &error, tally),
        };
    }
    for (place, statement) in statements.iter_mut().enumerate() {
        if !statement.run(call, namespace, n + place, tally).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn note(call: &mut Call<'_>, first: usize, result: BulkWriteResult, tally: &mut Tally) {
    let BulkWriteResult { matched_count: matched, modified_count: modified, upserted_ids, deleted_count, .. } = result;
    tally.done(call, first, StatementResult::Count(deleted_count));
    tally.done(call, first, StatementResult::Update { matched, modified, upserted: None });
    for (place, id) in upserted_ids {
        tally.done(call, first + place, StatementResult::Update { matched: 0, modified: 0, upserted: Some(id) });
    }
}

/// Notes a refused statement, which ends the transaction; ids that earlier statements have upserted
/// are not reported. `false`: the command stops here.
fn refused(call: &mut Call<'_>, first: usize, error: &Error, tally: &mut Tally) -> Answer<bool> {
    let Some(refused) = error.write_errors().first() else { return tally.refused(call, first, error) };
    if let Some(done) = error.progress() {
        let (matched, modified) = (done.matched + done.upserted, done.modified);
        tally.done(call, first, StatementResult::Count(done.deleted));
        tally.done(call, first, StatementResult::Update { matched, modified, upserted: None });
    }
    tally.refused(call, first + refused.index, &refused.error)
}
