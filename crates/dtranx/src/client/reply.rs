//! Replies to requests that may be repeated: a server that does not carry one out is an error.

use super::call::Call;
use super::error::{Error, Result};
use super::link::Answer;
use crate::core::ServerId;
use crate::wire::Reply;

/// Reason of an error if a server has not answered within the time limit of a request.
pub(super) const SILENT: &str = "it did not answer in time";

impl Call {
    /// The answer to a request that may be repeated.
    pub(super) async fn reply(self) -> Result<Reply> {
        let server = self.server;
        let why = match self.answer().await {
            Some(Answer::Reply(Reply::Refused(why)) | Answer::NotCarriedOut(why)) => why,
            Some(Answer::Reply(reply)) => return Ok(reply),
            Some(Answer::Silence(_)) | None => SILENT.to_owned(),
        };
        Err(Error::Unavailable { server, why })
    }
}

pub(super) fn unexpected(server: ServerId, reply: &Reply) -> Error {
    Error::Unavailable { server, why: format!("it answered something else: {reply:?}") }
}
