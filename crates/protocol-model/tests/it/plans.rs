//! The plans that are explored, each small enough to be explored completely.

use protocol_model::{Faults, Op, Plan, Read, TxPlan};

use crate::{DEEP, deep};

fn tx(client: usize, writes: &[(usize, Op)]) -> TxPlan {
    TxPlan { client, writes: writes.to_vec(), ..TxPlan::default() }
}

fn updates(client: usize, docs: &[usize]) -> TxPlan {
    TxPlan { client, writes: docs.iter().map(|doc| (*doc, Op::Update)).collect(), ..TxPlan::default() }
}

fn faults(set: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    set(&mut faults);
    faults
}

/// Two clients change the same two documents, in opposite order.
pub(crate) fn rivals() -> Plan {
    Plan {
        name: "rivals",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[1, 0])],
        ..Plan::default()
    }
}

/// One of two rivals sends its writes together.
pub(crate) fn sent_together() -> Plan {
    let together = TxPlan { together: true, ..updates(0, &[0, 1, 2]) };
    Plan {
        name: "sent_together",
        docs: vec![true, true, true],
        txs: vec![together, updates(1, &[1])],
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// Lock writes of two documents in one command, while the server restarts.
pub(crate) fn sent_together_restart() -> Plan {
    let together = TxPlan { together: true, ..updates(0, &[0, 1]) };
    Plan {
        name: "sent_together_restart",
        docs: vec![true, true],
        txs: vec![together, updates(1, &[0])],
        faults: faults(|f| (f.server_crashes, f.aborts) = (1, 1)),
        ..Plan::default()
    }
}

/// One statement of three documents, which the server takes in another order than the bulk has,
/// beside a rival that wants two of them.
pub(crate) fn sent_in_one_statement(order: [usize; 3]) -> Plan {
    let together = TxPlan { together: true, order: order.to_vec(), ..updates(0, &[0, 1, 2]) };
    Plan {
        name: "sent_in_one_statement",
        docs: vec![true, true, true],
        txs: vec![together, updates(1, &[1, 0])],
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// The same, and the server refuses the second document, which it comes to at last.
pub(crate) fn refused_in_one_statement() -> Plan {
    let mut plan = sent_in_one_statement([2, 0, 1]);
    plan.txs[0].ends_at = Some(1);
    Plan { name: "refused_in_one_statement", ..plan }
}

/// The same for two documents, while the server restarts.
pub(crate) fn sent_in_one_statement_restart() -> Plan {
    let together = TxPlan { together: true, order: vec![1, 0], ..updates(0, &[0, 1]) };
    Plan {
        name: "sent_in_one_statement_restart",
        docs: vec![true, true],
        txs: vec![together, updates(1, &[0])],
        faults: faults(|f| (f.server_crashes, f.aborts) = (1, 1)),
        ..Plan::default()
    }
}

/// One statement that takes over documents of a committed transaction of the same client, in
/// another order.
pub(crate) fn taken_over_in_one_statement() -> Plan {
    let mut plan = taken_over_restart();
    for tx in plan.txs.iter_mut().filter(|tx| tx.together) {
        tx.order = (0..tx.writes.len()).rev().collect();
    }
    Plan { name: "taken_over_in_one_statement", ..plan }
}

/// An update, an insert and an update, each update in two statements, beside a rival that wants the
/// first document.
pub(crate) fn sent_in_two() -> Plan {
    let together = tx(0, &[(0, Op::Update), (1, Op::Insert), (2, Op::Update)]);
    Plan {
        name: "sent_in_two",
        docs: vec![true, false, true],
        txs: vec![TxPlan { together: true, in_two: true, ..together }, updates(1, &[0])],
        faults: faults(|f| f.late_messages = 1),
        ..Plan::default()
    }
}

/// Three updates in two statements each. The server refuses the change of the second.
pub(crate) fn sent_in_two_refused() -> Plan {
    let together = TxPlan { together: true, in_two: true, change_refused: Some(1), ..updates(0, &[0, 1, 2]) };
    Plan {
        name: "sent_in_two_refused",
        docs: vec![true, true, true],
        txs: vec![together, updates(1, &[1])],
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// Two updates in two statements each while the server restarts.
pub(crate) fn sent_in_two_restart() -> Plan {
    let together = TxPlan { together: true, in_two: true, ..updates(0, &[0, 1]) };
    Plan {
        name: "sent_in_two_restart",
        docs: vec![true, true],
        txs: vec![together, updates(1, &[0])],
        faults: faults(|f| (f.server_crashes, f.aborts) = (1, 1)),
        ..Plan::default()
    }
}

/// Two transactions of one client: the second takes over the documents of the first, unless they
/// are finished before.
fn taking_over(first: &[usize], second: &[usize], together: bool) -> Vec<TxPlan> {
    vec![updates(0, first), TxPlan { takes_over: true, together, ..updates(0, second) }]
}

/// Documents change hands within a client; a message is late, and a lease is found expired.
pub(crate) fn taken_over() -> Plan {
    Plan {
        name: "taken_over",
        docs: vec![true, true],
        txs: taking_over(&[0, 1], &[1, 0], false),
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// The same plan with a rival, which may wait for the same documents.
pub(crate) fn taken_over_from_rivals() -> Plan {
    let mut txs = taking_over(&[0], &[0], false);
    txs.push(updates(1, &[0]));
    Plan { name: "taken_over_from_rivals", docs: vec![true], txs, faults: faults(|f| f.aborts = 1), ..Plan::default() }
}

/// The plan of taking over, while the server restarts.
pub(crate) fn taken_over_restart() -> Plan {
    Plan {
        name: "taken_over_restart",
        docs: vec![true, true],
        txs: taking_over(&[0, 1], &[0, 1], true),
        faults: faults(|f| (f.server_crashes, f.client_deaths) = (1, 1)),
        ..Plan::default()
    }
}

/// Two rivals find their documents by other fields than the `_id`; lock writes and their answers
/// get lost, and a lease is found expired.
pub(crate) fn found_by_key() -> Plan {
    let by_key = |tx: TxPlan| TxPlan { by_key: true, ..tx };
    Plan {
        name: "found_by_key",
        txs: vec![by_key(updates(0, &[0, 1])), by_key(updates(1, &[1]))],
        faults: faults(|f| (f.late_messages, f.expiries) = (deep(2), 1)),
        ..rivals()
    }
}

/// The plan of a document found by its key, with an earlier transaction of the same client, whose
/// unfinished documents it takes over.
pub(crate) fn found_by_key_and_taken_over() -> Plan {
    let mut txs = taking_over(&[0], &[0, 1], false);
    txs[1].by_key = true;
    Plan {
        name: "found_by_key_and_taken_over",
        txs,
        faults: faults(|f| (f.late_messages, f.aborts) = (1, deep(1))),
        ..rivals()
    }
}

/// The same as the first while the server restarts.
pub(crate) fn found_by_key_restart() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages) = (1, deep(1)));
    Plan { name: "found_by_key_restart", faults, ..found_by_key() }
}

/// The same plan with one document in common, and lost answers to finishing writes.
pub(crate) fn finished_late() -> Plan {
    Plan {
        name: "finished_late",
        docs: vec![true, true],
        txs: taking_over(&[0, 1], &[0], false),
        faults: faults(|f| (f.server_crashes, f.late_finishes, f.expiries) = (1, 2, deep(1))),
        ..Plan::default()
    }
}

/// The same plans with decisions that are bound to their connection.
pub(crate) fn bound(plan: Plan) -> Plan {
    Plan { bound: true, ..plan }
}

/// Three clients change three documents in a ring.
pub(crate) fn ring() -> Plan {
    Plan {
        name: "ring",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[1, 2]), updates(2, &[2, 0])],
        ..Plan::default()
    }
}

/// Two rivals; the leases of both are found expired though they live, and one of them dies.
pub(crate) fn zombie() -> Plan {
    let faults = faults(|f| (f.expiries, f.client_deaths) = (2, 1));
    Plan { name: "zombie", faults, ..rivals() }
}

/// Two rivals, either of whom may abort one number of the other or find its lease expired.
pub(crate) fn abort() -> Plan {
    let faults = faults(|f| (f.aborts, f.expiries, f.late_messages) = (1, 1, deep(1)));
    Plan { name: "abort", faults, ..rivals() }
}

/// Two rivals, an expiry, a late message.
pub(crate) fn late() -> Plan {
    let faults = faults(|f| (f.late_messages, f.expiries) = (1, 1));
    Plan { name: "late", faults, ..rivals() }
}

/// Two late messages, and aborted numbers are forgotten at once.
pub(crate) fn late_and_forgotten() -> Plan {
    let faults = faults(|f| f.late_messages = 2);
    Plan { name: "late_and_forgotten", faults, prune_trace: true, ..rivals() }
}

/// One transaction changes two documents while the server restarts twice.
pub(crate) fn restart_alone() -> Plan {
    Plan {
        name: "restart_alone",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1])],
        faults: faults(|f| (f.server_crashes, f.late_messages) = (2, 1)),
        ..Plan::default()
    }
}

