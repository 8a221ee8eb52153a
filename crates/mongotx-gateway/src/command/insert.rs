//! The command `insert`: parses its documents and inserts them by the library, many by one command
//! where that can be. How several statements go together is in `parts::statements`.

use bson::Document;
use mongotx::{Error, Namespace, WriteModel};

use super::parts::{
    body::HandlerReply,
    call::{Call, within},
    statements::{self, Pace, run_first},
    writes::{Tally, check_count, note_unknown},
};
use crate::{
    failure::{Answer, Failure},
    fields::Fields,
    session::retry::StatementResult,
};

/// Arguments of the command, without the collection.
pub(super) struct Inserts {
    documents: Vec<Document>,
    is_ordered: bool,
}

impl Inserts {
    pub(super) fn parse(mut fields: Fields) -> Answer<Self> {
        let documents = fields.documents("documents")?;
        let documents = fields.required("documents", documents)?;
        let is_ordered = fields.flag("ordered")?.unwrap_or(true);
        // Heeded before the handler runs.
        fields.safe_flag("bypassDocumentValidation")?;
        fields.ignore(&["stmtId", "stmtIds"]);
        fields.finish()?;
        check_count(documents.len())?;
        Ok(Self { documents, is_ordered })
    }
}

pub(super) async fn answer_insert(call: &mut Call<'_>) -> Answer<HandlerReply> {
    let namespace = call.namespace()?;
    if let Some(reply) = call.write_plainly(&namespace).await? {
        return Ok(reply.into());
    }
    let Inserts { documents, is_ordered } = Inserts::parse(call.fields("insert"))?;
    let mut tally = Tally::new(is_ordered);
    let mut insertions: Vec<Insertion> = documents.into_iter().map(Insertion).collect();
    let Some(inserted) = insert_first(call, &namespace, &mut insertions, &mut tally).await? else {
        return tally.finish(call).map(HandlerReply::Body);
    };
    let mut waiting = Vec::new();
    for (statement, Insertion(document)) in insertions.into_iter().enumerate().skip(inserted) {
        if !tally.retried(call, statement)? {
            waiting.push((statement, document));
        }
    }
    if !waiting.is_empty() {
        insert(call, &namespace, waiting, is_ordered, &mut tally).await?;
    }
    tally.finish(call).map(HandlerReply::Body)
}

/// One document that an `insert` adds.
struct Insertion(Document);

impl statements::Statement for Insertion {
    fn to_model(&self) -> Option<WriteModel> {
        Some(WriteModel::InsertOne { document: self.0.clone() })
    }

    async fn run(&mut self, call: &mut Call<'_>, namespace: &Namespace, n: usize, tally: &mut Tally) -> Answer<bool> {
        match call.collection::<Document>(namespace).insert_one(&self.0).await {
            Err(error) => tally.refused(call, n, &error),
            Ok(_) => {
                tally.done(call, n, StatementResult::Count(1));
                Ok(true)
            }
        }
    }
}

/// Outside a transaction: inserts the first documents, many by one command, as long as that can be.
/// Answers how many; `None`: one was refused that ends the command.
async fn insert_first(
    call: &mut Call<'_>,
    namespace: &Namespace,
    insertions: &mut [Insertion],
    tally: &mut Tally,
) -> Answer<Option<usize>> {
    let (mut inserted, mut pace) = (0, Pace::default());
    while !call.is_in_transaction() && inserted < insertions.len() {
        match run_first(call, namespace, insertions, inserted, &mut pace, tally).await? {
            None => return Ok(None),
            Some(0) => break,
            Some(taken) => inserted += taken,
        }
    }
    Ok(Some(inserted))
}

async fn insert(
    call: &mut Call<'_>,
    namespace: &Namespace,
    waiting: Vec<(usize, Document)>,
    is_ordered: bool,
    tally: &mut Tally,
) -> Answer<()> {
    let collection = call.collection::<Document>(namespace);
    // An error in a transaction ends it, whatever the order.
    let is_ordered = is_ordered || call.is_in_transaction();
    let outcome = match waiting.as_slice() {
        [(_, document)] => within!(call, collection.insert_one(document)).await.map(drop),
        several => {
            let documents = several.iter().map(|(_, document)| document);
            within!(call, collection.insert_many(documents).ordered(is_ordered)).await.map(drop)
        }
    };
    let statements: Vec<usize> = waiting.iter().map(|(statement, _)| *statement).collect();
    let Err(error) = outcome else {
        for statement in statements {
            tally.done(call, statement, StatementResult::Count(1));
        }
        return Ok(());
    };
    if error.write_errors().is_empty() {
        note_unknown(call, statements.iter().copied(), &error, &Failure::from(&error));
        return tally.refused(call, statements.first().copied().unwrap_or(0), &error).map(drop);
    }
    note_several(call, &statements, &error, is_ordered, tally)
}

/// Notes that some documents were inserted, and some refused.
fn note_several(
    call: &mut Call<'_>,
    statements: &[usize],
    error: &Error,
    is_ordered: bool,
    tally: &mut Tally,
) -> Answer<()> {
    let refused = error.write_errors();
    let stop = if is_ordered { refused.first().map_or(0, |first| first.index) } else { statements.len() };
    for (place, statement) in statements.iter().enumerate() {
        if let Some(refused) = refused.iter().find(|refused| refused.index == place) {
            tally.refused_among(call, *statement, &refused.error)?;
        } else if place < stop {
            tally.done(call, *statement, StatementResult::Count(1));
        }
    }
    Ok(())
}
