//! One recorder and the record that it writes, step by step.

use super::*;

fn open(recorder: &mut Recorder) -> Seq {
    let seq = recorder.allocate();
    assert!(recorder.request_commit(seq, Concern::Journaled, 1));
    seq
}

/// The record as the server keeps it: applies a write if its demands hold.
fn serve(record: &mut ClientRecord, write: &RecordWrite) -> bool {
    let admitted =
        record.stamp == write.demands && !record.fenced && write.decides.iter().all(|seq| !record.killed.contains(seq));
    if admitted {
        record.stamp = write.stamp;
        record.low = write.low;
        record.committed = write.committed.iter().copied().collect();
        record.rolled_back = write.rolled_back.iter().copied().collect();
        record.aborted.extend(&write.aborted);
    }
    admitted
}

fn step(recorder: &mut Recorder, record: &mut ClientRecord) -> (RecordWrite, Vec<TransactionEnd>) {
    let write = recorder.next_write(true).expect("a write");
    assert!(serve(record, &write));
    let Verdict::GoOn(outcomes) = recorder.acknowledged(1) else { panic!("lost") };
    (write, outcomes)
}

#[test]
fn being_decided_is_said_from_sending_to_answer() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open(&mut recorder);
    step(&mut recorder, &mut record);
    assert!(!recorder.is_being_decided(seq));
    recorder.next_write(false).expect("a decision");
    assert!(recorder.is_being_decided(seq) && recorder.status(seq) == TxStatus::Active);
    recorder.acknowledged(1);
    assert!(!recorder.is_being_decided(seq) && recorder.status(seq) == TxStatus::Committed);
}

#[test]
fn commit_alone_takes_a_stamp_and_a_decision() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open(&mut recorder);
    let (stamp, none) = step(&mut recorder, &mut record);
    assert_eq!((stamp.concern, stamp.decides, none), (Concern::Acknowledged, vec![], vec![]));
    let (decision, outcomes) = step(&mut recorder, &mut record);
    assert_eq!((decision.concern, decision.decides), (Concern::Journaled, vec![seq]));
    assert_eq!(outcomes, [TransactionEnd::Committed(seq)]);
}

#[test]
fn commit_that_arrives_during_a_write_needs_a_later_one_as_evidence() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let first = open(&mut recorder);
    step(&mut recorder, &mut record);
    let decision = recorder.next_write(false).expect("decides the first");
    let second = open(&mut recorder);
    assert!(serve(&mut record, &decision));
    assert_eq!(recorder.acknowledged(1), Verdict::GoOn(vec![TransactionEnd::Committed(first)]));
    let (stamp, _) = step(&mut recorder, &mut record);
    assert!(stamp.decides.is_empty());
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(second)]);
}

#[test]
fn decision_of_one_group_is_the_evidence_of_the_next() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let first = open(&mut recorder);
    step(&mut recorder, &mut record);
    let second = open(&mut recorder);
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(first)]);
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(second)]);
}

#[test]
fn hold_leaves_a_number_out_until_it_is_released() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let held = open(&mut recorder);
    step(&mut recorder, &mut record);
    recorder.next_write(false).expect("a decision that the server refuses");
    recorder.hold([held]);
    assert!(!recorder.has_waiting() && recorder.next_write(false).is_none());
    let other = open(&mut recorder);
    step(&mut recorder, &mut record);
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(other)]);
    assert_eq!(recorder.status(held), TxStatus::Active);
    recorder.release();
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(held)]);
}

#[test]
fn hold_before_the_evidence_is_there_waits_for_it() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let first = open(&mut recorder);
    step(&mut recorder, &mut record);
    let late = open(&mut recorder);
    recorder.next_write(false).expect("a decision of the first, which is the evidence of the late one");
    recorder.hold([first]);
    let (write, _) = step(&mut recorder, &mut record);
    assert!(write.decides.is_empty(), "what was refused is no evidence");
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(late)]);
}

#[test]
fn commit_whose_evidence_ran_in_another_epoch_is_rolled_back() {
    let mut recorder = Recorder::new();
    let seq = open(&mut recorder);
    recorder.next_write(false).expect("a stamp");
    assert_eq!(recorder.acknowledged(2), Verdict::GoOn(vec![TransactionEnd::RolledBack(seq)]));
    assert!(!recorder.has_waiting());
}

#[test]
fn numbers_leave_only_below_low_and_aborts_are_traced() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let long = recorder.allocate();
    let aborted = recorder.allocate();
    let committed = open(&mut recorder);
    recorder.note_rolled_back(aborted);
    recorder.note_clean(aborted, 1);
    step(&mut recorder, &mut record);
    step(&mut recorder, &mut record);
    recorder.note_clean(committed, 1);
    step(&mut recorder, &mut record);
    assert_eq!((record.low, record.committed.len(), record.rolled_back.len()), (long, 1, 1));
    recorder.note_rolled_back(long);
    recorder.note_clean(long, 1);
    step(&mut recorder, &mut record);
    assert_eq!((record.low, record.committed.len(), record.rolled_back.len()), (4, 0, 0));
    assert_eq!(record.aborted, [long, aborted].into());
}

