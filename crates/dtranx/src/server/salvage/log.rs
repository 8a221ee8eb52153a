//! What the log's records say: which transactions are committed, and what they have written.

use std::io;

use super::scratch::Scratch;
use crate::core::{GcRecord, Outcome, Record, ServerId, TranxId, Write};
use crate::log::Sight;

/// The records that were read so far.
pub(super) struct Records<'a> {
    me: ServerId,
    scratch: &'a Scratch,
    /// State in the GC log; `None`: it cannot be read.
    gc: Option<GcRecord>,
    /// Whether a record in order was appended after the state in the GC log was taken. What comes
    /// behind a later gap is then not complete by that state.
    pub(super) is_past_gc: bool,
    /// Error of the scratch folder.
    pub(super) failed: Option<io::Error>,
}

impl<'a> Records<'a> {
    pub(super) fn new(me: ServerId, scratch: &'a Scratch) -> Self {
        Self { me, scratch, gc: None, is_past_gc: false, failed: None }
    }

    /// Takes what a survey of the log sees.
    pub(super) fn see(&mut self, sight: Sight<'_>) -> Result<(), String> {
        let done = match sight {
            Sight::State([]) => {
                // Nothing was ever collected.
                self.gc = Some(GcRecord::default());
                Ok(())
            }
            Sight::State(state) => {
                self.gc = Some(decode(state)?);
                Ok(())
            }
            Sight::InOrder(bytes) => self.in_order(decode(bytes)?, bytes),
            Sight::Behind(bytes) => self.behind(decode(bytes)?),
        };
        done.map_err(|error: io::Error| {
            let what = error.to_string();
            self.failed.get_or_insert(error);
            what
        })
    }

    fn in_order(&mut self, record: Record, bytes: &[u8]) -> io::Result<()> {
        match record {
            Record::Reserve { through } => {
                self.is_past_gc |= self.gc.as_ref().is_some_and(|gc| through > gc.reserved_through);
                Ok(())
            }
            Record::Epochs { .. } => Ok(()),
            Record::OnePhase { tranx, writes } => self.scratch.commit(tranx, &writes),
            Record::Ready { tranx, .. } => self.scratch.put_ready(tranx, bytes),
            Record::Commit { tranx, .. } | Record::Outcome { tranx, outcome: Outcome::Commit(_) } => {
                // Without it, the part is complete: it was written to the items before.
                let writes = self.scratch.take_ready(tranx)?.unwrap_or_default();
                self.scratch.commit(tranx, &writes)
            }
            Record::Outcome { tranx, outcome: Outcome::Abort } => self.scratch.take_ready(tranx).map(drop),
        }
    }

    fn behind(&self, record: Record) -> io::Result<()> {
        match record {
            Record::OnePhase { tranx, writes } | Record::Ready { tranx, writes, .. } => {
                self.scratch.note_behind(tranx, &writes)
            }
            // What it writes is in a record before the gap, or lost in it.
            Record::Commit { tranx, .. } | Record::Outcome { tranx, .. } => self.scratch.note_behind(tranx, &[]),
            Record::Reserve { .. } | Record::Epochs { .. } => Ok(()),
        }
    }

    /// Returns true if a transaction was complete when segments were last removed: its records may
    /// be gone.
    pub(super) fn is_complete(&self, tranx: TranxId) -> bool {
        let marks = self.gc.iter().flat_map(|gc| &gc.low_water);
        marks.into_iter().any(|(server, mark)| *server == tranx.server && tranx.number <= *mark)
    }

    /// Transactions of other servers without an outcome that are not complete, and what they write.
    /// With a gap, those of this server too: their outcomes may be lost.
    pub(super) fn in_doubt(&self, has_gap: bool) -> impl Iterator<Item = io::Result<(TranxId, Vec<Write>)>> {
        // Without an outcome they are aborted.
        let is_aborted = move |tranx: TranxId| self.is_complete(tranx) || tranx.server == self.me && !has_gap;
        self.scratch.ready().filter(move |found| !found.as_ref().is_ok_and(|(tranx, _)| is_aborted(*tranx)))
    }
}

fn decode<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}