/// Two rivals, and the server restarts.
pub(crate) fn restart() -> Plan {
    Plan { name: "restart", faults: faults(|f| f.server_crashes = 1), ..rivals() }
}

/// The server restarts, and the lease of a live client is found expired; with one document in
/// common.
pub(crate) fn restart_zombie() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.expiries) = (1, 1));
    Plan { name: "restart_zombie", faults, ..restart_late() }
}

/// The server restarts, and a client dies. Except in long explorations, the transactions have only
/// one document in common.
pub(crate) fn restart_death() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.client_deaths) = (1, 1));
    Plan { name: "restart_death", faults, ..if *DEEP { rivals() } else { restart_late() } }
}

/// The server restarts and one message is late, with one document in common.
pub(crate) fn restart_late() -> Plan {
    Plan {
        name: "restart_late",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[0])],
        faults: faults(|f| (f.server_crashes, f.late_messages) = (1, 1)),
        ..Plan::default()
    }
}

/// One transaction: two restarts, two late messages, and its lease is found expired.
pub(crate) fn restart_late_zombie() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages, f.expiries) = (2, 2, 1));
    Plan { name: "restart_late_zombie", faults, ..restart_alone() }
}

/// Two transactions of one client share its record writes; a third is a rival.
pub(crate) fn group() -> Plan {
    Plan {
        name: "group",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(0, &[2]), updates(1, &[0, 2])],
        faults: faults(|f| f.late_messages = deep(1)),
        ..Plan::default()
    }
}

