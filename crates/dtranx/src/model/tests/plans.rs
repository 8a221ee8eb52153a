//! Plans that several explorations share.

use crate::core::Epoch;
use crate::model::plan::{Asks, Plan, Snap, Tx, key, moving, snap, tx};

/// Two transactions; each reads the key that the other writes.
pub(super) fn write_skew() -> Plan {
    Plan::new(2, vec![tx(1, &["1a"], &["2b"]), tx(2, &["2b"], &["1a"])])
}

/// [`write_skew`] with a first coordinator that holds none of the keys. The server of the first
/// read may crash.
pub(super) fn write_skew_from_afar() -> Plan {
    let txs = vec![tx(3, &["1a"], &["2b"]), tx(2, &["2b"], &["1a"])];
    Plan { crashes: 1, crash_only: Some(1), ..Plan::new(3, txs) }
}

/// A transfer writes on both servers, and an audit reads both keys.
pub(super) fn transfer_and_audit() -> Plan {
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), tx(2, &["1a", "2b"], &[])])
}

/// Two transfers and an audit of the same keys; the second transfer and the audit begin after the
/// first transfer, so that the audit finds values.
pub(super) fn transfers_and_audit() -> Plan {
    let mut plan = Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), tx(1, &[], &["1a", "2b"]), tx(2, &["1a", "2b"], &[])]);
    plan.txs[1].after = Some(0);
    plan.txs[2].after = Some(0);
    plan
}

/// Two participants, and a coordinator that holds none of the keys. One participant's timers go off
/// early; the other participant crashes.
pub(super) fn two_participants() -> Plan {
    let plan = Plan::new(3, vec![tx(1, &[], &["2b", "3c"])]);
    Plan { crashes: 1, crash_only: Some(3), early_ticks: 2, ticks_only: Some(2), ..plan }
}

/// Two audits read the keys of a writer. Their coordinator holds none of the keys and crashes.
pub(super) fn two_audits_from_afar() -> Plan {
    let txs = vec![tx(1, &[], &["1a", "1c"]), tx(2, &["1a"], &[]), tx(2, &["1a", "1c"], &[])];
    Plan { crashes: 1, crash_only: Some(2), ..Plan::new(2, txs) }
}

/// A key is put and then deleted beside a reader. The reader could find the key absent, see the
/// write that came with the put, and miss the write that came with the delete.
pub(super) fn come_and_gone() -> Plan {
    let go = Tx { after: Some(0), deletes: vec![key("1a")], ..tx(1, &[], &["2c"]) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), go, tx(2, &["1a", "2b", "2c"], &[])])
}

/// Two transactions read and write the same key on one server.
pub(super) fn two_increments() -> Plan {
    Plan::new(1, vec![tx(1, &["1a"], &["1a"]), tx(1, &["1a"], &["1a"])])
}

/// Two transfers of the same keys on two servers, each with another server as its coordinator. No
/// wait has a time limit.
pub(super) fn transfers_that_meet() -> Plan {
    Plan { waits_long: true, ..Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), tx(2, &[], &["1a", "2b"])]) }
}

/// [`transfers_that_meet`] with a first transfer that was refused before. A retry locks on one
/// server after the other, from the first one on, wherever its coordinator is.
pub(super) fn transfer_and_retry_that_meet(waited_ms: u32) -> Plan {
    let mut plan = transfers_that_meet();
    plan.txs[0] = Tx { waited_ms, ..keeping(plan.txs[0].clone()) };
    plan
}

/// A transfer, and a transaction that waits for it on the first server and reads its write on the
/// second.
pub(super) fn transfer_and_reader_from_afar() -> Plan {
    Plan::new(3, vec![tx(1, &[], &["1a", "2b"]), tx(3, &["2b"], &["1a"])])
}

pub(super) fn keeping(tx: Tx) -> Tx {
    Tx { keeps: true, waited_ms: 5, ..tx }
}

/// Two transactions change the same keys. The second keeps its locks for a retry, which is part of
/// the plan only if `comes` is true.
pub(super) fn increments_and_retry(names: &[&str], servers: u16, comes: bool) -> Plan {
    let mut plan = Plan::new(servers, vec![tx(1, names, names), keeping(tx(1, names, names))]);
    if comes {
        plan.txs.push(Tx { retries: Some(1), ..keeping(tx(1, names, names)) });
    }
    plan
}

