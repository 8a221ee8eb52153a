//! The library's ways to make errors, to add details to them, and to find out what they mean for a
//! transaction.

use std::{fmt, sync::Arc};

use bson::Document;
use protocol::TxId;

use super::{Conflict, DuplicateKey, Error, ErrorKind, Inner, MAX_DOCUMENTS, Progress, Unreplicated, WriteError};
use crate::numbers::as_i64;

/// MongoDB's code `TransactionTooLarge`: too many documents for one transaction.
const TRANSACTION_TOO_LARGE: i32 = 257;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let code = match kind {
            ErrorKind::Conflict => Some(112),
            ErrorKind::Expired | ErrorKind::Closed => Some(251),
            ErrorKind::Unavailable => Some(89),
            ErrorKind::Unsupported => Some(263),
            ErrorKind::Indeterminate | ErrorKind::Invalid | ErrorKind::Corruption => None,
        };
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            code,
            labelled: true,
            conflict: None,
            transaction: None,
            write_errors: Vec::new(),
            progress: None,
            duplicate: None,
            info: None,
            unfinishable: false,
            frozen: false,
            committed: false,
            maybe_done: false,
            unreplicated: None,
            is_clean: false,
            is_ending: false,
            source: None,
        }))
    }

    pub(crate) fn invalid(code: i32, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::Invalid, message);
        error.0.code = Some(code);
        error
    }

    /// A transaction is about more documents, or reads, than it may be.
    pub(crate) fn too_large(message: impl fmt::Display) -> Self {
        Self::invalid(TRANSACTION_TOO_LARGE, format!("{message} ({MAX_DOCUMENTS})"))
    }

    /// The server began with it, and has ended it.
    pub(crate) fn interrupted(code: i32, message: &str) -> Self {
        let mut error = Self::new(ErrorKind::Unavailable, message).maybe_done();
        error.0.code = Some(code);
        error
    }

    /// Done, and not known to last.
    pub(crate) fn unreplicated(what: Unreplicated) -> Self {
        let code = what.concern_error.get("code").map_or(64, as_i64) as i32;
        let reason = what.concern_error.get_str("errmsg").unwrap_or("the server gave no reason");
        let message =
            format!("the server has done it, but it may be lost again: its write concern was not satisfied: {reason}");
        let mut error = Self::new(ErrorKind::Unavailable, message).maybe_done();
        error.0.code = Some(code);
        error.0.unreplicated = Some(what);
        error
    }

    pub(crate) fn maybe_done(mut self) -> Self {
        self.0.maybe_done = true;
        self
    }

    /// The error of a command outside a transaction, whose effects nothing undoes: it becomes
    /// indeterminate if the command may have been carried out.
    pub(crate) fn or_indeterminate(mut self) -> Self {
        if self.0.kind == ErrorKind::Unavailable && self.0.maybe_done {
            self.0.kind = ErrorKind::Indeterminate;
            if self.0.unreplicated.is_none() {
                self.0.message = self.to_string();
                self.0.code = None;
            }
        }
        self
    }

    /// The transaction is committed, and more members than the majority were to have it.
    pub(crate) fn spread_too_little(message: String) -> Self {
        let mut error = Self::new(ErrorKind::Indeterminate, message);
        error.0.committed = true;
        error
    }

    /// Returns true if the transaction is known to be committed all the same.
    pub(crate) fn is_of_committed(&self) -> bool {
        self.0.committed
    }

    /// The error of a statement whose transaction is rolled back: whatever the statement may have
    /// done is undone, so its outcome is known.
    pub(crate) fn undone(mut self) -> Self {
        if self.0.kind == ErrorKind::Indeterminate && !self.0.committed {
            self.0.kind = ErrorKind::Unavailable;
            self.0.code = Some(89);
            self.0.maybe_done = false;
        }
        self
    }

    /// The error of a call that is a transaction of its own, which was rolled back: its
    /// application has begun none.
    pub(crate) fn of_call(mut self) -> Self {
        if self.0.kind == ErrorKind::Expired {
            self.0.message = format!("nothing was written: {}", self.0.message);
            (self.0.kind, self.0.code) = (ErrorKind::Unavailable, Some(89));
        }
        self
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// The server takes no locks in a collection that is being renamed.
    pub(crate) fn frozen() -> Self {
        let mut error = Self::new(
            ErrorKind::Conflict,
            "the collection is being renamed, and until that is done none of its documents can be locked; if this lasts, a renaming was \
             interrupted, and mongotx doctor --repair drops what it has left",
        );
        error.0.frozen = true;
        error
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.0.frozen
    }

    /// A committed document that the server refuses to finish is in the way.
    pub(crate) fn not_finishable(message: String, because: &Self) -> Self {
        let mut error = Self::new(ErrorKind::Invalid, message);
        error.0.code = because.0.code;
        error.0.unfinishable = true;
        error
    }

    /// The error for a document, which concerns `others` more.
    pub(crate) fn and_others(mut self, others: usize) -> Self {
        self.0.message.push_str(&format!("; and {others} more documents like it"));
        self
    }

    pub(crate) fn is_unfinishable(&self) -> bool {
        self.0.unfinishable
    }

    pub(crate) fn conflict_with(conflict: Conflict, why: &str) -> Self {
        let Conflict { namespace, id, rival } = &conflict;
        let message = format!("{why}: {namespace}, document {{_id: {id}}}, is held by transaction {rival}");
        let mut error = Self::new(ErrorKind::Conflict, message);
        error.0.conflict = Some(conflict);
        error
    }

    pub(crate) fn for_transaction(mut self, id: Option<TxId>) -> Self {
        self.0.transaction = self.0.transaction.or(id);
        self
    }

    pub(crate) fn because_of(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    pub(crate) fn with_write_errors(mut self, errors: Vec<WriteError>) -> Self {
        self.0.write_errors = errors;
        self
    }

    pub(crate) fn with_progress(mut self, progress: Progress) -> Self {
        self.0.progress = Some(progress);
        self
    }

    pub(crate) fn with_duplicate_key(mut self, duplicate: Option<DuplicateKey>) -> Self {
        self.0.duplicate = duplicate;
        self
    }

    pub(crate) fn with_info(mut self, info: Option<Document>) -> Self {
        self.0.info = info;
        self
    }

    /// Returns true if another document has the `_id`. (Of servers that do not name the index: if
    /// that may be.)
    pub(crate) fn is_duplicate_id(&self) -> bool {
        let of_id = |duplicate: &DuplicateKey| !duplicate.pending && duplicate.pattern.keys().eq(["_id"]);
        self.is_duplicate_key() && self.0.duplicate.as_ref().is_none_or(of_id)
    }

    /// Returns true if a mirrored unique index refused it.
    pub(crate) fn is_pending_duplicate(&self) -> bool {
        self.is_duplicate_key() && self.0.duplicate.as_ref().is_some_and(|duplicate| duplicate.pending)
    }

    /// Returns true if the error has the server's code for a duplicate key.
    pub(crate) fn is_duplicate_key(&self) -> bool {
        self.0.code == Some(11000)
    }

    /// Returns true if it ends the transaction in which it happens. A command that the server
    /// refused as invalid does not.
    pub(crate) fn ends_transaction(&self) -> bool {
        self.0.is_ending || !matches!(self.0.kind, ErrorKind::Invalid | ErrorKind::Unsupported)
    }

    /// The refusal of a write that has changed nothing, or was taken back.
    pub(crate) fn clean(mut self) -> Self {
        self.0.is_clean = true;
        self
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.0.is_clean
    }

    /// The error of a statement that has changed documents and was neither completed nor taken
    /// back: the transaction can only be rolled back.
    pub(crate) fn ending(mut self) -> Self {
        if !self.ends_transaction() {
            self.0.is_ending = true;
            self.0.message.push_str("; the transaction ends, because the statement was half done");
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TRANSIENT_TRANSACTION_ERROR;

    #[test]
    fn lost_answer_of_a_statement_is_no_unknown_outcome_once_its_transaction_is_rolled_back() {
        let lost = Error::new(ErrorKind::Unavailable, "the answer was lost").maybe_done().or_indeterminate();
        assert_eq!(lost.kind(), ErrorKind::Indeterminate);
        let undone = lost.undone();
        assert_eq!((undone.kind(), undone.code()), (ErrorKind::Unavailable, Some(89)));
        assert!(undone.contains_label(TRANSIENT_TRANSACTION_ERROR));
        let committed = Error::spread_too_little("it is committed".to_owned()).undone();
        assert_eq!(committed.kind(), ErrorKind::Indeterminate);
    }

    #[test]
    fn call_outside_a_transaction_is_not_told_of_one_that_has_ended() {
        let fenced = Error::new(ErrorKind::Expired, "the record was fenced").of_call();
        assert_eq!((fenced.kind(), fenced.code()), (ErrorKind::Unavailable, Some(89)));
        assert!(fenced.message().contains("nothing was written"), "{fenced}");
        assert_eq!(Error::new(ErrorKind::Conflict, "").of_call().kind(), ErrorKind::Conflict);
    }
}