/// Two transactions of one client, while the server restarts and a message is late.
pub(crate) fn group_restart() -> Plan {
    Plan {
        name: "group_restart",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(0, &[2])],
        faults: faults(|f| (f.server_crashes, f.late_messages) = (deep(2), 1)),
        ..Plan::default()
    }
}

/// Two transactions of one client, whose owner gives up after a restart or a late message.
pub(crate) fn group_gives_up() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages, f.give_ups) = (1, 1, 1));
    Plan { name: "group_gives_up", faults, ..group_restart() }
}

/// Two transactions of one client, whose decision is refused for the quiet of a reader, while a
/// message is late.
pub(crate) fn group_quiet() -> Plan {
    Plan {
        name: "group_quiet",
        docs: vec![true, true],
        txs: vec![updates(0, &[0]), updates(0, &[1])],
        faults: faults(|f| (f.quiets, f.late_messages) = (1, 1)),
        ..Plan::default()
    }
}

/// The same plan, and the owner gives up.
pub(crate) fn group_quiet_gives_up() -> Plan {
    let faults = faults(|f| (f.quiets, f.late_messages, f.give_ups) = (1, 1, 1));
    Plan { name: "group_quiet_gives_up", faults, ..group_quiet() }
}

/// The plan `group_quiet` while the server restarts.
pub(crate) fn group_quiet_restart() -> Plan {
    Plan { name: "group_quiet_restart", faults: faults(|f| (f.quiets, f.server_crashes) = (1, 1)), ..group_quiet() }
}

/// The same plan while a rival aborts one of them.
pub(crate) fn group_quiet_abort() -> Plan {
    let txs = vec![updates(0, &[0]), updates(0, &[1]), updates(1, &[0])];
    Plan { name: "group_quiet_abort", txs, faults: faults(|f| (f.quiets, f.aborts) = (1, 1)), ..group_quiet() }
}

/// Two transactions of one client, of which a rival aborts one.
pub(crate) fn group_abort() -> Plan {
    Plan {
        name: "group_abort",
        faults: faults(|f| (f.aborts, f.late_messages) = (1, 1)),
        docs: vec![true, true],
        txs: vec![updates(0, &[0]), updates(0, &[1]), updates(1, &[0])],
        ..Plan::default()
    }
}

/// Two reads by id while two transactions of one client commit and finish and a third changes one
/// document again.
pub(crate) fn reads() -> Plan {
    Plan {
        name: "reads",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(0, &[2]), updates(1, &[1])],
        reads: vec![Read::ById(0), Read::ById(1)],
        ..Plan::default()
    }
}

/// Two reads by id while clients are fenced, repaired by others, and their records removed.
pub(crate) fn reads_zombie() -> Plan {
    Plan {
        name: "reads_zombie",
        reads: vec![Read::ById(0), Read::ById(1)],
        faults: faults(|f| f.expiries = 1),
        ..rivals()
    }
}

/// Two reads by id (in long explorations; otherwise one) while the server restarts.
pub(crate) fn reads_restart() -> Plan {
    Plan {
        name: "reads_restart",
        reads: [Read::ById(1), Read::ById(0)][..usize::from(deep(2))].to_vec(),
        faults: faults(|f| f.server_crashes = 1),
        txs: vec![updates(0, &[0, 1]), updates(1, &[1])],
        ..rivals()
    }
}

/// A read by id and a query, with an expiry.
pub(crate) fn queries() -> Plan {
    Plan {
        name: "queries",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[1])],
        reads: vec![Read::ById(0), Read::Query { doc: 1, holds: 0 }],
        faults: faults(|f| f.expiries = 1),
        ..Plan::default()
    }
}

