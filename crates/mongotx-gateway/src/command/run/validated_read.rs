//! A validated read: one outside transactions with read concern `snapshot` or `linearizable`. It is
//! a transaction of one.
//!
//! 1. Take a name of the moment, and begin a transaction of its own, at the level's isolation.
//! 2. The handler sends its query; `Call::first_batch` reads the answer to its end, into memory:
//!    nothing of it is sent to the client yet.
//! 3. `Call::validate` commits: everything that was read is of one moment, and the answer carries a
//!    name of that moment.
//! 4. The first batch is answered. The others wait in memory until they are fetched.
//!
//! If something that was read has changed between 2 and 3, that is a conflict: the read begins
//! again at 1, after a pause. Nothing is written, so an interruption at any step leaves nothing
//! behind.

use std::time::Duration;

use mongotx::{Backoff, RetryHistory, Session, TransactionOptions};

use super::parsed::{Handle, Parsed};
use crate::{
    command::parts::{
        body::{Body, HandlerReply},
        call::Call,
        read_concern::{ReadLevel, ValidatedRead},
    },
    failure::{Answer, Failure, codes},
};

/// The most times that a read is made. A driver makes it once more.
const ATTEMPTS: u32 = 16;
/// Pauses between two attempts of a read whose validation has failed.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(250));

/// Carries out a read at this level, which its command takes.
pub(super) async fn run_validated_read(parsed: &Parsed<'_>, level: ReadLevel, handle: Handle) -> Answer<Body> {
    let limit = parsed.context.tx.limits().transaction_lifetime;
    let done = tokio::time::timeout(limit, until_valid(parsed, level, handle)).await;
    done.unwrap_or_else(|_| {
        Err(given_up(
            level,
            &format!("took longer than {limit:?}, as long as a transaction may be open (--transaction-lifetime)"),
        ))
    })
}

async fn until_valid(parsed: &Parsed<'_>, level: ReadLevel, handle: Handle) -> Answer<Body> {
    let mut backoff = PAUSES;
    let mut left = ATTEMPTS;
    // Several that are lost in a row are given quiet.
    let lost = RetryHistory::default();
    loop {
        left -= 1;
        match attempt(parsed, level, handle, &lost).await {
            Err(conflict) if conflict.code == codes::WRITE_CONFLICT => {
                if left == 0 || parsed.connection.is_gone() {
                    let attempts = ATTEMPTS - left;
                    return Err(given_up(
                        level,
                        &format!("was made {attempts} times, the last one: {}", conflict.message),
                    ));
                }
            }
            done => return done,
        }
        backoff.wait().await;
    }
}

/// Makes the read once: steps 1 to 4.
async fn attempt(parsed: &Parsed<'_>, level: ReadLevel, handle: Handle, lost: &RetryHistory) -> Answer<Body> {
    // Before anything is read: what is committed between the read and its end is not in the answer.
    let validated = ValidatedRead { level, moment: parsed.context.tx.clock.settled() };
    let mut session = begin(parsed, level, lost)?;
    let mut call = Call { session: Some(&mut session), validated: Some(validated), ..parsed.call_again() };
    match handle(&mut call).await? {
        HandlerReply::Body(body) => Ok(body),
        HandlerReply::Server(_) => {
            Err(Failure::new(codes::INTERNAL_ERROR, "a validated read was passed on to the server"))
        }
    }
}

fn begin(parsed: &Parsed<'_>, level: ReadLevel, lost: &RetryHistory) -> Answer<Session> {
    let context = parsed.context;
    let options = TransactionOptions {
        isolation: Some(parsed.generic.read.isolation(context.options.client.isolation)),
        lock_wait: context.tuning().lock_wait,
        ..TransactionOptions::default()
    };
    let mut session = context.client.session_with(options).with_retry_history(lost.clone());
    session.begin().map_err(|error| {
        let failure = Failure::from(error);
        let message = format!("read concern '{}' cannot be had here: {}", level.name(), failure.message);
        Failure { message, ..failure }
    })?;
    Ok(session)
}

/// The failure of a read that was tried too often. Drivers repeat a read with this code, once, and
/// do not mark the server as unknown.
fn given_up(level: ReadLevel, why: &str) -> Failure {
    let message = format!(
        "the read with read concern '{}' {why}. Read less at a time, or with read concern 'majority'",
        level.name()
    );
    Failure::new(codes::EXCEEDED_TIME_LIMIT, message)
}
