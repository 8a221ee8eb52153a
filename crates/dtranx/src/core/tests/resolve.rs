//! Content of a log about a transaction in doubt, and the decisions that an operator may make about
//! it.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::core::resolve::records;

/// A log of server 1, with transactions of server 2 complete up to the fifth.
fn log(records: Vec<Record>) -> Recovery {
    let config = Rig::new(|_| {}).node.config().clone();
    let low_water = vec![(PEER, 5), (THIRD, 0)];
    let gc = GcRecord { reserved_through: 10, low_water, epochs_through: Epoch(7) };
    let mut recovery = Recovery::new(config, Some(gc));
    for record in records {
        recovery.record(SegmentId(1), record);
    }
    recovery
}

fn ready(tranx: TranxId) -> Record {
    let writes = put(&["1w"]).writes;
    Record::Ready { tranx, participants: vec![ME, THIRD], shared: vec![key("1r")], ranges: vec![], writes }
}

fn outcome(tranx: TranxId, outcome: Outcome) -> Record {
    Record::Outcome { tranx, outcome }
}

#[test]
fn participants_log_tells_what_it_has_heard_and_what_it_has_voted() {
    let id = |number| tranx(PEER, number);
    let log = log(vec![
        ready(id(3)),
        ready(id(6)),
        ready(id(7)),
        outcome(id(7), Outcome::Commit(Epoch(9))),
        outcome(id(8), Outcome::Abort),
    ]);
    let known: Vec<Known> = [3, 6, 7, 8, 9].map(|number| log.known(id(number))).to_vec();
    let commit = Known::Committed(Epoch(9));
    assert_eq!(known, [Known::Aborted, Known::InDoubt, commit, Known::Aborted, Known::NoVote]);
    let doubts = log.doubts();
    assert_eq!(doubts.iter().map(|doubt| doubt.tranx).collect::<Vec<_>>(), [id(6)]);
    assert_eq!((&doubts[0].participants, &doubts[0].shared), (&vec![ME, THIRD], &vec![key("1r")]));
}

#[test]
fn coordinators_log_without_a_commit_is_an_abort_unless_it_is_too_old() {
    let participants = vec![PEER, THIRD];
    let commit = Record::Commit { tranx: tranx(ME, 4), participants, epoch: Epoch(3), request: past_request(1) };
    let log = log(vec![commit]);
    let known: Vec<Known> = [4, 10, 11].map(|number| log.known(tranx(ME, number))).to_vec();
    assert_eq!(known, [Known::Committed(Epoch(3)), Known::Aborted, Known::Older]);
}

#[test]
fn decision_needs_every_witness_and_none_that_says_otherwise() {
    use Decision::{Abort, Commit};
    let doubt = log(vec![ready(tranx(PEER, 6))]).doubts().remove(0);
    assert_eq!(doubt.witnesses(ME), BTreeSet::from([PEER, THIRD]));
    let decide = |decision, known: &[(ServerId, Known)], lost: &[ServerId]| {
        let (known, lost) = (known.iter().copied().collect(), lost.iter().copied().collect());
        doubt.decide(ME, decision, &known, &lost, Epoch(20))
    };
    let in_doubt = (THIRD, Known::InDoubt);
    assert_eq!(decide(Commit, &[in_doubt], &[PEER]), Ok(Outcome::Commit(Epoch(20))));
    assert_eq!(decide(Abort, &[in_doubt], &[PEER]), Ok(Outcome::Abort));
    assert_eq!(decide(Commit, &[(THIRD, Known::Committed(Epoch(9)))], &[PEER]), Ok(Outcome::Commit(Epoch(9))));
    for decision in [Commit, Abort] {
        let unasked = decide(decision, &[in_doubt], &[]).unwrap_err();
        assert!(matches!(&unasked, Undecided::Unasked { servers, .. } if *servers == [PEER]), "{unasked}");
        assert!(decide(decision, &[in_doubt, (PEER, Known::Older)], &[]).is_err());
    }
    for (known, refused) in [(Known::Committed(Epoch(9)), Abort), (Known::Aborted, Commit), (Known::NoVote, Commit)] {
        assert!(decide(refused, &[(THIRD, known)], &[PEER]).is_err(), "{known}");
        assert!(decide(refused, &[in_doubt, (PEER, known)], &[]).is_err(), "{known}");
    }
}

#[test]
fn epoch_of_a_commit_is_reserved_before_it_and_only_if_it_is_not() {
    let (first, second) = (tranx(PEER, 6), tranx(PEER, 7));
    let outcomes = BTreeMap::from([(first, Outcome::Abort), (second, Outcome::Commit(Epoch(9)))]);
    let both = [outcome(first, Outcome::Abort), outcome(second, Outcome::Commit(Epoch(9)))];
    assert_eq!(records(&outcomes, Epoch(9)), both);
    let reserved = Record::Epochs { through: Epoch(9) };
    assert_eq!(records(&outcomes, Epoch(8)), [&[reserved][..], &both].concat());
}

