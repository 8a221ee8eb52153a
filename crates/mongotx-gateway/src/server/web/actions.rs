//! The actions of the page's buttons. Each is logged, with the user who clicked.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use mongotx::{ClientId, Outcome, TxId};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::activity_json::session_of;
use crate::{context::Context, state::Interrupted};

/// Time limit of looking for what a client holds.
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// Limits of an answer: collections that are looked into, documents of each, and transactions.
const MOST_COLLECTIONS: usize = 20;
const MOST_DOCUMENTS: usize = 500;
const MOST_TRANSACTIONS: usize = 50;

/// The user who clicked, and the address that the request came from.
pub(super) struct Operator {
    pub(super) user: String,
    pub(super) peer: SocketAddr,
}

/// The result of an action, or the reason in words why it failed.
type ActionResult = Result<Value, String>;

fn text<'a>(said: &'a Value, field: &str) -> Option<&'a str> {
    said.get(field).and_then(Value::as_str)
}

/// Rolls back a transaction: one that is open at this gateway, by its session and its number, or
/// any that is not decided, by its id.
pub(super) async fn abort(context: &Context, said: &Value, by: &Operator) -> ActionResult {
    if let Some(session) = text(said, "session") {
        let lsid = session_of(session).ok_or("there is no such session")?;
        let number: i64 = text(said, "number").and_then(|number| number.parse().ok()).ok_or("which transaction?")?;
        let entry = context.tx.sessions.find(&lsid);
        let open = entry.and_then(|entry| entry.shown()).filter(|open| open.number == number);
        let open = open.ok_or("the transaction is over")?;
        let shown = open.now();
        drop(open);
        tracing::warn!(
            user = ?by.user, peer = %by.peer, session = %lsid, number, of = %shown,
            "an operator rolls a transaction back",
        );
        context.tx.kill_session(&lsid).await;
        return Ok(json!({"done": "The transaction was rolled back."}));
    }
    let id: TxId = text(said, "transaction").and_then(|id| id.parse().ok()).ok_or("there is no such transaction")?;
    tracing::warn!(user = ?by.user, peer = %by.peer, transaction = %id, "an operator rolls a transaction back");
    let outcome = context.client.abort(id).await.map_err(|error| error.to_string())?;
    let done = match outcome {
        Outcome::RolledBack => "It is rolled back.",
        Outcome::Committed => "It is committed, and cannot be rolled back.",
        Outcome::Unknown => "Nothing is stored about it: there is nothing to roll back.",
        Outcome::Active => "It could not be rolled back: too many transactions of its client have been.",
    };
    Ok(json!({"done": done}))
}

/// Ends a command that runs, by its number, as the end of its session would.
pub(super) fn end(context: &Context, said: &Value, by: &Operator) -> ActionResult {
    let opid: i64 = text(said, "opid").and_then(|opid| opid.parse().ok()).ok_or("there is no such command")?;
    let who = match context.tx.interrupt(opid, |_| true) {
        Interrupted::Notified(who) => who,
        Interrupted::NotHere => return Err("the command is over".to_owned()),
        Interrupted::Cannot | Interrupted::NotAllowed => return Err("the command cannot be interrupted".to_owned()),
    };
    tracing::warn!(user = ?by.user, peer = %by.peer, opid, of = %who, "an operator ends a command");
    Ok(json!({"done": "The command was told to end."}))
}

/// The transactions of a client that hold documents, with how many.
pub(super) async fn holds(context: &Context, said: &Value) -> ActionResult {
    let id: ClientId = text(said, "client").and_then(|id| id.parse().ok()).ok_or("there is no such client")?;
    let looked = timeout(LOOK_LIMIT, look(context, id)).await;
    looked
        .map_err(|_| format!("the server has not found out within {LOOK_LIMIT:?}"))?
        .map_err(|error| error.to_string())
}

async fn look(context: &Context, id: ClientId) -> mongotx::Result<Value> {
    let Some(info) = context.client.client_info(id).await? else {
        return Ok(json!({"done": "There is no record of it any more.", "transactions": []}));
    };
    let mut held: BTreeMap<TxId, (usize, usize)> = BTreeMap::new();
    for namespace in info.namespaces.iter().take(MOST_COLLECTIONS) {
        for document in context.client.locked_documents(namespace, MOST_DOCUMENTS).await? {
            for writer in document.lock.writer.iter().filter(|writer| writer.client == id) {
                held.entry(*writer).or_default().0 += 1;
            }
            for reader in document.lock.readers.iter().filter(|reader| reader.client == id) {
                held.entry(*reader).or_default().1 += 1;
            }
        }
    }
    let mut transactions = Vec::new();
    for (id, (written, read)) in held.iter().take(MOST_TRANSACTIONS) {
        let outcome = match context.client.outcome(*id).await? {
            Outcome::Active => "undecided",
            Outcome::Committed => "committed",
            Outcome::RolledBack => "rolled back",
            Outcome::Unknown => "unknown",
        };
        transactions.push(json!({"id": id.to_string(), "written": written, "read": read, "outcome": outcome}));
    }
    let done = if transactions.is_empty() { "It holds no document." } else { "" };
    Ok(json!({"done": done, "transactions": transactions, "more": held.len().saturating_sub(MOST_TRANSACTIONS)}))
}

/// Finishes and undoes what dead clients have left.
pub(super) async fn repair(context: &Context, by: &Operator) -> ActionResult {
    tracing::warn!(user = ?by.user, peer = %by.peer, "an operator has what dead clients have left repaired");
    let swept = context.client.sweep().await.map_err(|error| error.to_string())?;
    let (fenced, retired, repaired) = (swept.fenced, swept.retired, swept.repaired);
    Ok(json!({
        "done": format!("Dead clients fenced: {fenced}. Documents repaired: {repaired}. Clients of which nothing is left: {retired}."),
    }))
}