/// A read by id and a query in one command, with an expiry.
pub(crate) fn together() -> Plan {
    Plan { name: "together", reads: vec![Read::ById(0), Read::Together { doc: 1, holds: 0 }], ..queries() }
}

/// Inserts and removals, with an expiry.
pub(crate) fn insert_remove() -> Plan {
    Plan {
        name: "insert_remove",
        docs: vec![false, true],
        txs: vec![tx(0, &[(0, Op::Insert), (1, Op::Remove)]), tx(1, &[(1, Op::Update), (0, Op::Update)])],
        reads: vec![Read::ById(0), Read::ById(1)],
        faults: faults(|f| f.expiries = 1),
        ..Plan::default()
    }
}

/// Inserts and removals, with a restart and a late message.
pub(crate) fn insert_remove_restart() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages) = (1, deep(1)));
    Plan { name: "insert_remove_restart", reads: vec![], faults, ..insert_remove() }
}

/// One transaction writes to two collections, of which its record lists the second when it gets
/// there; its lease is found expired though it lives, and its client dies.
pub(crate) fn enlisting() -> Plan {
    Plan {
        name: "enlisting",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1])],
        enlists: true,
        faults: faults(|f| (f.expiries, f.client_deaths, f.late_messages) = (1, 1, 1)),
        ..Plan::default()
    }
}

/// The plan `enlisting` while the server restarts: the collections in a record are as volatile as
/// its stamps.
pub(crate) fn enlisting_restart() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.expiries, f.client_deaths) = (2, 1, 1));
    Plan { name: "enlisting_restart", faults, ..enlisting() }
}

/// The server refuses the last write after it has locked its document, an insert. The write is
/// undone, perhaps by a late message, and tried again. A rival wants the first document.
pub(crate) fn refused() -> Plan {
    let writes = vec![(0, Op::Update), (1, Op::Insert)];
    Plan {
        name: "refused",
        docs: vec![true, false],
        txs: vec![TxPlan { writes, refused: true, ..TxPlan::default() }, updates(1, &[0])],
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// Documents are deleted from outside while two transactions write to them; a lease is found
/// expired.
pub(crate) fn deleted() -> Plan {
    let faults = faults(|f| (f.deletions, f.expiries, f.client_deaths) = (1, deep(1), 1));
    Plan { name: "deleted", txs: vec![updates(0, &[0, 1]), updates(1, &[0])], faults, ..rivals() }
}

/// A document is deleted from outside and inserted again by another transaction; a message is late.
pub(crate) fn deleted_and_inserted() -> Plan {
    Plan {
        name: "deleted_and_inserted",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1]), tx(1, &[(0, Op::Insert)])],
        faults: faults(|f| (f.deletions, f.late_messages, f.expiries) = (1, 1, deep(1))),
        ..Plan::default()
    }
}

/// Documents expire while two transactions prolong them, one of which is in the other's way and may
/// be aborted.
pub(crate) fn expiring() -> Plan {
    let faults = faults(|f| (f.late_messages, f.aborts) = (deep(1), 1));
    Plan { name: "expiring", expires: true, txs: vec![updates(0, &[0, 1]), updates(1, &[1])], faults, ..rivals() }
}

/// Documents expire while one transaction prolongs them, the server restarts, a message is late and
/// the client dies.
pub(crate) fn expiring_restart() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages, f.client_deaths) = (1, 1, 1));
    Plan { name: "expiring_restart", expires: true, faults, ..restart_alone() }
}

/// One transaction prolongs documents that expire, and another removes them and inserts one.
pub(crate) fn expiring_and_removed() -> Plan {
    Plan {
        name: "expiring_and_removed",
        docs: vec![true, false],
        txs: vec![updates(0, &[0]), tx(1, &[(1, Op::Insert), (0, Op::Remove)])],
        expires: true,
        faults: faults(|f| f.expiries = 1),
        ..Plan::default()
    }
}

/// Writes outside transactions are about to make locks of clean documents, which say that they wait
/// to be inserted or removed for a transaction that is over. No transaction here removes anything.
pub(crate) fn forged(says: Op) -> Plan {
    let faults = faults(|f| (f.forgeries, f.expiries) = (2, 1));
    Plan { name: "forged", forged: Some(says), txs: vec![updates(0, &[0, 1]), updates(1, &[0])], faults, ..rivals() }
}

/// Clients that keep their records in another tx database meet the locks of two rivals.
pub(crate) fn strangers() -> Plan {
    Plan { name: "strangers", faults: faults(|f| (f.strangers, f.expiries) = (2, 1)), ..rivals() }
}