/// An increment that wrongly names a transfer as its attempt before.
pub(super) fn increment_that_names_a_transfer() -> Plan {
    let names = Tx { names: Some(1), ..tx(1, &["1a"], &["1a"]) };
    Plan::new(2, vec![tx(1, &["1a"], &["1a", "2b"]), names])
}

/// A transfer, and an audit that locks the keys it read because it was refused before.
pub(super) fn transfer_and_keeping_audit() -> Plan {
    let audit = Tx { waited_ms: 25, ..keeping(tx(2, &["1a", "2b"], &[])) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), audit])
}

/// A plan with one participant, on another server than its coordinator.
pub(super) fn one_participant() -> Plan {
    Plan::new(2, vec![tx(1, &[], &["2b"])])
}

/// The same plan with each event between a server's machines as a step of its own.
pub(super) fn apart(plan: Plan) -> Plan {
    Plan { apart: true, ..plan }
}

/// The same plan with a storage on the first server that carries out and answers commands in any
/// order.
pub(super) fn slow_storage(plan: Plan) -> Plan {
    Plan { slow_storage: Some(1), ..plan }
}

/// A transfer between two servers, and a later change of one of its keys.
pub(super) fn transfer_then_increment() -> Plan {
    let then = Tx { after: Some(0), ..tx(1, &["1a"], &["1a"]) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), then])
}

/// A transfer between two servers beside a snapshot of both.
pub(super) fn transfer_and_snapshot() -> Plan {
    Plan { snaps: vec![snap(2, &["1a", "2b"])], ..Plan::new(2, vec![tx(1, &[], &["1a", "2b"])]) }
}

/// A transfer, a transaction that reads one of its keys and writes another, and a snapshot of the
/// transfer's first key and of that other key.
pub(super) fn transfer_and_dependent_and_snapshot() -> Plan {
    let txs = vec![tx(1, &[], &["1a", "2b"]), tx(2, &["2b"], &["2c"])];
    Plan { snaps: vec![snap(1, &["1a", "2c"])], holds: true, ..Plan::new(2, txs) }
}

/// Two writes on different servers; the second begins after the answer to the first, whose
/// coordinator holds none of the keys.
pub(super) fn one_after_the_other_and_snapshot() -> Plan {
    let txs = vec![tx(3, &[], &["2b"]), Tx { after: Some(0), ..tx(1, &[], &["1a"]) }];
    Plan { snaps: vec![snap(1, &["1a", "2b"])], ..Plan::new(3, txs) }
}

/// [`one_after_the_other_and_snapshot`] on two servers only, with another snapshot that may
/// overtake the first.
pub(super) fn one_after_the_other_and_two_snapshots() -> Plan {
    let txs = vec![tx(2, &[], &["2b"]), Tx { after: Some(0), ..tx(1, &[], &["1a"]) }];
    Plan { snaps: vec![snap(1, &["1a", "2b"]), snap(2, &[])], ..Plan::new(2, txs) }
}

/// A reader sees a new write on one server and an old write on the other server, which is then
/// replaced.
pub(super) fn audit_between_two_writes_and_snapshot() -> Plan {
    let after = |before, tx| Tx { after: Some(before), ..tx };
    let txs = vec![
        tx(2, &[], &["2b"]),
        after(0, tx(1, &[], &["1a"])),
        after(0, tx(1, &["1a", "2b"], &[])),
        after(0, tx(2, &[], &["2b"])),
    ];
    let snaps = vec![Snap { after: Some(0), ..snap(1, &["1a", "2b"]) }];
    Plan { snaps, holds: true, ..Plan::new(2, txs) }
}

/// A reader sees one key absent and then another key present, which was put together with the
/// first. The first key is deleted while the reader is validated; the reader waits for the delete
/// and takes place after it. The snapshot shows a write that begins after the answer to the reader.
pub(super) fn validation_that_waits_and_snapshot() -> Plan {
    let after = |before, tx| Tx { after: Some(before), ..tx };
    let delete = Tx { deletes: vec![key("1a")], ..tx(1, &[], &["2b"]) };
    let txs =
        vec![tx(1, &[], &["1a", "1c"]), after(0, delete), tx(1, &["1a", "1c"], &[]), after(2, tx(3, &[], &["3d"]))];
    let snaps = vec![Snap { after: Some(0), ..snap(2, &["1a", "3d"]) }];
    Plan { snaps, holds: true, ..Plan::new(3, txs) }
}

