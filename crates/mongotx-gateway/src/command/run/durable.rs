//! Retryable writes whose promise outlives the gateway (`retryable_writes: Durable`).
//!
//! The write and the record of what it did are one transaction, so both are there or neither; the
//! record's condition is what two gateways that carry out the same write conflict on.
//!
//! 1. Read the session's record, unless this gateway wrote it last and the number is newer. It has
//!    this number: statements that it names are answered, not made.
//! 2. Run the other statements in a transaction.
//! 3. In the same one, replace the record if it is still the one of 1.
//! 4. Commit. If the answer is lost, find out the outcome by the transaction's id.
//!
//! Interrupted before 4 has decided, nothing was made; after that, the record shows what was. A
//! conflict, and a record that is not the one of 1 any more, roll back and begin again, for as long
//! as a write may wait.

use std::time::{Duration, Instant};

use bson::Document;
use mongotx::{Backoff, Concern, ErrorKind, Isolation, Session, TransactionOptions, UpdateResult};

use super::parsed::{Handle, Parsed};
use crate::{
    command::parts::{body::HandlerReply, call::Call, recovery},
    context::Context,
    failure::{Answer, Failure, RETRYABLE_WRITE_ERROR, codes},
    session::{
        Lsid,
        entry::{RecordVersion, SessionWork},
        machine::End,
        record::Record,
        refusal::Refusal,
        retry::Retry,
    },
};

/// Pauses between two attempts of a write that has met a rival.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));

/// Result of one attempt to carry out the write.
enum Attempt {
    Done(HandlerReply),
    /// Nothing was made, and it makes sense to try again. If there is no time for that, this is the
    /// answer.
    Again(Failure),
}

/// Carries out a write that has a number.
pub(super) async fn run_durable_write(
    parsed: &Parsed<'_>,
    lsid: &Lsid,
    number: i64,
    work: &mut SessionWork,
    handle: Handle,
) -> Answer<HandlerReply> {
    let context = parsed.context;
    context.tx.records.prepare().await?;
    let until = Instant::now() + context.options.client.write_wait;
    let mut backoff = PAUSES;
    loop {
        match attempt(parsed, lsid, number, work, handle).await? {
            Attempt::Done(made) => return Ok(made),
            Attempt::Again(failure) if Instant::now() >= until => return Err(not_made(failure)),
            Attempt::Again(_) => backoff.wait().await,
        }
    }
}

/// The failure of a write that was not made. Its application has begun no transaction that could
/// have ended.
fn not_made(failure: Failure) -> Failure {
    if failure.code != codes::NO_SUCH_TRANSACTION {
        return failure;
    }
    let message = format!("nothing was written: {}", failure.message);
    Failure { code: codes::NETWORK_TIMEOUT, message, ..failure }
}

/// Makes one attempt: steps 1 to 4.
async fn attempt(
    parsed: &Parsed<'_>,
    lsid: &Lsid,
    number: i64,
    work: &mut SessionWork,
    handle: Handle,
) -> Answer<Attempt> {
    let before = match work.known.take() {
        Some(known) if known.number < number => {
            Record { number: Some(known.number), version: known.version, done: Retry::default() }
        }
        _ => parsed.context.tx.records.read(lsid).await?,
    };
    let done = match before.number {
        Some(newest) if newest > number => return Err(Refusal::TooOld { number, newest }.into()),
        Some(newest) if newest == number => before.done.clone(),
        _ => Retry::default(),
    };
    let mut now = done.clone();
    let mut session = begin(parsed.context)?;
    let mut call = Call { session: Some(&mut session), retry: Some(&mut now), ..parsed.call_again() };
    let made = handle(&mut call).await;
    let is_refused = call.is_refused || made.is_err();
    match made {
        Ok(HandlerReply::Server(reply)) => Ok(Attempt::Done(HandlerReply::Server(reply))),
        Err(failure) if is_transient(&failure) => Ok(again(session, failure).await),
        made if is_refused && now == done || made.is_err() => {
            // A refusal may be this very write's own, carried out by another gateway meanwhile.
            let refused = again(session, raced()).await;
            if parsed.context.tx.records.read(lsid).await?.version != before.version {
                return Ok(refused);
            }
            made.map(Attempt::Done)
        }
        made if now == done => {
            remember(work, &before);
            made.map(Attempt::Done)
        }
        made => {
            let update = before.update(number, &now)?;
            let attempt = store(parsed.context, lsid, &before, update, session).await?;
            if attempt.is_none() {
                work.known = Some(RecordVersion { number, version: before.version + 1 });
            }
            attempt.map_or_else(|| made.map(Attempt::Done), Ok)
        }
    }
}

fn remember(work: &mut SessionWork, record: &Record) {
    work.known = record.number.map(|number| RecordVersion { number, version: record.version });
}

fn begin(context: &Context) -> Answer<Session> {
    // Two such transactions may wait for each other: each waits for a part of the time only.
    let lock_wait = context.options.client.write_wait / 4;
    // As outside transactions: each document is locked and written by itself.
    let (isolation, concern) = (Isolation::ReadCommitted, Concern::Majority);
    let options =
        TransactionOptions { isolation: Some(isolation), concern, lock_wait, ..TransactionOptions::default() };
    let mut session = context.client.session_with(options);
    session.begin()?;
    Ok(session)
}

async fn again(mut session: Session, failure: Failure) -> Attempt {
    // The rollback can only fail because there is nothing to roll back.
    let _ = session.rollback().await;
    Attempt::Again(failure)
}

fn is_transient(failure: &Failure) -> bool {
    failure.labels.contains(&mongotx::error::TRANSIENT_TRANSACTION_ERROR)
}

fn raced() -> Failure {
    Failure::new(codes::WRITE_CONFLICT, "WriteConflict error: another gateway carries out writes of the same session")
}

/// Steps 3 and 4. `None`: committed.
async fn store(
    context: &Context,
    lsid: &Lsid,
    before: &Record,
    update: Document,
    mut session: Session,
) -> Answer<Option<Attempt>> {
    match context.tx.records.replace(lsid, before, update, &mut session).await {
        Ok(UpdateResult { matched_count: 0, upserted_id: None, .. }) => return Ok(Some(again(session, raced()).await)),
        Ok(_) => {}
        Err(error) if error.code() == Some(11_000) => return Ok(Some(again(session, raced()).await)),
        Err(error) => {
            let failure = Failure::from(&error);
            let is_transient = is_transient(&failure);
            let failure = without_record(context, failure);
            return if is_transient { Ok(Some(again(session, failure).await)) } else { Err(failure) };
        }
    }
    let Err(error) = session.commit().await else { return Ok(None) };
    let failure = Failure::from(&error);
    match error.kind() {
        ErrorKind::Indeterminate => match learn(context, &error).await {
            Some(End::Committed) => Ok(None),
            Some(End::Aborted) => Ok(Some(Attempt::Again(failure))),
            _ => Err(failure.labelled(RETRYABLE_WRITE_ERROR)),
        },
        _ if is_transient(&failure) => Ok(Some(Attempt::Again(without_record(context, failure)))),
        _ => Err(failure),
    }
}

/// A conflict about the record is one about the session: the client knows of no record.
fn without_record(context: &Context, failure: Failure) -> Failure {
    let is_about_it = failure.code == codes::WRITE_CONFLICT && failure.message.contains(&context.tx.records.name());
    if is_about_it { raced() } else { failure }
}

/// Outcome of a commit whose answer was lost; `None` if that cannot be found out now.
async fn learn(context: &Context, error: &mongotx::Error) -> Option<End> {
    recovery::settle(&context.client, error.transaction()?).await.ok()
}
