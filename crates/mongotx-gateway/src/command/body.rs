//! What a command answers when it was carried out: everything but `ok`.

use bson::{Document, RawDocumentBuf, raw::cstr};

use crate::{
    failure::{Answer, Failure, codes},
    reply::Reply,
};

/// The fields of a reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Body(RawDocumentBuf);

impl Body {
    /// Nothing but `ok`.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// # Errors
    /// What cannot be written as BSON.
    pub(crate) fn of(document: &Document) -> Answer<Self> {
        let raw = RawDocumentBuf::try_from(document);
        raw.map(Self).map_err(|error| Failure::new(codes::INTERNAL_ERROR, format!("the reply is no BSON: {error}")))
    }

    /// With the transaction's name.
    #[must_use]
    pub(crate) fn with_recovery_token(mut self, token: RawDocumentBuf) -> Self {
        self.0.append(cstr!("recoveryToken"), token);
        self
    }

    /// With what could not be waited for.
    #[must_use]
    pub(crate) fn with_concern_error(mut self, error: Option<Document>) -> Self {
        if let Some(error) = error.and_then(|error| RawDocumentBuf::try_from(&error).ok()) {
            self.0.append(cstr!("writeConcernError"), error);
        }
        self
    }

    /// The reply.
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
