//! Results of a session's newest retryable write, statement by statement: when it is sent again,
//! they are answered, and nothing is done again.
//!
//! Kept in memory: as long as the gateway lives, or until the session writes under another number.
//! ([`super::record`] stores it where the promise has to outlive the gateway.) What is large counts
//! as memory of the gateway's clients; where there is none left, what is kept is that the write was
//! made: it is not made again.

use std::{fmt, sync::Arc};

use super::results::Results;
pub(crate) use super::results::StatementResult;
use crate::{
    failure::{Failure, codes},
    memory::{HeldMemory, Memory},
    reply::Reply,
};

/// Greatest number of statements in one command.
pub(crate) const MOST_STATEMENTS: usize = 100_000;
/// Bytes of results that every session may keep and that are not counted.
const UNCOUNTED_BYTES: usize = 1024;

/// The statements of one number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Retry {
    done: Results,
    /// The server's answer to the whole command, where that was passed on as it came; an error if
    /// the result is unknown.
    whole: Option<Result<Reply, Failure>>,
    /// An attempt is under way.
    is_under_way: bool,
    /// An attempt was stopped by a limit of time, or because the session was killed: what it has
    /// sent may be done yet.
    is_broken_off: bool,
    kept: Kept,
}

/// Memory that the results of a write take. A copy of them, which lives for one command, has no
/// limit.
#[derive(Default)]
struct Kept {
    bytes: usize,
    held: Option<HeldMemory>,
}

impl Kept {
    /// Takes more. False: there is not so much left.
    fn take(&mut self, bytes: usize) -> bool {
        let Some(held) = &mut self.held else { return true };
        let counted = |bytes: usize| if bytes > UNCOUNTED_BYTES { bytes } else { 0 };
        let sum = self.bytes.saturating_add(bytes);
        let more = counted(sum) - counted(self.bytes);
        if more > 0 && held.grow_kept(more).is_err() {
            return false;
        }
        self.bytes = sum;
        true
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Two writes with the same results are the same, whatever these take.
impl PartialEq for Kept {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl Retry {
    /// Statements are about to be sent, whose results are kept in this memory. Until
    /// [`Retry::ends`] is called, whatever becomes of the future that sends them, those of which
    /// nothing is noted count as unknown from the next time on.
    pub(crate) fn begins(&mut self, memory: &Arc<Memory>) {
        self.kept.held.get_or_insert_with(|| memory.hold());
        self.is_broken_off |= std::mem::replace(&mut self.is_under_way, true);
    }

    /// Notes that all that was sent is answered, or noted as unknown.
    pub(crate) fn ends(&mut self) {
        self.is_under_way = false;
    }

    /// Result of the statement, if it was done or may have been.
    pub(crate) fn done(&self, statement: usize) -> Option<StatementResult> {
        let noted = self.done.get(statement).cloned();
        noted.or_else(|| self.is_broken_off.then(|| StatementResult::Unknown(broken_off())))
    }

    /// The answer to a command that is passed on, if it was sent before or may have been.
    pub(crate) fn whole(&self) -> Option<Result<Reply, Failure>> {
        self.whole.clone().or_else(|| self.is_broken_off.then(|| Err(broken_off())))
    }

    /// Notes the answer to a command that was passed on.
    pub(crate) fn note_whole(&mut self, answer: Result<Reply, Failure>) {
        let is_kept = answer.as_ref().is_ok_and(|reply| self.kept.take(reply.body().as_bytes().len()));
        self.whole = Some(if is_kept || answer.is_err() { answer } else { Err(not_kept()) });
    }

    /// Notes the result of a statement.
    pub(crate) fn note(&mut self, statement: usize, done: StatementResult) {
        let is_kept = self.done.goes_on(statement, &done) || self.kept.take(done.entry_bytes());
        self.done.note(statement, if is_kept { done } else { StatementResult::Unknown(not_kept()) });
    }

    /// All results, in the order of the statements.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &StatementResult)> {
        self.done.iter()
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

/// The code of a server that has removed what it knew of a write.
fn not_kept() -> Failure {
    let message = "this write was made, and is not made again; its result was not kept, because the gateway had no memory \
                   left for it (--max-memory-mib)";
    Failure::new(codes::INCOMPLETE_TRANSACTION_HISTORY, message)
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    fn memory() -> Arc<Memory> {
        Memory::new(1 << 20, Gauge::default())
    }

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
        retry.begins(&memory());
        retry.note(0, StatementResult::Count(1));
        assert_eq!((retry.done(1), retry.whole()), (None, None));
        retry.begins(&memory());
        assert_eq!(retry.done(0), Some(StatementResult::Count(1)));
        assert!(matches!(retry.done(1), Some(StatementResult::Unknown(_))) && retry.whole().unwrap().is_err());
        retry.ends();
        retry.begins(&memory());
        assert!(matches!(retry.done(1), Some(StatementResult::Unknown(_))));
        retry.clear();
        retry.begins(&memory());
        retry.ends();
        retry.begins(&memory());
        assert_eq!(retry.done(1), None);
    }

    fn modified(bytes: usize) -> StatementResult {
        StatementResult::Modify(rawdoc! {"value": "x".repeat(bytes)})
    }

    #[test]
    fn what_is_large_takes_memory_until_another_number_begins() {
        let shown = Gauge::default();
        let memory = Memory::new(100_000, shown.clone());
        let mut retry = Retry::default();
        retry.begins(&memory);
        for statement in 0..1_000 {
            retry.note(statement, StatementResult::Count(1));
        }
        assert_eq!(shown.get(), 0, "every session may keep so much");
        retry.note(1_000, modified(20_000));
        assert!((20_000..25_000).contains(&shown.get()), "{}", shown.get());
        assert_eq!(retry.done(1_000), Some(modified(20_000)));
        // A copy takes none, and has no limit.
        let mut copy = retry.clone();
        copy.note(1_001, modified(80_000));
        assert_eq!(copy.done(1_001), Some(modified(80_000)));
        retry.clear();
        assert_eq!(shown.get(), 0);
    }

    #[test]
    fn where_there_is_no_memory_a_write_is_known_to_be_made() {
        let memory = Memory::new(100_000, Gauge::default());
        let mut retry = Retry::default();
        retry.begins(&memory);
        // Half of the limit is for messages.
        for statement in 0..3 {
            retry.note(statement, modified(60_000));
        }
        let Some(StatementResult::Unknown(failure)) = retry.done(1) else { panic!("{retry:?}") };
        assert!(failure.code == 217 && failure.message.contains("--max-memory-mib"), "{failure:?}");
        retry.note_whole(Ok(doc! {"value": "x".repeat(60_000)}.into()));
        assert_eq!(retry.whole(), Some(Err(failure)));
        retry.note_whole(Ok(doc! {"n": 1}.into()));
        assert_eq!(retry.whole(), Some(Ok(doc! {"n": 1}.into())));
    }
}
