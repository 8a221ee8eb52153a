//! Quiet of a reader in a live record: which decisions it keeps out of a record write that the
//! server has refused, and for how long. The conditions that a write demands are in
//! [`crate::coordinator::stamps::quiet`].

use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use protocol::{ClientRecord, Seq, recorder::RecordWrite};

use super::{Answer, CommitConditions, LiveRecord, State};
use crate::coordinator::{
    log::records::StoredRecord,
    stamps::quiet::{Conditions, Heard, StoredQuiet, Verdict},
};

/// Time for which held-back transactions are left out before they are tried again.
const HOLD: Duration = Duration::from_millis(5);

/// Reason why the server refused a record write, as far as quiet is concerned, and what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The record write was refused for a reason other than quiet.
    Another,
    /// Quiet keeps this many decisions out of the record write for a while.
    Held(usize),
    /// This many transactions are withdrawn from the write, to be validated again.
    Withdrawn(usize),
    /// This quiet has lasted too long: the writer ends it first.
    Lift(ObjectId),
}

impl LiveRecord {
    /// Finds out whether the server has refused this write because of a reader's quiet.
    /// `may_arrive`: a copy of it was not answered.
    pub(crate) fn explain_refusal(&self, write: &RecordWrite, found: &StoredRecord, may_arrive: bool) -> Refusal {
        let ClientRecord { stamp, fenced, killed, .. } = &found.record;
        let is_as_demanded =
            *stamp == write.demands && !fenced && write.decides.iter().all(|seq| !killed.contains(seq));
        let Some(quiet) = found.quiet.as_ref().filter(|_| is_as_demanded) else { return Refusal::Another };
        let mut state = self.state();
        state.length = quiet.length;
        let verdict = state.conditions(&write.decides).verdict(quiet);
        if let Verdict::Deaf(heard) = verdict {
            return state.withdraw(&write.decides, heard);
        }
        let must_wait = verdict == Verdict::Waits;
        let held =
            if must_wait || !quiet.is_over { state.kept_back(&write.decides, quiet, must_wait) } else { Vec::new() };
        match () {
            () if held.is_empty() => Refusal::Another,
            // It cannot be left out of a write that may arrive, and the record's other writes,
            // signs of life among them, wait for that one.
            () if must_wait && (quiet.is_late || may_arrive || !state.is_patient(&held)) => Refusal::Lift(quiet.by),
            () if may_arrive => Refusal::Another,
            () => state.hold(held),
        }
    }

    /// Returns true if none of these has been held back for too long.
    pub(crate) fn is_patient(&self, decided: &[Seq]) -> bool {
        self.state().is_patient(decided)
    }
}

impl State {
    fn is_patient(&self, decided: &[Seq]) -> bool {
        let longest = self.length.longest_held();
        decided.iter().filter_map(|seq| self.held.get(seq)).all(|since| since.elapsed() < longest)
    }

    pub(super) fn conditions(&self, decided: &[Seq]) -> Conditions {
        Conditions::of(decided.iter().filter_map(|seq| {
            let CommitConditions { changed, heard: Heard::These(heard) } = self.commit_conditions.get(seq)? else {
                return None;
            };
            Some((&changed[..], &heard[..]))
        }))
    }

    /// The transactions that would change a collection where there is to be quiet, and all that
    /// have to be validated again if that is what they wait for. Notes the time at which each was
    /// kept back first.
    fn kept_back(&mut self, decided: &[Seq], quiet: &StoredQuiet, strict: bool) -> Vec<Seq> {
        let waits = |seq: &&Seq| {
            let conditions = self.commit_conditions.get(seq);
            conditions.is_some_and(|conditions| {
                quiet.is_disturbed_by(&conditions.changed) || strict && conditions.heard != Heard::Any
            })
        };
        let kept: Vec<Seq> = decided.iter().filter(waits).copied().collect();
        let now = Instant::now();
        for seq in &kept {
            self.held.entry(*seq).or_insert(now);
        }
        kept
    }

