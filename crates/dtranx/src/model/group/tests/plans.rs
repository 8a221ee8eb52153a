//! Plans that several explorations share.

use crate::core::{Epoch, ServerId};
use crate::model::{
    group::plan::{Budget, Plan},
    plan::{Snap, Tx, snap, tx},
};

pub(super) fn with(plan: Plan, budget: Budget) -> Plan {
    Plan { budget, ..plan }
}

/// A write on the group alone.
pub(super) fn write() -> Plan {
    Plan::new(vec![tx(1, &[], &["1a"])])
}

/// A transfer that the other server coordinates.
pub(super) fn transfer_to_the_group() -> Plan {
    Plan::new(vec![tx(2, &[], &["1a", "2b"])])
}

/// A transfer that the group coordinates.
pub(super) fn transfer_of_the_group() -> Plan {
    Plan::new(vec![tx(1, &[], &["2b"])])
}

/// A transfer that the group coordinates and takes part in. It is over; the last member has nothing
/// of it but what arrives late.
pub(super) fn transfer_without_the_last_member() -> Plan {
    let mut plan = Plan::new(vec![tx(1, &[], &["1a", "2b"])]);
    plan.base.before = 1;
    Plan { cut_off: Some(2), ..plan }
}

/// A transfer, and a reader of both keys who begins once some server has the transfer's writes.
/// Both keys had values before. The other server coordinates all of these. The last member cannot
/// be reached before the election, and the first does not hear of it.
pub(super) fn transfer_and_reader() -> Plan {
    let transfer = || tx(2, &[], &["1a", "2b"]);
    let reader = Tx { sees: Some(1), ..tx(2, &["2b", "1a"], &[]) };
    let mut plan = Plan::new(vec![transfer(), transfer(), reader]);
    plan.base.before = 1;
    let budget = Budget { elections: 1, ..Budget::default() };
    Plan { candidates: vec![1], cut_off: Some(2), budget, ..plan }
}

/// [`transfer_and_reader`] with a reader whom the group serves.
pub(super) fn transfer_and_reader_of_the_group() -> Plan {
    let mut plan = transfer_and_reader();
    plan.base.txs[2].coordinator = ServerId(1);
    plan
}

/// A write that comes after one that is over, of which the last member has nothing.
pub(super) fn writes_without_the_last_member() -> Plan {
    let second = Tx { after: Some(0), ..tx(1, &[], &["1c"]) };
    let mut plan = Plan::new(vec![tx(1, &[], &["1a"]), second]);
    plan.base.before = 1;
    Plan { cut_off: Some(2), ..plan }
}

/// A write, and a snapshot that is requested after its answer, and read. Another snapshot was made
/// before, so that a new life begins in a later epoch than the old one is in.
pub(super) fn write_and_snapshot(maker: u16) -> Plan {
    let mut plan = Plan::new(vec![tx(1, &[], &["1a"])]);
    plan.base.snaps = vec![snap(2, &[]), Snap { after: Some(0), ..snap(maker, &["1a"]) }];
    plan.base.snaps_before = 1;
    let budget = Budget { elections: 1, ..Budget::default() };
    Plan { candidates: vec![1], cut_off: Some(2), budget, ..plan }
}

/// [`transfer_and_reader`], and a reader of the group's key who may begin at any time.
pub(super) fn transfer_and_two_readers() -> Plan {
    let mut plan = transfer_and_reader();
    plan.base.txs.push(tx(2, &["1a"], &[]));
    Plan { voter: Some(2), is_deaf: true, elects_after: Some(3), ..plan }
}

/// A reader sees a write of the other server's new epoch, and brings that epoch to a leader that
/// another one replaces. The next life takes a write of the epoch before.
pub(super) fn reader_that_brings_an_epoch_and_snapshot() -> Plan {
    let mut plan = Plan::new(vec![
        tx(2, &[], &["1a", "2b"]),
        Tx { from: Epoch(1), ..tx(2, &[], &["2b"]) },
        Tx { sees: Some(1), ..tx(2, &["2b", "1a"], &[]) },
        Tx { sees: Some(1), ..tx(1, &[], &["1a"]) },
    ]);
    plan.base.before = 1;
    plan.base.snaps = vec![snap(2, &["1a", "2b"])];
    plan.base.holds = true;
    Plan { elects_after: Some(2), begins_later: Some(3), is_deaf: true, ..one_election(plan) }
}

