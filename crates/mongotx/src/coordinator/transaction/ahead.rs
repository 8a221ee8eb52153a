//! Validation ahead of the commit: the one that was sent behind the last write
//! (`crate::command::isolation::validation_ahead`), and what is expected to come behind that write.

use std::time::Instant;

use super::Transaction;
use crate::coordinator::transaction::forecast::InsertForecast;

/// All that the transaction has read was so at one moment, behind its last lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidationAhead {
    /// Time at which the reads were sent.
    pub(crate) asked: Instant,
    /// Number of changes of the read set by then.
    pub(crate) reads: u64,
}

/// Event that is expected behind an insert.
pub(crate) struct ExpectedEvent {
    pub(crate) guess: InsertForecast,
    /// Number of changes of the read set by then.
    pub(crate) reads: u64,
}

impl Transaction {
    /// The last write is not the end any more.
    pub(crate) fn forget_ahead(&mut self) {
        self.note_next(false);
        self.ahead = None;
    }

    /// Notes what comes behind the last write: the commit, or something else.
    pub(crate) fn note_next(&mut self, is_commit: bool) {
        if let Some(ExpectedEvent { guess, reads }) = self.expected.take() {
            guess.note(is_commit && reads == self.reads.changes());
        }
    }
}