#[test]
fn low_rises_only_after_evidence_that_finished_documents_are_kept() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open(&mut recorder);
    step(&mut recorder, &mut record);
    step(&mut recorder, &mut record);
    recorder.note_clean(seq, 1);
    let (evidence, _) = step(&mut recorder, &mut record);
    assert_eq!((evidence.low, evidence.committed), (seq, vec![seq]));
    assert!(recorder.is_finished() && !recorder.is_settled());
    let (raise, _) = step(&mut recorder, &mut record);
    assert_eq!((raise.low, raise.committed), (seq + 1, vec![]));
    assert!(recorder.is_settled());
}

#[test]
fn clean_in_another_epoch_gives_the_record_up() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let (seq, other) = (open(&mut recorder), recorder.allocate());
    step(&mut recorder, &mut record);
    step(&mut recorder, &mut record);
    recorder.note_clean(seq, 1);
    recorder.next_write(true).expect("evidence");
    assert_eq!(recorder.acknowledged(2), Verdict::Lost(vec![TransactionEnd::RolledBack(other)]));
    assert_eq!(record.committed, [seq].into());
}

#[test]
fn examined_without_a_record_does_not_call_a_sent_decision_rolled_back() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let (sent, other) = (open(&mut recorder), recorder.allocate());
    step(&mut recorder, &mut record);
    recorder.next_write(false).expect("a decision");
    let outcomes = vec![TransactionEnd::Indeterminate(sent), TransactionEnd::RolledBack(other)];
    assert_eq!(recorder.examined(None), Verdict::Lost(outcomes));
}

#[test]
fn examined_after_a_lost_answer_tells_applied_from_not_arrived() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open(&mut recorder);
    step(&mut recorder, &mut record);
    let decision = recorder.next_write(false).expect("a decision");
    assert_eq!(recorder.examined(Some(&record)), Verdict::SendAgain);
    assert!(serve(&mut record, &decision));
    assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![TransactionEnd::Committed(seq)]));
}

#[test]
fn examined_of_a_fenced_record_rolls_back_what_it_did_not_decide() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let (first, second) = (open(&mut recorder), recorder.allocate());
    step(&mut recorder, &mut record);
    let decision = recorder.next_write(false).expect("a decision");
    assert!(serve(&mut record, &decision));
    record.fenced = true;
    let outcomes = vec![TransactionEnd::Committed(first), TransactionEnd::RolledBack(second)];
    assert_eq!(recorder.examined(Some(&record)), Verdict::Lost(outcomes));
    assert!(recorder.next_write(true).is_none());
}

#[test]
fn examined_of_a_record_that_lost_acknowledged_writes_gives_it_up() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open(&mut recorder);
    let before = record.clone();
    step(&mut recorder, &mut record);
    recorder.next_write(false).expect("a decision");
    assert_eq!(recorder.examined(Some(&before)), Verdict::Lost(vec![TransactionEnd::RolledBack(seq)]));
}

#[test]
fn examined_with_an_aborted_member_decides_the_others() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let (aborted, other) = (open(&mut recorder), open(&mut recorder));
    step(&mut recorder, &mut record);
    record.killed.insert(aborted);
    let decision = recorder.next_write(false).expect("a decision");
    assert!(!serve(&mut record, &decision));
    assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![TransactionEnd::RolledBack(aborted)]));
    assert_eq!(step(&mut recorder, &mut record).1, [TransactionEnd::Committed(other)]);
}

/// A transaction that has requested its commit, begun when connection `epoch` had been answered.
fn open_over(recorder: &mut Recorder, epoch: u64) -> Seq {
    let seq = recorder.allocate();
    assert!(recorder.request_commit(seq, Concern::Journaled, Since { epoch, answered: true }));
    seq
}

#[test]
fn bound_commit_alone_is_one_write() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open_over(&mut recorder, 1);
    let decision = recorder.next_write_over(false, Some(1)).expect("a decision");
    assert_eq!((&decision.decides, decision.over, decision.concern), (&vec![seq], Some(1), Concern::Journaled));
    assert!(serve(&mut record, &decision));
    assert_eq!(recorder.acknowledged(1), Verdict::GoOn(vec![TransactionEnd::Committed(seq)]));
    recorder.note_clean(seq, Since { epoch: 1, answered: true });
    let raise = recorder.next_write_over(true, Some(1)).expect("a write");
    assert_eq!((raise.low, raise.over), (seq + 1, Some(1)), "and one more to raise the mark");
}