/// A reader of two keys on the first server finds one of them locked for a retry that never comes,
/// and waits. The other key is free, and is locked later by a write that the snapshot shows. The
/// snapshot does not show the write that the reader has seen on the second server, because that
/// write begins when the second server is in the epoch after the snapshot. The first server enters
/// that epoch without a wait for its log, because an earlier snapshot had it reserved.
pub(super) fn validation_that_sees_keys_free_one_after_the_other_and_snapshot() -> Plan {
    let txs = vec![
        tx(1, &[], &["1a", "1b", "2c"]),
        keeping(tx(1, &["1a"], &["1a"])),
        tx(1, &[], &["1b"]),
        Tx { from: Epoch(2), ..tx(2, &[], &["2c"]) },
        Tx { sees: Some(3), ..tx(2, &["2c", "1a", "1b"], &[]) },
    ];
    let snaps = vec![snap(2, &[]), snap(2, &["1b", "2c"])];
    let plan = Plan { before: 2, snaps, snaps_before: 1, holds: true, ..Plan::new(2, txs) };
    Plan { early_ticks: 1, ticks_only: Some(1), ..plan }
}

/// A reader sees a write of the second server's new epoch, and brings that epoch to the first
/// server, whose log has not reserved it. The first server crashes, and then takes a write of the
/// epoch before, which the snapshot shows. The snapshot does not show the write that the reader has
/// seen.
pub(super) fn validation_that_brings_an_epoch_and_snapshot() -> Plan {
    let txs = vec![
        tx(1, &[], &["1a", "2b"]),
        Tx { from: Epoch(1), ..tx(2, &[], &["2b"]) },
        Tx { sees: Some(1), ..tx(2, &["2b", "1a"], &[]) },
        Tx { sees: Some(1), ..tx(1, &[], &["1a"]) },
    ];
    let plan = Plan { before: 1, snaps: vec![snap(2, &["1a", "2b"])], holds: true, ..Plan::new(2, txs) };
    Plan { crashes: 1, crash_only: Some(1), ..plan }
}

/// A transfer that holds a key, a transaction of another coordinator that waits for that key, and a
/// reader of the same coordinator that waits for that transaction by another key.
pub(super) fn transfer_and_two_that_wait_from_afar() -> Plan {
    let older = Tx { waited_ms: 50, ..tx(2, &[], &["1a", "1c"]) };
    Plan::new(2, vec![tx(1, &[], &["1a", "2b"]), older, tx(2, &["1c"], &[])])
}

/// A transfer whose coordinator is lost at any step. The coordinator holds some of the keys or
/// none.
pub(super) fn transfer_of_a_lost_coordinator(puts: &[&str]) -> Plan {
    Plan { ruins: Some(1), ..Plan::new(3, vec![tx(1, &[], puts)]) }
}

/// A transfer of two keys on one server, of which an earlier transaction in its log has put one: a
/// crash before the outcome is durable, and a restart, put that key back and not the other.
pub(super) fn transfer_of_a_lost_coordinator_and_a_key_put_back() -> Plan {
    let before = tx(3, &[], &["2b"]);
    let transfer = Tx { after: Some(0), ..tx(1, &[], &["2b", "2c", "3d"]) };
    let plan = Plan::new(3, vec![before, transfer]);
    Plan { before: 1, crashes: 1, crash_only: Some(2), ruins: Some(1), ..plan }
}

/// A key that is there moves while a transaction that has read it writes it again.
pub(super) fn increment_beside_a_move() -> Plan {
    let txs = vec![tx(1, &[], &["1a"]), moving(2, 1, 2, &["1a"]), tx(1, &["1a"], &["1a"])];
    Plan { before: 1, ..Plan::new(2, txs) }
}

/// [`write_skew`] while the range of an absent key, which one reads and the other writes, moves.
pub(super) fn write_skew_beside_a_move() -> Plan {
    let mut plan = write_skew();
    plan.txs.push(moving(2, 1, 2, &["1a"]));
    plan
}

