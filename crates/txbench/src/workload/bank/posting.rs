//! Posting of an operation: one update for each account (paper 003, section IV-A), and its record
//! in the audit.

use std::time::{SystemTime, UNIX_EPOCH};

use bson::{Bson, Document, Timestamp, doc};

use super::{
    ACCOUNTS, AUDIT, BankOptions,
    accounts::Accounts,
    operation::{Change, Effect, Operation},
    reads::DEPOSITED,
};
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Change as Modify, Find, Session, TxOptions, Update},
};

/// Does an operation in a transaction and commits it; or without a transaction, with `alone`.
pub(super) async fn post(
    session: &mut dyn Session,
    options: &BankOptions,
    accounts: &Accounts,
    operation: Operation,
) -> OpResult<()> {
    let alone = options.alone && operation.change.documents() == 1;
    if !alone {
        session.begin(&TxOptions::default()).await?;
    }
    let now = now();
    let mut changes = Vec::new();
    for effect in operation.change.effects() {
        let update = update(options, accounts, operation, effect, now);
        match options.audit {
            true => changes.push(modified(session, accounts, effect, update).await?),
            false if session.update(ACCOUNTS, update).await? => {}
            false => return Err(missing(accounts, effect)),
        }
    }
    if options.audit {
        let kind = operation.change.kind();
        let record = doc! {"_id": operation.sequence, "kind": kind, "at": now, "changes": changes};
        session.insert(AUDIT, vec![record]).await?;
    }
    if alone { Ok(()) } else { session.commit().await }
}

/// The update for one account: `Balance` changes by the amount, `LastTxnSequence` and
/// `LastUpdateTS` are set.
fn update(options: &BankOptions, accounts: &Accounts, operation: Operation, effect: Effect, now: Timestamp) -> Update {
    let mut inc = doc! {"Balance": effect.by.0};
    if options.sums() && !matches!(operation.change, Change::Transfer { .. }) {
        inc.insert(DEPOSITED, effect.by.0);
    }
    let set = doc! {"LastTxnSequence": operation.sequence, "LastUpdateTS": now};
    Update { filter: key(options, accounts, effect.account), update: doc! {"$inc": inc, "$set": set} }
}

/// Filter that finds an account.
pub(super) fn key(options: &BankOptions, accounts: &Accounts, ordinal: u32) -> Document {
    let field = if options.by_account { "Account" } else { "_id" };
    doc! {field: accounts.number(ordinal).as_ref()}
}

/// Updates an account and returns the audit's record of it.
async fn modified(session: &mut dyn Session, accounts: &Accounts, effect: Effect, update: Update) -> OpResult<Bson> {
    let find = Find::new(update.filter).project(doc! {"Balance": 1});
    let changed = session.find_and_modify(ACCOUNTS, find, Modify::Update(update.update)).await?;
    let balance = changed.ok_or_else(|| missing(accounts, effect))?.get_i64("Balance");
    let balance = balance.map_err(|error| BenchError::Failed(format!("Balance of an account: {error}")))?;
    let number = accounts.number(effect.account);
    Ok(doc! {"account": number.as_ref(), "by": effect.by.0, "balance": balance}.into())
}

fn missing(accounts: &Accounts, effect: Effect) -> OpError {
    let number = accounts.number(effect.account);
    BenchError::Failed(format!("the account {number} is not there any more")).into()
}

/// The time as the paper's listing 4 has it: a timestamp, seconds and a counter; here the
/// microseconds within the second.
fn now() -> Timestamp {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = u32::try_from(now.as_secs()).unwrap_or(u32::MAX);
    Timestamp { time, increment: now.subsec_micros() + 1 }
}
