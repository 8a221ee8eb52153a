//! Inserts under unique indexes: placed, and compared with what is committed, in one round trip.
//!
//! 1. The documents are placed, and behind them stands the check of
//!    [`crate::coordinator::locking::unique`], whether other documents have one of their keys in a
//!    safe version. The server carries both out in this order.
//! 2. There is no other document with the keys. Otherwise, and where the check was not carried out,
//!    the usual check follows, which shows the other documents.
//!
//! Where one process keeps the data, placing is an `insert`, and the check is queries behind it in
//! the same write (decision 0089). Elsewhere both are one `update` of a few documents (decision
//! 0041): for each an upsert that matches nothing, and behind them statements that change nothing
//! and count what they match.

use bson::{Document, doc};
use protocol::TxId;
use sd2v::{
    index::Unique,
    statement::{self, of_others},
};

use crate::{
    command::isolation::validation_ahead::send_insert,
    coordinator::{
        Core,
        locking::unique::key_questions::{Question, questions},
        request::own_key::OwnKey,
        server::live::LedWrite,
        transaction::Transaction,
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
    let is_sharded = core.catalog.shards.are_routed() || !core.catalog.shard_key(ns).await?.is_empty();
    if uniques.is_empty() || stored.is_empty() || is_sharded {
        return Ok(None);
    }
    let questions = questions(&uniques.iter().collect::<Vec<_>>(), documents);
    if !(1..=MOST_QUESTIONS).contains(&questions.len()) {
        return Ok(None);
    }
    if core.server.is_bound() {
        return insert_and_ask(core, tx, ns, stored, questions, me).await.map(Some);
    }
    if are_few(stored) { upsert_and_count(core, tx, ns, stored, questions, me).await } else { Ok(None) }
}

/// Places documents by an `insert`, and asks the questions behind it.
async fn insert_and_ask(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    stored: &[Document],
    questions: Vec<Question>,
    me: TxId,
) -> Result<PlacedInserts> {
    let find = |Question { condition, collation }: Question| {
        let mut find = doc! {
            "find": &ns.coll, "filter": of_others(condition, me), "projection": {"_id": 1},
            "limit": 1, "singleBatch": true, "readConcern": {"level": "local"},
        };
        find.extend(collation.map(|collation| ("collation".to_owned(), collation.into())));
        find
    };
    let asked = questions.into_iter().map(find).collect();
    let command = doc! {"insert": &ns.coll, "documents": stored, "ordered": true};
    let LedWrite { mut answer, has_found } = send_insert(core, tx, ns, command, asked).await?;
    let Some((done, refused)) = (!answer.errors.is_empty()).then(|| answer.errors.swap_remove(0)) else {
        let are_compared = has_found == Some(false);
        return Ok(PlacedInserts { done: stored.len(), refused: None, are_compared });
    };
    Ok(PlacedInserts { done, refused: Some(refused), are_compared: false })
}

/// The same by one `update`. `None`: that takes an `insert`, and nothing was placed.
async fn upsert_and_count(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    stored: &[Document],
    questions: Vec<Question>,
    me: TxId,
) -> Result<Option<PlacedInserts>> {
    let mut statements: Vec<Document> = stored.iter().map(statement::insert_pending).collect();
    for question in questions {
        let mut asks = statement::count_others(question.condition, me);
        asks.extend(question.collation.map(|collation| ("collation".to_owned(), collation.into())));
        statements.push(asks);
    }
    let command = doc! {"update": &ns.coll, "updates": statements, "ordered": true};
    let mut answer = match send_insert(core, tx, ns, command, Vec::new()).await {
        // Refused as a whole, by a server or a role that allows less: an `insert` says the
        // same, or passes.
        Err(refused) if refused.kind() == ErrorKind::Invalid => return Ok(None),
        led => led?.answer,
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
