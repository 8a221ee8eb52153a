//! The answer to a command that was carried out: everything but `ok`.

use bson::{Document, RawDocumentBuf, Timestamp, raw::cstr, rawdoc};

use crate::{
    failure::{Answer, Failure, codes},
    fields::as_number,
    reply::Reply,
    session::{
        info::Mode,
        labels::{add_retryable, is_retriable},
    },
};

/// The fields of a reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Body(RawDocumentBuf);

impl Body {
    /// An empty answer: nothing but `ok`.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// The reply that has these fields.
    ///
    /// # Errors
    /// The document cannot be written as BSON.
    pub(crate) fn of(document: &Document) -> Answer<Self> {
        let raw = RawDocumentBuf::try_from(document);
        raw.map(Self).map_err(|error| Failure::new(codes::INTERNAL_ERROR, format!("the reply is no BSON: {error}")))
    }

    /// A cursor, with the name of the moment that it shows.
    pub(crate) fn of_cursor(mut cursor: RawDocumentBuf, moment: Option<Timestamp>) -> Self {
        if let Some(moment) = moment {
            cursor.append(cstr!("atClusterTime"), moment);
        }
        rawdoc! {"cursor": cursor}.into()
    }

    /// Adds the recovery token of a transaction.
    #[must_use]
    pub(crate) fn with_recovery_token(mut self, token: RawDocumentBuf) -> Self {
        self.0.append(cstr!("recoveryToken"), token);
        self
    }

    /// Adds the `writeConcernError`, if there is one, and the label that the server gives it.
    #[must_use]
    pub(crate) fn with_concern_error(mut self, error: Option<Document>, mode: &Mode) -> Self {
        if let Some(error) = error {
            add_concern_error(&mut self.0, &error, mode);
        }
        self
    }

    /// The reply: these fields, and `ok: 1`.
    pub(crate) fn into_reply(mut self) -> Reply {
        self.0.append(cstr!("ok"), 1.0);
        self.0.into()
    }
}

impl From<RawDocumentBuf> for Body {
    fn from(raw: RawDocumentBuf) -> Self {
        Self(raw)
    }
}

fn add_concern_error(reply: &mut RawDocumentBuf, error: &Document, mode: &Mode) {
    let again = error.get("code").and_then(as_number).is_some_and(|code| is_retriable(code, mode));
    if let Ok(error) = RawDocumentBuf::try_from(error) {
        reply.append(cstr!("writeConcernError"), error);
    }
    if again {
        add_retryable(reply);
    }
}

/// The answer that a handler has produced.
#[derive(Debug)]
pub(crate) enum HandlerReply {
    /// The fields of a reply of the gateway's own.
    Body(Body),
    /// The server's whole reply, which goes to the client.
    Server(Reply),
}

impl HandlerReply {
    /// Returns true if the command was carried out, and no `writeConcernError` is known.
    pub(crate) fn may_miss_concern(&self) -> bool {
        let (body, is_ok) = match self {
            Self::Body(Body(body)) => (&**body, true),
            Self::Server(reply) => (reply.body(), reply.is_ok()),
        };
        is_ok && matches!(body.get("writeConcernError"), Ok(None))
    }

    /// Like [`Body::with_concern_error`]. A reply that has such an error already, or another one,
    /// stays as it is.
    #[must_use]
    pub(crate) fn with_concern_error(self, error: Option<Document>, mode: &Mode) -> Self {
        let Some(error) = error.filter(|_| self.may_miss_concern()) else { return self };
        match self {
            Self::Body(body) => Self::Body(body.with_concern_error(Some(error), mode)),
            Self::Server(reply) => {
                let mut body = reply.body().to_owned();
                add_concern_error(&mut body, &error, mode);
                Self::Server(body.into())
            }
        }
    }

    /// The reply that goes to the client.
    pub(crate) fn into_reply(self) -> Reply {
        match self {
            Self::Body(body) => body.into_reply(),
            Self::Server(reply) => reply,
        }
    }
}

impl From<Body> for HandlerReply {
    fn from(body: Body) -> Self {
        Self::Body(body)
    }
}

impl From<Reply> for HandlerReply {
    fn from(reply: Reply) -> Self {
        Self::Server(reply)
    }
}
