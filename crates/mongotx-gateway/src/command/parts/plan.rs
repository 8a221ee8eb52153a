//! `explain`: the server's plan for what the application wrote, and the one for what the gateway
//! would send.

use bson::{Bson, Document};
use futures_util::future::BoxFuture;
use mongotx::Verbosity;

use super::{body::Body, call::Call, read_concern::ReadLevel};
use crate::failure::{Answer, Failure, codes};

/// Ways in which a command is explained.
#[derive(Clone, Copy)]
pub(crate) enum Explain {
    /// The command is refused in `explain`.
    No,
    /// Show the server's plan for the command as the application wrote it.
    AsWritten,
    /// Besides, by the plan for the command that the gateway would send now.
    AsSent(Plan),
}

/// Sends `explain` for the command that would be sent, at this verbosity.
pub(crate) type Plan = for<'a, 'b> fn(&'a mut Call<'b>, Verbosity) -> BoxFuture<'a, Answer<Document>>;

/// The field of an answer that says how MongoTx runs the command.
const SENT: &str = "mongotx";
/// Fields that are equal in two plans of one server.
const COMMON: [&str; 3] = ["explainVersion", "serverInfo", "serverParameters"];

/// The answer: the plan for the command as it was written and, in a field of its own, the one for
/// what would be sent.
pub(crate) fn answer(written: Document, sent: Option<Document>) -> Answer<Body> {
    let mut answer = without_status(written);
    if let Some(sent) = sent {
        let mut sent = without_status(sent);
        COMMON.iter().for_each(|field| drop(sent.remove(field)));
        answer.insert(SENT, Bson::Document(sent));
    }
    Body::of(&answer)
}

/// A plan is made of what the server has, whatever others have seen of it.
///
/// # Errors
/// 72 for a level other than `local`, as the server.
pub(crate) fn check_level(command: &str, level: Option<ReadLevel>) -> Answer<()> {
    match level {
        None | Some(ReadLevel::Local) => Ok(()),
        Some(level) => {
            let level = level.name();
            let message = format!("Command {command} does not support {{ readConcern: {{ level: \"{level}\" }} }}");
            Err(Failure::new(codes::INVALID_OPTIONS, format!("{message} :: caused by :: read concern not supported")))
        }
    }
}

/// The server's answer as a part of the gateway's.
fn without_status(mut plan: Document) -> Document {
    for field in ["ok", "operationTime", "$clusterTime"] {
        plan.remove(field);
    }
    plan
}