/// A snapshot that is requested after the answer to a write, and a reader who brings the epoch
/// after that snapshot to a leader that another one has replaced, and that has nothing of the
/// write.
pub(super) fn write_and_reader_that_brings_an_epoch_and_snapshot() -> Plan {
    let reader = Tx { from: Epoch(1), ..tx(2, &["2b", "1c"], &[]) };
    let mut plan = Plan::new(vec![tx(2, &[], &["1a", "1c", "2b"]), tx(1, &[], &["1a"]), reader]);
    plan.base.before = 1;
    plan.base.snaps = vec![Snap { after: Some(1), ..snap(2, &["1a"]) }];
    Plan { begins_later: Some(1), ..one_election(plan) }
}

fn one_election(plan: Plan) -> Plan {
    let budget = Budget { elections: 1, ..Budget::default() };
    Plan { candidates: vec![1], voter: Some(2), cut_off: Some(2), budget, ..plan }
}

/// A write after the snapshot that a client goes on reading.
pub(super) fn write_after_a_snapshot() -> Plan {
    let mut plan = Plan::new(vec![tx(1, &[], &["1a"]), tx(1, &[], &["1a"])]);
    plan.base.before = 1;
    plan.base.snaps = vec![snap(2, &["1a"])];
    plan.base.snaps_before = 1;
    let budget = Budget { elections: 2, ..Budget::default() };
    Plan { candidates: vec![0, 1], cut_off: Some(2), budget, ..plan }
}

/// Two writes of a key, of which the first is over. The last member comes back when the leader has
/// removed entries, and is given items.
pub(super) fn writes_and_a_member_that_comes_back() -> Plan {
    let budget = Budget { marks: 2, collections: 2, ..Budget::default() };
    let mut plan = Plan::new(vec![tx(1, &[], &["1a", "1c"]), tx(1, &[], &["1a"])]);
    plan.base.before = 1;
    Plan { cut_off: Some(2), rejoins: true, budget, ..plan }
}

/// [`writes_without_the_last_member`] with a removal, after which the last member is given items by
/// the second leader, and a batch of the first one that arrives late.
pub(super) fn writes_with_late_batch_and_marks() -> Plan {
    let budget = Budget { elections: 1, late: 1, marks: 1, collections: 1, ..Budget::default() };
    Plan { candidates: vec![1], ..with(writes_without_the_last_member(), budget) }
}

/// A write, while the first leader has entries that no other member has.
pub(super) fn write_with_a_leader_that_is_ahead() -> Plan {
    let budget = Budget { elections: 2, reports: 1, ..Budget::default() };
    Plan { ahead: 3, candidates: vec![1, 2], budget, ..write() }
}

/// [`write_with_a_leader_that_is_ahead`] with marks that only the first leader has, and comes back
/// with after a crash.
pub(super) fn write_with_marks_of_a_leader_that_is_ahead() -> Plan {
    let budget = Budget { elections: 1, crashes: 1, marks: 1, collections: 1, ..Budget::default() };
    let plan = Plan { candidates: vec![1], voter: Some(2), cut_off: Some(2), begins_later: Some(0), ..write() };
    Plan { ahead: 3, crash_only: Some(0), budget, ..plan }
}

/// A write to a leader whose disk hangs, and whose client asks after it in a later life, which may
/// know nothing of it any more.
pub(super) fn write_that_is_removed_and_asked_for() -> Plan {
    let budget = Budget { elections: 2, marks: 1, collections: 1, asks: 1, ..Budget::default() };
    Plan { hung: Some(0), cut_off: Some(2), elects_after: Some(0), candidates: vec![1, 2], budget, ..write() }
}

/// A write that is over, and a transfer that the group coordinates.
pub(super) fn write_and_transfer_of_the_group() -> Plan {
    let mut plan = Plan::new(vec![tx(1, &[], &["1a"]), tx(1, &[], &["1a", "2b"])]);
    plan.base.before = 1;
    let budget = Budget { elections: 1, crashes: 1, marks: 1, collections: 1, ..Budget::default() };
    Plan { candidates: vec![0], crash_only: Some(0), hung: Some(2), budget, ..plan }
}

/// Two transfers to a group whose logs have room for little more than the first.
pub(super) fn transfers_to_a_group_without_room() -> Plan {
    let then = Tx { after: Some(0), ..tx(2, &[], &["1a", "2b"]) };
    let plan = Plan::new(vec![tx(2, &[], &["1a", "2b"]), then]);
    let budget = Budget { marks: 1, collections: 3, ..Budget::default() };
    Plan { room: Some(3), budget, ..plan }
}
