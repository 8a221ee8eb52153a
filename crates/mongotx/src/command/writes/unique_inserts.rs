//! Inserts of a few documents under unique indexes: placed, and compared with what is committed, by
//! one command (decision 0041).
//!
//! 1. One `update` command: for each document an upsert that matches nothing, and behind them the
//!    check of [`crate::coordinator::locking::unique`], which other documents have one of their
//!    keys in a safe version: statements that change nothing and count what they match. The server
//!    carries them out in their order, so the check comes after the placing.
//! 2. No more were counted than were placed: no other document has the keys. Otherwise, and where
//!    the check was not carried out, the usual check follows, which shows the other documents.

use bson::{Document, doc};
use protocol::TxId;
use sd2v::{index::Unique, statement};

use crate::{
    command::isolation::validation_ahead::send_insert,
    coordinator::{
        Core, locking::unique::key_questions::questions, request::own_key::OwnKey, transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Limits of the documents and of their bytes: for more of them an `insert` and a check apart cost
/// the server less.
const MOST_DOCUMENTS: usize = 16;
const MOST_BYTES: usize = 64 * 1024;
/// Limit of statements in one command that find who has a key.
const MOST_QUESTIONS: usize = 4;

/// Results of placing documents, in their order.
#[derive(Default)]
pub(crate) struct PlacedInserts {
    /// Number of the first documents that were placed.
    pub(crate) done: usize,
    /// Error of the next document, which was not placed.
    pub(crate) refused: Option<Error>,
    /// No other document has a key of theirs in its safe version, but for those that the
    /// transaction holds.
    pub(crate) are_compared: bool,
}

/// Places `documents`, which are `stored` so, and compares them. `None`: that takes an
/// `insert`, and nothing was placed.
pub(crate) async fn place_compared(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    uniques: &[Unique],
    stored: &[Document],
    documents: &[&Document],
    me: TxId,
) -> Result<Option<PlacedInserts>> {
    if uniques.is_empty() || !are_few(stored) || !core.catalog.shard_key(ns).await?.is_empty() {
        return Ok(None);
    }
    let questions = questions(&uniques.iter().collect::<Vec<_>>(), documents);
    if core.catalog.shards.are_routed() || !(1..=MOST_QUESTIONS).contains(&questions.len()) {
        return Ok(None);
    }
    let mut statements: Vec<Document> = stored.iter().map(statement::insert_pending).collect();
    for question in questions {
        let mut asks = statement::count_others(question.condition, me);
        asks.extend(question.collation.map(|collation| ("collation".to_owned(), collation.into())));
        statements.push(asks);
    }
    let command = doc! {"update": &ns.coll, "updates": statements, "ordered": true};
    let mut answer = match send_insert(core, tx, ns, command).await {
        // Refused as a whole, by a server or a role that allows less: an `insert` says the
        // same, or passes.
        Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
        answer => answer?,
    };
    // Upserts count among the matches, and are listed in the answer: with a server that does
    // otherwise the check is a command of its own.
    let is_alone = usize::try_from(answer.n) == Ok(stored.len()) && !answer.upserted.is_empty();
    let failed = if answer.errors.is_empty() { None } else { Some(answer.errors.swap_remove(0)) };
    Ok(Some(match failed {
        Some((place, refused)) if place < stored.len() => {
            PlacedInserts { done: place, refused: Some(refused), are_compared: false }
        }
        failed => PlacedInserts { done: stored.len(), refused: None, are_compared: failed.is_none() && is_alone },
    }))
}

/// Documents with plain `_id`s, and no large ones: of the others the server says other things in an
/// `update`.
fn are_few(stored: &[Document]) -> bool {
    let has_plain_id = |stored: &Document| stored.get("_id").is_some_and(|id| OwnKey::of_simple(id).is_some());
    let bytes = |stored: &Document| stored.to_vec().map_or(MOST_BYTES, |bytes| bytes.len());
    (1..=MOST_DOCUMENTS).contains(&stored.len())
        && stored.iter().all(has_plain_id)
        && stored.iter().map(bytes).sum::<usize>() < MOST_BYTES
}
