//! Waiting for more members than a write has waited for already, in turns.
//!
//! One long wait would occupy a connection to the server: where a member is missing, a few writers
//! who want it would keep all other commands waiting. So a wait asks again and again, for a short
//! time each, no more than some ask at a time, and it ends with its client.

use std::time::Duration;

use bson::{Document, doc};
use tokio::time::{Instant, timeout_at};

use crate::{connection::Connection, context::Context, failure::codes, fields::as_number};

/// Time that the server waits in one turn.
const TURN: Duration = Duration::from_millis(250);
/// The longest that one waits without a `wtimeout`.
const LONGEST: Duration = Duration::from_secs(300);

/// Waits until everything that was written satisfies the concern. Returns the `writeConcernError`
/// if it does not within its `wtimeout`, or the client is gone.
pub(super) async fn wait(context: &Context, connection: &Connection, concern: &Document) -> Option<Document> {
    let limit = match concern.get("wtimeout").map(as_number) {
        None | Some(Some(0)) => LONGEST,
        Some(Some(limit)) => u64::try_from(limit).map_or(LONGEST, Duration::from_millis).min(LONGEST),
        // The server refuses it.
        Some(None) => return ask(context, concern.clone()).await,
    };
    let until = Instant::now() + limit;
    loop {
        let Ok(turn) = timeout_at(until, context.concern_turns.acquire()).await else {
            return Some(timed_out(concern));
        };
        let left = until.saturating_duration_since(Instant::now());
        let mut asked = concern.clone();
        asked.insert("wtimeout", i64::try_from(left.min(TURN).as_millis()).unwrap_or(1).max(1));
        let missed = ask(context, asked).await?;
        drop(turn);
        if !is_timeout(&missed) {
            return Some(missed);
        }
        if left <= TURN || connection.is_gone() {
            return Some(timed_out(concern));
        }
    }
}

/// Asks the server once whether the concern is satisfied, for as long as it says.
async fn ask(context: &Context, concern: Document) -> Option<Document> {
    let waited = context.client.await_write_concern(concern).await;
    waited.unwrap_or_else(|error| Some(missed_for(error.code(), error.message())))
}

fn is_timeout(missed: &Document) -> bool {
    missed.get_document("errInfo").is_ok_and(|info| info.get_bool("wtimeout").unwrap_or(false))
}

/// The server's words, with the client's limit.
fn timed_out(concern: &Document) -> Document {
    let mut missed = missed_for(Some(codes::WRITE_CONCERN_FAILED), "waiting for replication timed out");
    let mut concern = concern.clone();
    if !concern.contains_key("wtimeout") {
        concern.insert("wtimeout", 0);
    }
    concern.insert("provenance", "clientSupplied");
    missed.insert("errInfo", doc! {"wtimeout": true, "writeConcern": concern});
    missed
}

/// The `writeConcernError` of this code.
pub(super) fn missed_for(code: Option<i32>, message: &str) -> Document {
    let code = code.unwrap_or(codes::WRITE_CONCERN_FAILED);
    doc! {"code": code, "codeName": codes::name(code), "errmsg": message}
}
