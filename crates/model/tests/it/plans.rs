//! The plans that are explored, each small enough to be explored completely.
#![allow(dead_code, unreachable_pub)]

use model::{Faults, Op, Plan, Read, TxPlan};

fn tx(client: usize, writes: &[(usize, Op)]) -> TxPlan {
    TxPlan { client, writes: writes.to_vec(), together: false, takes_over: false }
}

fn updates(client: usize, docs: &[usize]) -> TxPlan {
    TxPlan { client, writes: docs.iter().map(|doc| (*doc, Op::Update)).collect(), together: false, takes_over: false }
}

fn faults(set: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    set(&mut faults);
    faults
}

/// Two clients change the same two documents, in opposite order.
pub fn rivals() -> Plan {
    Plan {
        name: "rivals",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[1, 0])],
        ..Plan::default()
    }
}

/// One of two rivals sends its writes together.
pub fn sent_together() -> Plan {
    let together = TxPlan { together: true, ..updates(0, &[0, 1, 2]) };
    Plan {
        name: "sent_together",
        docs: vec![true, true, true],
        txs: vec![together, updates(1, &[1])],
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// The same while the server restarts.
pub fn sent_together_restart() -> Plan {
    let together = TxPlan { together: true, ..updates(0, &[0, 1]) };
    Plan {
        name: "sent_together_restart",
        docs: vec![true, true],
        txs: vec![together, updates(1, &[0])],
        faults: faults(|f| (f.server_crashes, f.kills) = (1, 1)),
        ..Plan::default()
    }
}

/// Two transactions of one client: the second takes over what the first has left, if it comes before it is finished.
fn taking_over(first: &[usize], second: &[usize], together: bool) -> Vec<TxPlan> {
    vec![updates(0, first), TxPlan { takes_over: true, together, ..updates(0, second) }]
}

/// Documents change hands within a client; a message is late, and a lease is found expired.
pub fn taken_over() -> Plan {
    Plan {
        name: "taken_over",
        docs: vec![true, true],
        txs: taking_over(&[0, 1], &[1, 0], false),
        faults: faults(|f| (f.late_messages, f.expiries) = (1, 1)),
        ..Plan::default()
    }
}

/// The same with a rival, for whoever waits for the same documents.
pub fn taken_over_from_rivals() -> Plan {
    let mut txs = taking_over(&[0], &[0], false);
    txs.push(updates(1, &[0]));
    Plan { name: "taken_over_from_rivals", docs: vec![true], txs, faults: faults(|f| f.kills = 1), ..Plan::default() }
}

/// The same while the server restarts.
pub fn taken_over_restart() -> Plan {
    Plan {
        name: "taken_over_restart",
        docs: vec![true, true],
        txs: taking_over(&[0, 1], &[0, 1], true),
        faults: faults(|f| (f.server_crashes, f.client_deaths) = (1, 1)),
        ..Plan::default()
    }
}

/// Three clients change three documents in a ring.
pub fn ring() -> Plan {
    Plan {
        name: "ring",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[1, 2]), updates(2, &[2, 0])],
        ..Plan::default()
    }
}

/// Two rivals; the leases of both are found expired though they live, and one of them dies.
pub fn zombie() -> Plan {
    let faults = faults(|f| (f.expiries, f.client_deaths) = (2, 1));
    Plan { name: "zombie", faults, ..rivals() }
}

/// Two rivals, either of whom may kill one number of the other or find its lease expired.
pub fn kill() -> Plan {
    let faults = faults(|f| (f.kills, f.expiries, f.late_messages) = (1, 1, 1));
    Plan { name: "kill", faults, ..rivals() }
}

/// Two rivals, an expiry, a late message.
pub fn late() -> Plan {
    let faults = faults(|f| (f.late_messages, f.expiries) = (1, 1));
    Plan { name: "late", faults, ..rivals() }
}

/// Two late messages, and aborted numbers are forgotten at once.
pub fn late_and_forgotten() -> Plan {
    let faults = faults(|f| f.late_messages = 2);
    Plan { name: "late_and_forgotten", faults, prune_trace: true, ..rivals() }
}

