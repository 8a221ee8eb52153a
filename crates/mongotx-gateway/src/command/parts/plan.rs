//! How commands are explained: the server's plan for what the gateway would send.

use bson::Document;
use futures_util::future::BoxFuture;
use mongotx::Verbosity;

use super::call::Call;
use crate::failure::Answer;

/// How a command is explained.
#[derive(Clone, Copy)]
pub(crate) enum Explain {
    /// `explain` refuses the command.
    No,
    /// The server explains the command as the application wrote it.
    AsWritten,
    /// The gateway explains the command as it would be sent now.
    AsSent(Plan),
}

/// Asks for the plan of a command, in as many words.
pub(crate) type Plan = for<'a, 'b> fn(&'a mut Call<'b>, Verbosity) -> BoxFuture<'a, Answer<Document>>;

/// The server's answer as a part of the gateway's.
pub(crate) fn without_status(mut plan: Document) -> Document {
    for field in ["ok", "operationTime", "$clusterTime"] {
        plan.remove(field);
    }
    plan
}
