//! Replies to clients: one raw document each, made of documents, bytes and errors. What a failure
//! says besides is in `crate::failure`.

use bson::{Document, RawDocument, RawDocumentBuf};

use crate::{
    clock::Clock,
    error::{CommandError, code},
};

/// The reply to a command: a document with `ok`, as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    body: RawDocumentBuf,
}

impl Reply {
    /// The document of the reply as bytes, the way it is sent to the client.
    ///
    /// ```
    /// use bson::doc;
    /// use mongotx_gateway::Reply;
    ///
    /// let reply = Reply::from(doc! {"n": 3, "ok": 1});
    /// assert_eq!(reply.body().get_i32("n")?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn body(&self) -> &RawDocument {
        &self.body
    }

    /// Adds the gateway's time, unless the reply has the server's.
    pub(crate) fn stamped(mut self, clock: &Clock) -> Self {
        if !matches!(self.body.get("operationTime"), Ok(Some(_))) {
            clock.stamp(&mut self.body);
        }
        self
    }

    /// Returns true if the command was carried out: the field `ok` is 1 or `true`.
    ///
    /// ```
    /// use bson::doc;
    /// use mongotx_gateway::Reply;
    ///
    /// assert!(Reply::from(doc! {"n": 3, "ok": 1}).is_ok());
    /// assert!(!Reply::from(doc! {"ok": 0, "errmsg": "no such command", "code": 59}).is_ok());
    /// ```
    pub fn is_ok(&self) -> bool {
        match self.body.get("ok") {
            Ok(Some(ok)) => ok.as_f64() == Some(1.0) || ok.as_i32() == Some(1) || ok.as_bool() == Some(true),
            _ => false,
        }
    }
}

impl From<RawDocumentBuf> for Reply {
    fn from(body: RawDocumentBuf) -> Self {
        Self { body }
    }
}

/// A document that cannot be written (a name with a zero byte in it) becomes an internal error that
/// says so.
impl From<Document> for Reply {
    fn from(document: Document) -> Self {
        match RawDocumentBuf::try_from(&document) {
            Ok(body) => Self { body },
            Err(error) => {
                let refused = CommandError::new(code::INTERNAL_ERROR, format!("the reply is no BSON: {error}"));
                // The error's own document has neither odd names nor great length.
                Self { body: RawDocumentBuf::try_from(&refused.to_document()).unwrap_or_default() }
            }
        }
    }
}

impl From<CommandError> for Reply {
    fn from(error: CommandError) -> Self {
        error.to_document().into()
    }
}

impl<T: Into<Reply>> From<Result<T, CommandError>> for Reply {
    fn from(result: Result<T, CommandError>) -> Self {
        match result {
            Ok(reply) => reply.into(),
            Err(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn ok_is_understood_in_every_number_type() {
        for ok in [doc! {"ok": 1}, doc! {"ok": 1.0}, doc! {"ok": true}] {
            assert!(Reply::from(ok.clone()).is_ok(), "{ok}");
        }
        for not_ok in [doc! {"ok": 0}, doc! {"ok": 0.0}, doc! {}, doc! {"ok": "1"}] {
            assert!(!Reply::from(not_ok.clone()).is_ok(), "{not_ok}");
        }
    }

    #[test]
    fn documents_that_are_no_bson_become_errors() {
        let reply = Reply::from(doc! {"a\0b": 1});
        assert_eq!(reply.body().get_i32("code").ok(), Some(1));
    }
}
