//! `serverStatus`: the server's, with the gateway's transactions in the place of those that the
//! server does not have.

use bson::{Bson, Document, doc};

use super::parts::call::Call;
use crate::{
    failure::Answer,
    fields::as_number,
    metrics::{Metrics, Repeated},
    reply::Reply,
};

pub(super) async fn answer_server_status(call: &mut Call<'_>) -> Answer<Reply> {
    let is_wanted = match call.body.get("transactions") {
        Some(Bson::Boolean(wanted)) => *wanted,
        Some(other) => as_number(other) != Some(0),
        None => true,
    };
    let reply = call.send_on().await?;
    if !is_wanted || !reply.is_ok() {
        return Ok(reply);
    }
    let mut reply = Document::try_from(reply.body()).map_err(mongotx::Error::from)?;
    reply.insert("transactions", transactions(&call.context.tx.metrics));
    Ok(reply.into())
}

/// The fields of a router, and why transactions were rolled back (`abortCause`).
fn transactions(metrics: &Metrics) -> Document {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let causes: Vec<(&str, u64)> = metrics.aborted_by_reason().collect();
    let aborted = causes.iter().map(|(_, count)| *count).sum();
    let (open, active) = (metrics.open.get(), metrics.active.get());
    let causes: Document = causes.into_iter().map(|(name, of)| (name.to_owned(), Bson::Int64(count(of)))).collect();
    doc! {
        "retriedCommandsCount": count(metrics.retries(Repeated::Write) + metrics.retries(Repeated::Commit)),
        "currentOpen": open,
        "currentActive": active,
        "currentInactive": open.saturating_sub(active),
        "totalStarted": count(metrics.started.get()),
        "totalCommitted": count(metrics.committed.get()),
        "totalAborted": count(aborted),
        "abortCause": causes,
    }
}