/// One transaction changes two documents while the server restarts twice.
pub fn restart_alone() -> Plan {
    Plan {
        name: "restart_alone",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1])],
        faults: faults(|f| (f.server_crashes, f.late_messages) = (2, 1)),
        ..Plan::default()
    }
}

/// Two rivals, and the server restarts.
pub fn restart() -> Plan {
    Plan { name: "restart", faults: faults(|f| f.server_crashes = 1), ..rivals() }
}

/// The server restarts, and the lease of a live client is found expired; with one document in common.
pub fn restart_zombie() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.expiries) = (1, 1));
    Plan { name: "restart_zombie", faults, ..restart_late() }
}

/// The server restarts, and a client dies.
pub fn restart_death() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.client_deaths) = (1, 1));
    Plan { name: "restart_death", faults, ..rivals() }
}

/// The server restarts and one message is late, with one document in common.
pub fn restart_late() -> Plan {
    Plan {
        name: "restart_late",
        docs: vec![true, true],
        txs: vec![updates(0, &[0, 1]), updates(1, &[0])],
        faults: faults(|f| (f.server_crashes, f.late_messages) = (1, 1)),
        ..Plan::default()
    }
}

/// One transaction: two restarts, two late messages, and its lease is found expired.
pub fn restart_late_zombie() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages, f.expiries) = (2, 2, 1));
    Plan { name: "restart_late_zombie", faults, ..restart_alone() }
}

/// Two transactions of one client share its record writes; a third is a rival.
pub fn group() -> Plan {
    Plan {
        name: "group",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(0, &[2]), updates(1, &[0, 2])],
        faults: faults(|f| f.late_messages = 1),
        ..Plan::default()
    }
}

/// Two transactions of one client, while the server restarts and a message is late.
pub fn group_restart() -> Plan {
    Plan {
        name: "group_restart",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(0, &[2])],
        faults: faults(|f| (f.server_crashes, f.late_messages) = (2, 1)),
        ..Plan::default()
    }
}

/// Two transactions of one client, whose owner gives up after a restart or a late message.
pub fn group_gives_up() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages, f.give_ups) = (1, 1, 1));
    Plan { name: "group_gives_up", faults, ..group_restart() }
}

/// Two transactions of one client, of which a rival kills one.
pub fn group_kill() -> Plan {
    Plan {
        name: "group_kill",
        faults: faults(|f| (f.kills, f.late_messages) = (1, 1)),
        docs: vec![true, true],
        txs: vec![updates(0, &[0]), updates(0, &[1]), updates(1, &[0])],
        ..Plan::default()
    }
}

/// Two reads by id while two transactions of one client commit and finish and a third changes one document again.
pub fn reads() -> Plan {
    Plan {
        name: "reads",
        docs: vec![true, true, true],
        txs: vec![updates(0, &[0, 1]), updates(0, &[2]), updates(1, &[1])],
        reads: vec![Read::ById(0), Read::ById(1)],
        ..Plan::default()
    }
}

/// Two reads by id while clients are fenced, repaired by others, and their records removed.
pub fn reads_zombie() -> Plan {
    Plan {
        name: "reads_zombie",
        reads: vec![Read::ById(0), Read::ById(1)],
        faults: faults(|f| f.expiries = 1),
        ..rivals()
    }
}

/// Two reads by id while the server restarts.
pub fn reads_restart() -> Plan {
    Plan {
        name: "reads_restart",
        reads: vec![Read::ById(0), Read::ById(1)],
        faults: faults(|f| f.server_crashes = 1),
        txs: vec![updates(0, &[0, 1]), updates(1, &[1])],
        ..rivals()
    }
}

/// A read by id and a query, with an expiry.
pub fn queries() -> Plan {
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
pub fn together() -> Plan {
    Plan { name: "together", reads: vec![Read::ById(0), Read::Together { doc: 1, holds: 0 }], ..queries() }
}

/// Inserts and removals, with an expiry.
pub fn insert_remove() -> Plan {
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
pub fn insert_remove_restart() -> Plan {
    let faults = faults(|f| (f.server_crashes, f.late_messages) = (1, 1));
    Plan { name: "insert_remove_restart", reads: vec![], faults, ..insert_remove() }
}
