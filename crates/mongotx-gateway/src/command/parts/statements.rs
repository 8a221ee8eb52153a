//! The statements of an `update` or `delete`, one after the other.
//!
//! In a transaction as many as possible are carried out as one bulk of the library, which sends
//! them together where it can. Outside, each is a write of its own, which takes effect whatever
//! becomes of the next.

use bson::Document;
use mongotx::{BulkWriteResult, Error, Namespace, WriteModel};

use super::{
    call::{Call, within},
    writes::Tally,
};
use crate::{failure::Answer, session::retry::Done};

/// One statement.
pub(crate) trait Statement {
    /// The same as a write of a bulk; `None`: it says more, or is refused whatever the documents
    /// are.
    fn to_model(&self) -> Option<WriteModel>;

    /// Carries it out by itself, as the `n`th of its command. False: stop here.
    async fn run(&self, call: &mut Call<'_>, namespace: &Namespace, n: usize, tally: &mut Tally) -> Answer<bool>;
}

/// Carries out all of them, until one is refused that ends the command.
pub(crate) async fn run_all(
    call: &mut Call<'_>,
    namespace: &Namespace,
    statements: &[impl Statement],
    tally: &mut Tally,
) -> Answer<()> {
    let mut n = 0;
    while n < statements.len() {
        let models: Vec<WriteModel> = match call.is_in_transaction() {
            true => statements[n..].iter().map_while(Statement::to_model).collect(),
            false => Vec::new(),
        };
        let count = models.len().max(1);
        if !run_some(call, namespace, (n, models), &statements[n..n + count], tally).await? {
            break;
        }
        n += count;
    }
    Ok(())
}

/// Statements from the `n`th on, of which there are `models` if these can be a bulk. False: stop
/// here.
async fn run_some(
    call: &mut Call<'_>,
    namespace: &Namespace,
    (n, models): (usize, Vec<WriteModel>),
    statements: &[impl Statement],
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
    for (place, statement) in statements.iter().enumerate() {
        if !statement.run(call, namespace, n + place, tally).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn note(call: &mut Call<'_>, first: usize, result: BulkWriteResult, tally: &mut Tally) {
    let BulkWriteResult { matched_count: matched, modified_count: modified, upserted_ids, deleted_count, .. } = result;
    tally.done(call, first, Done::Count(deleted_count));
    tally.done(call, first, Done::Update { matched, modified, upserted: None });
    for (place, id) in upserted_ids {
        tally.done(call, first + place, Done::Update { matched: 0, modified: 0, upserted: Some(id) });
    }
}

/// One of them was refused, which ends the transaction: what those before it have upserted is not
/// told. False: stop here.
fn refused(call: &mut Call<'_>, first: usize, error: &Error, tally: &mut Tally) -> Answer<bool> {
    let Some(refused) = error.write_errors().first() else { return tally.refused(call, first, error) };
    if let Some(done) = error.progress() {
        let (matched, modified) = (done.matched + done.upserted, done.modified);
        tally.done(call, first, Done::Count(done.deleted));
        tally.done(call, first, Done::Update { matched, modified, upserted: None });
    }
    tally.refused(call, first + refused.index, &refused.error)
}
