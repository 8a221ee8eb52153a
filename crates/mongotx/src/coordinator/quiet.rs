//! Quiet for a reader that has lost its validation again and again: for a moment nothing is decided where it reads.
//!
//! 1. It asks every open record, by one command, to take no decision that sets one of these change stamps, until a moment that is
//!    soon by the server's clock. One reader at a time has a record's ear.
//! 2. An owner whose decision is refused for that leaves out the transactions in question and sends the others; it tries again a
//!    little later ([`super::client_record`]).
//! 3. The reader ends it when its validation has come to its end, before it waits for anybody, and before its own first lock.
//!
//! Nothing rests on it: what was read is validated all the same. A record that does not hear of it (made meanwhile, or asked by somebody
//! else), a reader that dies, a clock that jumps cost time and no more.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use bson::{Bson, oid::ObjectId};
use tracing::instrument::WithSubscriber;

use super::{Core, transaction::Transaction};
use crate::steps::Step;

/// Validations that a session loses one after the other before its next transaction asks for quiet.
const PATIENCE: u32 = 2;

/// How the last transactions of a session have ended: one that has lost its validation several times in a row is given quiet.
/// Whoever makes a new session for each attempt hands this on, with [`crate::Session::after`].
#[derive(Clone, Debug, Default)]
pub struct Attempts(Arc<Mutex<Lost>>);

#[derive(Debug, Default)]
struct Lost {
    in_a_row: u32,
    /// The change stamps of what was read by the last one.
    stamps: HashSet<String>,
}

impl Attempts {
    fn state(&self) -> MutexGuard<'_, Lost> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A transaction that has read what has these stamps has lost its validation.
    pub(crate) fn lost(&self, stamps: HashSet<String>) {
        let mut lost = self.state();
        lost.in_a_row += 1;
        lost.stamps = stamps;
    }

    /// A transaction of the session has been validated, or had nothing to be validated.
    pub(crate) fn won(&self) {
        *self.state() = Lost::default();
    }

    /// Where the next one needs quiet. It is given once, and again only after another loss.
    fn take_wanted(&self) -> Option<HashSet<String>> {
        let mut lost = self.state();
        if lost.in_a_row < PATIENCE || lost.stamps.is_empty() {
            return None;
        }
        lost.in_a_row = PATIENCE - 1;
        Some(std::mem::take(&mut lost.stamps))
    }
}

/// Quiet that a transaction has asked for. Dropped, it ends in the background.
pub(crate) struct Quiet {
    by: ObjectId,
    core: Weak<Core>,
    is_over: bool,
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade().filter(|_| !self.is_over) else { return };
        let by = self.by;
        let runtime = core.runtime.clone();
        runtime.spawn(async move { core.end_quiet_of(by).await }.with_current_subscriber());
    }
}

impl Core {
    /// Before a transaction reads: has its session lost too often?
    pub(crate) async fn give_quiet(&self, tx: &mut Transaction) {
        if tx.quiet.is_none()
            && tx.id().is_none()
            && tx.reads.is_empty()
            && let Some(stamps) = tx.attempts.take_wanted()
        {
            self.ask_for_quiet(tx, &stamps).await;
        }
    }

    /// Without it the transaction goes on all the same.
    pub(crate) async fn ask_for_quiet(&self, tx: &mut Transaction, stamps: &HashSet<String>) {
        if tx.quiet.is_some() {
            return;
        }
        let by = ObjectId::new();
        // Before the command is sent: a future that is dropped while it is under way ends it, too.
        tx.quiet = Some(Quiet { by, core: self.this.clone(), is_over: false });
        let tags: Vec<Bson> = stamps.iter().map(|stamp| Bson::from(stamp.as_str())).collect();
        self.server.at(Step::BeforeQuiet).await;
        match self.log.ask_for_quiet(by, tags).await {
            Ok(()) => self.server.counters.add(&self.server.counters.quiets, 1),
            Err(error) => tracing::debug!(%error, "a reader could not ask for quiet"),
        }
        self.server.at(Step::AfterQuiet).await;
    }

    /// Others may decide again. To be called before the transaction waits for anybody.
    pub(crate) async fn end_quiet(&self, tx: &mut Transaction) {
        if let Some(quiet) = tx.quiet.as_mut().filter(|quiet| !quiet.is_over) {
            self.end_quiet_of(quiet.by).await;
            quiet.is_over = true;
        }
    }

    async fn end_quiet_of(&self, by: ObjectId) {
        if let Err(error) = self.log.end_quiet(by).await {
            tracing::debug!(%error, "the quiet that a reader has asked for ends by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps() -> HashSet<String> {
        HashSet::from(["x".to_owned()])
    }

    #[test]
    fn quiet_is_wanted_after_two_losses_in_a_row_and_given_once_for_each_further_one() {
        let attempts = Attempts::default();
        attempts.lost(stamps());
        assert_eq!(attempts.take_wanted(), None);
        attempts.lost(stamps());
        assert_eq!(attempts.take_wanted(), Some(stamps()));
        assert_eq!(attempts.take_wanted(), None, "it was given");
        attempts.lost(stamps());
        assert_eq!(attempts.take_wanted(), Some(stamps()));
        attempts.lost(stamps());
        attempts.won();
        attempts.lost(stamps());
        assert_eq!(attempts.take_wanted(), None, "not in a row");
    }
}
