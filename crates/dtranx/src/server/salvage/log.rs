//! Gathers from the log's records which transactions are committed, and what they have written.

use std::io;

use super::scratch::Scratch;
use crate::core::{GcRecord, Outcome, Record, ServerId, TranxId, Write};
use crate::log::Sight;

/// Facts from the records of the log that were read so far.
pub(super) struct Records<'a> {
    me: ServerId,
    scratch: &'a Scratch,
    /// State in the GC log; `None`: it cannot be read.
    gc: Option<GcRecord>,
    /// Highest number of this server's transactions that a record in order has reserved.
    reserved: Option<u64>,
    /// True if a record in order was appended after the state in the GC log was taken. What comes
    /// behind a later gap is then not complete by that state.
    pub(super) is_past_gc: bool,
    /// First error of the scratch folder.
    pub(super) failed: Option<io::Error>,
}

impl<'a> Records<'a> {
    pub(super) fn new(me: ServerId, scratch: &'a Scratch) -> Self {
        Self { me, scratch, gc: None, reserved: None, is_past_gc: false, failed: None }
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
                self.reserved = self.reserved.max(Some(through));
                self.is_past_gc |= self.gc.as_ref().is_some_and(|gc| through > gc.reserved_through);
                Ok(())
            }
            Record::Epochs { .. } | Record::Marks { .. } | Record::Complete { .. } => Ok(()),
            Record::OnePhase { tranx, writes, .. } => self.scratch.commit(tranx, &writes),
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
            Record::OnePhase { tranx, writes, .. } | Record::Ready { tranx, writes, .. } => {
                self.scratch.note_behind(tranx, &writes)
            }
            // What it writes is in a record before the gap, or lost in it.
            Record::Commit { tranx, .. } | Record::Outcome { tranx, .. } => self.scratch.note_behind(tranx, &[]),
            Record::Reserve { .. } | Record::Epochs { .. } | Record::Marks { .. } | Record::Complete { .. } => Ok(()),
        }
    }

    /// Returns true if a transaction was complete when segments were last removed: its records may
    /// be gone.
    pub(super) fn is_complete(&self, tranx: TranxId) -> bool {
        let marks = self.gc.iter().flat_map(|gc| &gc.low_water);
        marks.into_iter().any(|(server, mark)| *server == tranx.server && tranx.number <= *mark)
    }

    /// Returns true if the log has what an item of this transaction rests on, or need not have it
    /// any more. The outcome of another server's transaction may come behind the items. One that
    /// this server coordinates is in the items only when its commit is durable in the log.
    pub(super) fn vouch_for(&self, tranx: TranxId) -> io::Result<bool> {
        let is_known = self.is_complete(tranx) || self.scratch.is_ready(tranx)?;
        Ok((is_known || self.scratch.is_committed(tranx)?) && !self.contradict(tranx)?)
    }

    /// Returns true if an item of this transaction shows that the log has lost its end: the part is
    /// there, and its outcome, which the log had behind the part, is not. Of another server's
    /// transaction the log had it before the transaction was complete.
    pub(super) fn contradict(&self, tranx: TranxId) -> io::Result<bool> {
        Ok((tranx.server == self.me || self.is_complete(tranx)) && self.scratch.is_ready(tranx)?)
    }

    /// Returns what shows that the log has lost its end, without any item: the GC log names numbers
    /// of this server's transactions that were in use. A record had reserved them before, and is
    /// not there, although the log has one from before it. (Records that reserve numbers do so for
    /// ever higher ones.)
    pub(super) fn lost_end(&self) -> Option<String> {
        let used = self.gc.iter().flat_map(|gc| &gc.low_water).find(|(server, _)| *server == self.me)?.1;
        let reserved = self.reserved.filter(|reserved| *reserved < used)?;
        Some(format!(
            "the GC log says that this server's transactions have used the numbers up to {used}, and the last ones \
             that a record reserves end with {reserved}: the log has lost its end"
        ))
    }

    /// Returns the transactions of other servers that are neither complete nor have an outcome, and
    /// what they write. With a gap, it returns those of this server, too: their outcomes may be
    /// lost.
    pub(super) fn in_doubt(&self, has_gap: bool) -> impl Iterator<Item = io::Result<(TranxId, Vec<Write>)>> {
        // Without an outcome they are aborted.
        let is_aborted = move |tranx: TranxId| self.is_complete(tranx) || tranx.server == self.me && !has_gap;
        self.scratch.ready().filter(move |found| !found.as_ref().is_ok_and(|(tranx, _)| is_aborted(*tranx)))
    }
}

