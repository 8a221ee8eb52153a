//! Results of a session's newest retryable write, statement by statement: when it is sent again,
//! they are answered, and nothing is done again.
//!
//! Kept in memory: as long as the gateway lives, or until the session writes under another number.
//! ([`super::record`] stores it where the promise has to outlive the gateway.) One entry for each
//! statement that was done, at most as many as one command may have.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use crate::{
    failure::{Failure, codes},
    reply::Reply,
};

/// Greatest number of statements in one command.
pub(crate) const MOST_STATEMENTS: usize = 100_000;

/// Result of one statement of a retryable write, to be answered when that is sent again.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementResult {
    /// An insert or a deletion of so many documents.
    Count(u64),
    /// The result of an update.
    Update {
        /// Number of documents that matched.
        matched: u64,
        /// Number of documents that were changed.
        modified: u64,
        /// `_id` of the document that was inserted.
        upserted: Option<Bson>,
    },
    /// A `findAndModify`, with its reply.
    Modify(Document),
    /// Unknown, because its answer was lost. It is not tried again, because it might happen twice.
    Unknown(Failure),
}

/// The statements of one number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Retry {
    done: BTreeMap<usize, StatementResult>,
    /// The server's answer to the whole command, where that was passed on as it came; an error if
    /// the result is unknown.
    whole: Option<Result<Reply, Failure>>,
    /// An attempt is under way.
    is_under_way: bool,
    /// An attempt was stopped by a limit of time, or because the session was killed: what it has
    /// sent may be done yet.
    is_broken_off: bool,
}

impl Retry {
    /// Statements are about to be sent. Until [`Retry::ends`] is called, whatever becomes of the
    /// future that sends them, those of which nothing is noted count as unknown from the next time
    /// on.
    pub(crate) fn begins(&mut self) {
        self.is_broken_off |= std::mem::replace(&mut self.is_under_way, true);
    }

    /// Notes that all that was sent is answered, or noted as unknown.
    pub(crate) fn ends(&mut self) {
        self.is_under_way = false;
    }

    /// Result of the statement, if it was done or may have been.
    pub(crate) fn done(&self, statement: usize) -> Option<StatementResult> {
        let noted = self.done.get(&statement).cloned();
        noted.or_else(|| self.is_broken_off.then(|| StatementResult::Unknown(broken_off())))
    }

    /// The answer to a command that is passed on, if it was sent before or may have been.
    pub(crate) fn whole(&self) -> Option<Result<Reply, Failure>> {
        self.whole.clone().or_else(|| self.is_broken_off.then(|| Err(broken_off())))
    }

    /// Notes the answer to a command that was passed on.
    pub(crate) fn note_whole(&mut self, answer: Result<Reply, Failure>) {
        self.whole = Some(answer);
    }

    /// Notes the result of a statement.
    pub(crate) fn note(&mut self, statement: usize, done: StatementResult) {
        self.done.insert(statement, done);
    }

    /// All results, in the order of the statements.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &StatementResult)> {
        self.done.iter().map(|(statement, done)| (*statement, done))
    }

    /// Forgets the results, for another number.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn broken_off() -> Failure {
    let message =
        "it is not known whether this write was made: it was interrupted while it was carried out for the first time";
    Failure::new(codes::INTERRUPTED, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_until_another_number_begins() {
        let mut retry = Retry::default();
        assert_eq!(retry.done(0), None);
        retry.note(0, StatementResult::Count(1));
        assert_eq!((retry.done(0), retry.done(1)), (Some(StatementResult::Count(1)), None));
        retry.clear();
        assert_eq!(retry.done(0), None);
    }

    #[test]
    fn what_was_sent_by_somebody_who_was_stopped_is_unknown() {
        let mut retry = Retry::default();
        retry.begins();
        retry.note(0, StatementResult::Count(1));
        assert_eq!((retry.done(1), retry.whole()), (None, None));
        retry.begins();
        assert_eq!(retry.done(0), Some(StatementResult::Count(1)));
        assert!(matches!(retry.done(1), Some(StatementResult::Unknown(_))) && retry.whole().unwrap().is_err());
        retry.ends();
        retry.begins();
        assert!(matches!(retry.done(1), Some(StatementResult::Unknown(_))));
        retry.clear();
        retry.begins();
        retry.ends();
        retry.begins();
        assert_eq!(retry.done(1), None);
    }
}