/// A participant may have done its writes and lost the record that says so.
#[test]
fn items_show_what_was_done_unless_it_only_deletes() {
    let id = tranx(PEER, 6);
    let of = |writes: Vec<Write>| TransactionInDoubt { writes, ..log(vec![ready(id)]).doubts().remove(0) };
    let delete = |name| Write { key: key(name), value: None };
    let by = |doubt: &TransactionInDoubt, found: Option<TranxId>| {
        let Ok(known) = doubt.by_items(|_| Ok::<_, std::convert::Infallible>(found));
        known
    };
    let put = of(put(&["1w"]).writes);
    assert_eq!(
        [Some(id), Some(tranx(PEER, 2)), None].map(|found| by(&put, found)),
        [Known::Applied, Known::InDoubt, Known::InDoubt]
    );
    let deleting = of(vec![delete("1w")]);
    assert_eq!([Some(tranx(PEER, 2)), None].map(|found| by(&deleting, found)), [Known::InDoubt, Known::PerhapsApplied]);
    assert_eq!(by(&of(vec![]), None), Known::InDoubt);

    // A restart has put some of the keys back.
    let earlier = Some(tranx(THIRD, 2));
    let by_key = |doubt: &TransactionInDoubt, found: &[(&str, Option<TranxId>)]| {
        let version = |at: &Key| found.iter().find(|(name, _)| key(name) == *at).unwrap().1;
        let Ok(known) = doubt.by_items(|at| Ok::<_, std::convert::Infallible>(version(at)));
        known
    };
    let two = of(super::put(&["1v", "1w"]).writes);
    for (first, second) in [(earlier, Some(id)), (Some(id), earlier)] {
        assert_eq!(by_key(&two, &[("1v", first), ("1w", second)]), Known::Applied);
    }
    let mixed = of([super::put(&["1v"]).writes, vec![delete("1w")]].concat());
    for (at_put, at_deleted, known) in [
        (earlier, None, Known::PerhapsApplied),
        (earlier, earlier, Known::InDoubt),
        (Some(id), earlier, Known::Applied),
    ] {
        assert_eq!(by_key(&mixed, &[("1v", at_put), ("1w", at_deleted)]), known);
    }

    let decide = |known: &[(ServerId, Known)], decision| {
        put.decide(ME, decision, &known.iter().copied().collect(), &BTreeSet::from([PEER]), Epoch(20)).is_ok()
    };
    use Decision::{Abort, Commit};
    for (mine, theirs, commits, aborts) in [
        (Known::Applied, Known::InDoubt, true, false),
        (Known::InDoubt, Known::Applied, true, false),
        (Known::PerhapsApplied, Known::InDoubt, true, false),
        (Known::PerhapsApplied, Known::NoVote, false, true),
    ] {
        let known = [(ME, mine), (THIRD, theirs)];
        assert_eq!((decide(&known, Commit), decide(&known, Abort)), (commits, aborts), "{mine}, {theirs}");
    }
}

/// Of two operators with copies of the same folders, only one may choose.
#[test]
fn what_nothing_says_is_chosen_on_the_lowest_participant_that_is_left() {
    use Decision::{Abort, Commit};
    let id = tranx(PEER, 6);
    let doubt = log(vec![ready(id)]).doubts().remove(0);
    let decide = |decision, mine: Known, first: Option<Known>, lost: &[ServerId]| {
        let first = first.map(|first| (ME, first));
        let known = first.into_iter().chain([(THIRD, mine)]).collect();
        doubt.decide(THIRD, decision, &known, &lost.iter().copied().collect(), Epoch(20))
    };
    for decision in [Commit, Abort] {
        let refused = decide(decision, Known::InDoubt, Some(Known::InDoubt), &[PEER]).unwrap_err();
        assert_eq!(refused, Undecided::Elsewhere { tranx: id, server: ME });
        assert!(refused.to_string().contains("decide this on server 1"), "{refused}");
        assert!(decide(decision, Known::InDoubt, None, &[PEER, ME]).is_ok(), "the first is lost as well");
    }
    for (known, allowed) in [
        (Known::Committed(Epoch(9)), Commit),
        (Known::Applied, Commit),
        (Known::PerhapsApplied, Commit),
        (Known::Aborted, Abort),
        (Known::NoVote, Abort),
    ] {
        assert!(decide(allowed, Known::InDoubt, Some(known), &[PEER]).is_ok(), "{known}");
    }
}