fn decode<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{ClientId, Epoch, Incarnation, Key, MessageId, RequestId, Value};

    #[test]
    fn log_vouches_for_own_transactions_by_their_commits_and_for_others_by_their_parts() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(&folder.path().join("scratch")).unwrap();
        let [me, other] = [1, 2].map(ServerId);
        let mut records = Records::new(me, &scratch);
        let [own, others] = [me, other].map(|server| TranxId { server, number: 5 });
        let writes = vec![Write { key: Key::new("a").unwrap(), value: Some(Value::new("x").unwrap()) }];
        let participants = vec![me, other];
        for tranx in [own, others] {
            assert!(!records.vouch_for(tranx).unwrap());
            let (participants, writes) = (participants.clone(), writes.clone());
            let ready = Record::Ready { tranx, participants, shared: Vec::new(), ranges: Vec::new(), writes };
            records.see(Sight::InOrder(&postcard::to_allocvec(&ready).unwrap())).unwrap();
        }
        assert!(records.vouch_for(others).unwrap() && !records.contradict(others).unwrap());
        // An item of it shows that the log has lost its end, with the commit.
        assert!(!records.vouch_for(own).unwrap() && records.contradict(own).unwrap());
        let client = ClientId { incarnation: Incarnation(1), number: 1 };
        let request = RequestId { client, message: MessageId(1) };
        let commit = Record::Commit { tranx: own, participants, epoch: Epoch(1), request };
        records.see(Sight::InOrder(&postcard::to_allocvec(&commit).unwrap())).unwrap();
        assert!(records.vouch_for(own).unwrap());
    }

    /// Shows the records a state of the GC log.
    fn state(records: &mut Records<'_>, reserved_through: u64, low_water: Vec<(ServerId, u64)>) {
        let state = GcRecord { reserved_through, low_water, ..GcRecord::default() };
        records.see(Sight::State(&postcard::to_allocvec(&state).unwrap())).unwrap();
    }

    #[test]
    fn item_of_a_complete_transaction_without_its_outcome_shows_that_the_end_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(&folder.path().join("scratch")).unwrap();
        let [me, other] = [1, 2].map(ServerId);
        let mut records = Records::new(me, &scratch);
        state(&mut records, 100, vec![(me, 7), (other, 5)]);
        let part = |number| Record::Ready {
            tranx: TranxId { server: other, number },
            participants: vec![me, other],
            shared: Vec::new(),
            ranges: Vec::new(),
            writes: Vec::new(),
        };
        for number in [4, 5, 6] {
            records.see(Sight::InOrder(&postcard::to_allocvec(&part(number)).unwrap())).unwrap();
        }
        let outcome =
            Record::Outcome { tranx: TranxId { server: other, number: 4 }, outcome: Outcome::Commit(Epoch(1)) };
        records.see(Sight::InOrder(&postcard::to_allocvec(&outcome).unwrap())).unwrap();
        // 3 may have been in a segment that is removed; 6 is in doubt; 7 is in no record.
        let vouched = [3, 4, 5, 6, 7].map(|number| records.vouch_for(TranxId { server: other, number }).unwrap());
        assert_eq!(vouched, [true, true, false, true, false]);
    }

    #[test]
    fn numbers_that_the_gc_log_knows_and_no_record_reserves_show_that_the_end_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(&folder.path().join("scratch")).unwrap();
        let [me, other] = [1, 2].map(ServerId);
        let reserve = |through| postcard::to_allocvec(&Record::Reserve { through }).unwrap();
        let mut records = Records::new(me, &scratch);
        state(&mut records, 100, vec![(other, 500), (me, 90)]);
        assert_eq!(records.lost_end(), None, "the record may be in a segment that is removed");
        records.see(Sight::InOrder(&reserve(80))).unwrap();
        assert!(records.lost_end().unwrap().contains("up to 90"));
        records.see(Sight::Behind(&reserve(90))).unwrap();
        assert!(records.lost_end().is_some());
        records.see(Sight::InOrder(&reserve(90))).unwrap();
        assert_eq!(records.lost_end(), None);
    }
}