#[test]
fn bound_only_to_the_connection_that_was_answered_before() {
    let mut recorder = Recorder::new();
    let seq = recorder.allocate();
    recorder.request_commit(seq, Concern::Journaled, Since { epoch: 1, answered: false });
    let stamp = recorder.next_write_over(false, Some(1)).expect("a stamp");
    assert!(stamp.decides.is_empty() && stamp.over.is_none());
    assert_eq!(recorder.acknowledged(1), Verdict::GoOn(vec![TransactionEnd::RolledBack(seq)]), "it was opened only");
    let mut recorder = Recorder::new();
    open_over(&mut recorder, 1);
    for other in [None, Some(2)] {
        let stamp = recorder.clone().next_write_over(false, other).expect("a stamp");
        assert!(stamp.decides.is_empty() && stamp.over.is_none(), "{other:?}");
    }
}

#[test]
fn bound_and_unanswered_is_rolled_back_behind_a_barrier() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open_over(&mut recorder, 1);
    let lost = recorder.next_write_over(false, Some(1)).expect("a decision");
    recorder.connection_lost();
    assert!(recorder.is_being_decided(seq) && recorder.has_unanswered());
    assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![]), "no transaction has an outcome yet");
    let barrier = recorder.next_write_over(false, Some(2)).expect("a barrier");
    assert_eq!((barrier.demands, barrier.over), (lost.demands, None));
    assert!(barrier.decides.is_empty() && barrier.stamp != lost.stamp);
    assert!(serve(&mut record, &barrier) && !serve(&mut record, &lost), "it cannot be applied any more");
    assert_eq!(recorder.acknowledged(2), Verdict::GoOn(vec![TransactionEnd::RolledBack(seq)]));
}

#[test]
fn bound_and_unanswered_was_applied_if_the_record_says_so() {
    for after_barrier in [false, true] {
        let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
        let seq = open_over(&mut recorder, 1);
        let lost = recorder.next_write_over(false, Some(1)).expect("a decision");
        recorder.connection_lost();
        if after_barrier {
            assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![]));
            let barrier = recorder.next_write(false).expect("a barrier");
            assert!(serve(&mut record, &lost) && !serve(&mut record, &barrier), "it arrives before the barrier");
        } else {
            assert!(serve(&mut record, &lost));
        }
        assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![TransactionEnd::Committed(seq)]));
        assert!(!recorder.has_unanswered());
        let next = recorder.next_write(true).expect("a write");
        assert!(next.demands == lost.stamp && next.stamp > lost.stamp + u64::from(after_barrier));
        assert!(serve(&mut record, &next));
    }
}

#[test]
fn bound_barrier_that_was_applied_lets_nothing_through() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open_over(&mut recorder, 1);
    let lost = recorder.next_write_over(false, Some(1)).expect("a decision");
    recorder.connection_lost();
    recorder.examined(Some(&record));
    let barrier = recorder.next_write(false).expect("a barrier");
    assert!(serve(&mut record, &barrier) && !serve(&mut record, &lost));
    assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![]), "its answer was lost");
    let stamp = recorder.next_write_over(false, Some(2)).expect("a stamp");
    assert!(serve(&mut record, &stamp) && stamp.decides.is_empty());
    assert_eq!(recorder.acknowledged(2), Verdict::GoOn(vec![TransactionEnd::RolledBack(seq)]));
}

#[test]
fn bound_and_refused_is_composed_anew() {
    let (mut recorder, record) = (Recorder::new(), Recorder::initial_record());
    let seq = open_over(&mut recorder, 1);
    let refused = recorder.next_write_over(false, Some(1)).expect("a decision");
    assert_eq!(recorder.examined(Some(&record)), Verdict::GoOn(vec![]), "it was answered: it does not arrive later");
    let again = recorder.next_write_over(false, Some(1)).expect("a decision");
    assert!(again.decides == [seq] && again.stamp > refused.stamp);
}

#[test]
fn bound_and_unanswered_is_indeterminate_without_a_record() {
    let mut recorder = Recorder::new();
    let seq = open_over(&mut recorder, 1);
    recorder.next_write_over(false, Some(1)).expect("a decision");
    recorder.connection_lost();
    assert_eq!(recorder.examined(None), Verdict::Lost(vec![TransactionEnd::Indeterminate(seq)]));
}

#[test]
fn record_in_which_was_finished_before_the_connection_broke_is_outlived() {
    let (mut recorder, mut record) = (Recorder::new(), Recorder::initial_record());
    let seq = open(&mut recorder);
    step(&mut recorder, &mut record);
    step(&mut recorder, &mut record);
    assert!(!recorder.is_outlived(2), "nothing is finished");
    recorder.note_clean(seq, 1);
    assert!(!recorder.is_outlived(1) && recorder.is_outlived(2));
    let write = recorder.next_write(true).expect("a write");
    assert!(serve(&mut record, &write));
    assert!(matches!(recorder.clone().acknowledged(2), Verdict::Lost(_)), "as it was predicted");
    recorder.acknowledged(1);
    assert!(!recorder.is_outlived(2), "there is evidence");
}
