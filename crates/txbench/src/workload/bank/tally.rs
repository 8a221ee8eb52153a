//! Progress of a client in its part of the operations, by which the check knows exactly which ones
//! were acknowledged.
//!
//! Each client leaves it at its end in a document that the load has made for it: one for each
//! client that there can be, so that targets which can only update have it, too.

use std::ops::RangeInclusive;

use bson::{Bson, Document, doc};

use super::TALLIES;
use crate::{
    error::{BenchError, OpError, OpResult},
    targets::{Session, TxOptions, Update},
};

/// Greatest number of clients.
const CLIENTS: i64 = 1_000;
/// Operations that one client may leave undone or in doubt before the run is given up.
const EXCEPTIONS: usize = 10_000;
/// Attempts at writing the tally.
const ATTEMPTS: RangeInclusive<u32> = 1..=10;

/// Operations of one client. They are numbered from 0 in the order of its replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Number of clients of the run.
    pub(super) of: u32,
    /// Operations taken from the replay.
    pub(super) taken: i64,
    /// Numbers of operations that did not happen: given up, or not begun.
    pub(super) without: Vec<i64>,
    /// Numbers of operations that may have happened.
    pub(super) unknown: Vec<i64>,
    /// The last one that was taken, while it is not known to be done.
    open: Option<OperationResult>,
}

/// Result of an operation that was not done, or may not have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationResult {
    Undone,
    Unknown,
}

impl Tally {
    pub(super) fn new(of: u32) -> Self {
        Self { of, ..Self::default() }
    }

    /// Takes the next operation. The result of the one before is as it was last noted.
    ///
    /// # Errors
    /// If too many operations were undone or are in doubt to list them.
    pub(super) fn take(&mut self) -> Result<(), BenchError> {
        self.close();
        self.taken += 1;
        self.open = Some(OperationResult::Undone);
        match self.without.len() + self.unknown.len() > EXCEPTIONS {
            true => Err(BenchError::Failed(format!("one client did not get more than {EXCEPTIONS} operations done"))),
            false => Ok(()),
        }
    }

    /// An attempt begins: until it has ended, it may have happened.
    pub(super) fn begin(&mut self) {
        self.open = Some(OperationResult::Unknown);
    }

    /// Notes the result of the present operation.
    pub(super) fn end(&mut self, how: &OpResult<()>) {
        self.open = match how {
            Ok(()) => None,
            Err(OpError::Conflict(_) | OpError::Duplicate) => Some(OperationResult::Undone),
            Err(OpError::Unknown(_) | OpError::Fatal(_)) => Some(OperationResult::Unknown),
        };
    }

    /// Notes that the last operation is not tried any more.
    fn close(&mut self) {
        match self.open.take() {
            None => {}
            Some(OperationResult::Undone) => self.without.push(self.taken - 1),
            Some(OperationResult::Unknown) => self.unknown.push(self.taken - 1),
        }
    }

    /// Leaves it where the check finds it.
    pub(super) async fn leave(&mut self, session: &mut dyn Session, client: u32) -> OpResult<()> {
        self.close();
        for attempt in ATTEMPTS {
            match self.write(session, client).await {
                Err(OpError::Conflict(_)) if attempt < *ATTEMPTS.end() => session.rollback().await?,
                ended => return ended,
            }
        }
        Ok(())
    }

    async fn write(&self, session: &mut dyn Session, client: u32) -> OpResult<()> {
        let numbers = |of: &[i64]| of.iter().copied().map(Bson::from).collect::<Vec<Bson>>();
        let (without, unknown) = (numbers(&self.without), numbers(&self.unknown));
        let set = doc! {"of": i64::from(self.of), "taken": self.taken, "without": without, "unknown": unknown};
        session.begin(&TxOptions::default()).await?;
        let update = Update { filter: doc! {"_id": i64::from(client)}, update: doc! {"$set": set} };
        session.update(TALLIES, update).await?;
        session.commit().await
    }

    /// The client that left this document, and its tally; `None` if it is no tally.
    pub(super) fn read(document: &Document) -> Option<(u32, Self)> {
        let numbers = |field| document.get_array(field).ok()?.iter().map(Bson::as_i64).collect::<Option<Vec<i64>>>();
        let number = |field| u32::try_from(document.get_i64(field).ok()?).ok();
        let (without, unknown) = (numbers("without")?, numbers("unknown")?);
        let taken = document.get_i64("taken").ok()?;
        Some((number("_id")?, Self { of: number("of")?, taken, without, unknown, open: None }))
    }
}

/// The documents that clients leave theirs in.
pub(super) fn empty() -> Vec<Document> {
    (0..CLIENTS).map(|client| doc! {"_id": client}).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    fn failed() -> BenchError {
        BenchError::Failed("no answer".to_owned())
    }

    #[test]
    fn an_operation_is_done_undone_or_in_doubt_as_its_last_attempt_ended() {
        let mut tally = Tally::new(3);
        for how in [Ok(()), Err(OpError::Conflict("rival")), Err(OpError::Unknown(failed())), Ok(())] {
            tally.take().unwrap();
            tally.begin();
            tally.end(&Err(OpError::Conflict("rival")));
            tally.begin();
            tally.end(&how);
        }
        // Taken and never tried; then one in the middle of an attempt.
        tally.take().unwrap();
        tally.take().unwrap();
        tally.begin();
        tally.close();
        assert_eq!((tally.taken, tally.without, tally.unknown), (6, vec![1, 4], vec![2, 5]));
    }

    #[test]
    fn too_many_that_were_not_done_end_the_run() {
        let mut tally = Tally::new(1);
        let taken = (0..=EXCEPTIONS + 2).take_while(|_| tally.take().is_ok()).count();
        assert_eq!(taken, EXCEPTIONS + 1);
    }
}
