//! What the newest retryable write of a session has done, statement by statement: sent again, it is answered, not done
//! again.
//!
//! Kept in memory: as long as the gateway lives, or until the session writes under another number. ([`super::record`] is what
//! is stored where the promise has to outlive the gateway.) One entry for each statement that was done, at most as many as
//! one command may have.

use std::collections::BTreeMap;

use bson::{Bson, Document};

use crate::failure::Failure;

/// What one statement has done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Done {
    /// An insert or a deletion of so many documents.
    Count(u64),
    /// An update.
    Update {
        /// Documents matched.
        matched: u64,
        /// Documents changed.
        modified: u64,
        /// `_id` of the inserted one.
        upserted: Option<Bson>,
    },
    /// A `findAndModify`, with its reply.
    Modify(Document),
    /// Its answer was lost: nobody knows. It is not tried again, because it might happen twice.
    Unknown(Failure),
}

/// The statements of one number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Retry {
    done: BTreeMap<usize, Done>,
}

impl Retry {
    /// What the statement has done, if it was done.
    pub(crate) fn done(&self, statement: usize) -> Option<&Done> {
        self.done.get(&statement)
    }

    /// The statement was done.
    pub(crate) fn note(&mut self, statement: usize, done: Done) {
        self.done.insert(statement, done);
    }

    /// What was done, in the statements' order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Done)> {
        self.done.iter().map(|(statement, done)| (*statement, done))
    }

    /// Another number begins.
    pub(crate) fn clear(&mut self) {
        self.done.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_is_known_until_another_number_begins() {
        let mut retry = Retry::default();
        assert_eq!(retry.done(0), None);
        retry.note(0, Done::Count(1));
        assert_eq!((retry.done(0), retry.done(1)), (Some(&Done::Count(1)), None));
        retry.clear();
        assert_eq!(retry.done(0), None);
    }
}