    /// Leaves these transactions out of decisions for a while.
    fn hold(&mut self, held: Vec<Seq>) -> Refusal {
        let count = held.len();
        self.recorder.hold(held);
        self.again.get_or_insert(Instant::now() + HOLD);
        Refusal::Held(count)
    }

    /// Withdraws the transactions that have not heard of the quiet, to be validated again. The
    /// write cannot be applied any more, late copies of it included: the quiet that it demands in
    /// the record does not come back.
    fn withdraw(&mut self, decided: &[Seq], by: ObjectId) -> Refusal {
        let is_deaf = |seq: &&Seq| {
            self.commit_conditions
                .get(seq)
                .is_some_and(|conditions| !conditions.changed.is_empty() && !conditions.heard.knows(by))
        };
        let withdrawn: Vec<Seq> = decided.iter().filter(is_deaf).copied().collect();
        if withdrawn.is_empty() {
            return Refusal::Another;
        }
        self.heard = Some(by);
        self.recorder.withdraw(&withdrawn);
        for seq in &withdrawn {
            self.commit_conditions.remove(seq);
            self.held.remove(seq);
            if let Some(waiter) = self.waiters.remove(seq) {
                let _ = waiter.send(Ok(Answer::ValidateAgain));
            }
        }
        Refusal::Withdrawn(withdrawn.len())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};
    use futures_util::{FutureExt, future};
    use protocol::{ClientId, Concern, TxId};

    use super::*;
    use crate::{
        coordinator::{
            decisions::client_record::live_record::{NextAction, RecordTimes},
            log::{records::parse_record, txlog::Started},
            stamps::tag::Tag,
            stored::format,
        },
        options::Namespace,
    };

    const CLIENT: ClientId = ClientId([7; 12]);

    /// The record with this quiet, as it was before a write that demands this stamp.
    fn record(stamp: u64, quiet: &Document) -> StoredRecord {
        let record = doc! {
            "_id": ObjectId::from_bytes(CLIENT.0), "stamp": stamp as i64, "low": 1_i64, "leaseMs": 10_000_i64,
            "quiet": quiet, format::FIELD: format::FORMAT,
        };
        parse_record(&record).unwrap()
    }

    /// A decision at serializable that has not heard of the quiet cannot be left out of a write
    /// that may arrive: it would keep signs of life waiting for as long as the quiet stands.
    #[test]
    fn decision_that_was_not_answered_ends_quiet_at_once() {
        let (ns, epoch) = (Namespace::new("d", "c"), 0);
        let now = Instant::now();
        let live = LiveRecord::new(CLIENT, 10_000, ns.clone(), RecordTimes { since: now, registered: now });
        let seq = live.allocate(epoch).unwrap();
        let started = Started { id: TxId { client: CLIENT, seq }, epoch };
        let conditions = CommitConditions { changed: vec![Tag::of(&ns)], heard: Heard::These(Vec::new()) };
        let mut commit = Box::pin(live.commit(started, Concern::Journaled, conditions));
        assert!(future::poll_immediate(&mut commit).now_or_never().flatten().is_none());
        assert!(matches!(live.next_action(None), NextAction::Write(stamp, _) if stamp.decides.is_empty()));
        live.acknowledged(epoch, &[]);
        let NextAction::Write(write, _) = live.next_action(None) else { panic!("there is nothing to write") };
        assert_eq!(write.decides, [seq]);
        let by = ObjectId::from_bytes([1; 12]);
        let tags = vec![Tag::of(&ns).to_string()];
        let quiet = doc! {"by": by, "tags": tags, "over": false, "doublings": 2_i64};
        let found = record(write.demands, &quiet);
        assert_eq!(live.explain_refusal(&write, &found, true), Refusal::Lift(by));
        assert_eq!(live.explain_refusal(&write, &found, false), Refusal::Held(1));
    }
}