/// A key has moved when a coordinator that has not heard of it writes it, and another transaction
/// reads what the first owner says.
pub(super) fn old_map_after_a_move() -> Plan {
    let write = Tx { after: Some(1), ..tx(3, &[], &["1a"]) };
    let read = Tx { after: Some(1), ..tx(2, &["1a"], &[]) };
    let txs = vec![tx(1, &[], &["1a"]), moving(2, 1, 2, &["1a"]), write, read];
    Plan { before: 1, asks: Asks::First, ..Plan::new(3, txs) }
}

/// A key moves there and back beside a transaction that reads it and another key.
pub(super) fn there_and_back_beside_an_audit() -> Plan {
    let mut back = Tx { after: Some(1), ..moving(2, 2, 1, &["1a"]) };
    back.moving.as_mut().unwrap().moves = 2;
    let txs = vec![tx(1, &[], &["1a", "2b"]), moving(1, 1, 2, &["1a"]), back, tx(2, &["1a", "2b"], &[])];
    Plan { before: 1, ..Plan::new(2, txs) }
}

/// One key of a pair moves, and is written, while a snapshot of both is made and read.
pub(super) fn move_and_write_and_snapshot() -> Plan {
    let write = Tx { after: Some(1), ..tx(2, &[], &["1a", "2b"]) };
    let txs = vec![tx(1, &[], &["1a", "2b"]), moving(1, 1, 2, &["1a"]), write];
    Plan { before: 1, snaps: vec![snap(2, &["1a", "2b"])], holds: true, ..Plan::new(2, txs) }
}

/// A range moves to the third server, which the second one has not in its list at first, and is
/// written there.
pub(super) fn move_to_a_joiner_and_write() -> Plan {
    let txs = vec![moving(1, 1, 3, &["1a"]), Tx { after: Some(0), ..tx(1, &[], &["1a"]) }];
    Plan { old_lists: vec![2], ..Plan::new(3, txs) }
}

/// A range moves to the third server, which the second one has not in its list at first. A snapshot
/// that the second one makes would show a write of that range, and not the one before it.
pub(super) fn move_to_a_joiner_and_snapshot() -> Plan {
    let txs = vec![
        moving(1, 1, 3, &["1a"]),
        Tx { from: Epoch(1), ..tx(2, &[], &["2b"]) },
        Tx { after: Some(1), ..tx(1, &[], &["1a"]) },
    ];
    Plan { old_lists: vec![2], snaps: vec![snap(2, &["1a", "2b"])], holds: true, ..Plan::new(3, txs) }
}

/// Two writes on different servers; the second begins after the answer to the first, whose
/// coordinator is the third server: the second one has not that in its list at first, and makes a
/// snapshot.
pub(super) fn one_after_the_other_by_a_joiner_and_snapshot() -> Plan {
    let txs = vec![tx(3, &[], &["1a"]), Tx { after: Some(0), ..tx(2, &[], &["2b"]) }];
    Plan { old_lists: vec![2], snaps: vec![snap(2, &["1a", "2b"])], ..Plan::new(3, txs) }
}

/// A range moves between two servers, of which one has not the third in its list at first, and
/// makes a snapshot. Its reader asks all servers where the range was.
pub(super) fn move_beside_a_joiner_and_snapshot() -> Plan {
    let plan = Plan { old_lists: vec![2], holds: true, ..Plan::new(3, vec![moving(1, 1, 2, &["1a"])]) };
    Plan { snaps: vec![snap(2, &["1a"])], ..plan }
}

/// Two servers give ranges to a third one at the same time.
pub(super) fn two_moves_to_one_server() -> Plan {
    Plan::new(3, vec![moving(1, 1, 2, &["1a"]), moving(3, 3, 2, &["3c"])])
}

/// A move whose coordinator is lost at any step. The server that takes the range is killed, and
/// gets a write of a key in the range that was absent.
pub(super) fn move_of_a_lost_coordinator() -> Plan {
    let write = Tx { sees: Some(1), ..tx(3, &[], &["2b"]) };
    let plan = Plan::new(3, vec![tx(2, &[], &["2a"]), moving(1, 2, 3, &["2a", "2b"]), write]);
    Plan { before: 1, ruins: Some(1), crashes: 1, crash_only: Some(3), ..plan }
}
