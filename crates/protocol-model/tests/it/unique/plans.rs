//! The plans that are explored, each small enough to be explored completely.

use protocol_model::unique::{
    End, Faults, Op,
    Op::{Insert, Remove, Update},
    Plan, Sent, TxPlan,
    plan::NULL,
};

fn tx(ops: &[Op]) -> TxPlan {
    TxPlan { ops: ops.to_vec(), ..TxPlan::default() }
}

fn outside(op: Op) -> TxPlan {
    TxPlan { outside: true, ..tx(&[op]) }
}

fn swap() -> TxPlan {
    tx(&[Update(0, 9), Update(1, 1), Update(0, 2)])
}

fn chain() -> TxPlan {
    tx(&[Update(2, 4), Update(1, 3), Update(0, 2)])
}

/// Two inserts of one value.
pub(crate) fn same_inserts() -> Plan {
    Plan {
        name: "same_inserts",
        docs: vec![None, None],
        txs: vec![tx(&[Insert(0, 1)]), tx(&[Insert(1, 1)])],
        ..Plan::default()
    }
}

/// Two inserts of one value by one transaction.
pub(crate) fn same_inserts_alone() -> Plan {
    Plan { name: "same_inserts_alone", txs: vec![tx(&[Insert(0, 1), Insert(1, 1)])], ..same_inserts() }
}

/// Three inserts of different values, of which one is null: none meets another.
pub(crate) fn different_inserts() -> Plan {
    Plan {
        name: "different_inserts",
        docs: vec![None, None, None],
        txs: vec![tx(&[Insert(0, 1)]), tx(&[Insert(1, 2)]), tx(&[Insert(2, NULL)])],
        must_commit: true,
        ..Plan::default()
    }
}

/// An insert beside a document without the field.
pub(crate) fn insert_beside_null() -> Plan {
    Plan {
        name: "insert_beside_null",
        docs: vec![Some(NULL), None, None],
        txs: vec![tx(&[Insert(1, 1), Insert(2, 2)])],
        must_commit: true,
        ..Plan::default()
    }
}

/// Two inserts without the field, while the document that has none gets one.
pub(crate) fn nulls() -> Plan {
    Plan {
        name: "nulls",
        docs: vec![Some(NULL), None, None],
        txs: vec![tx(&[Update(0, 1)]), tx(&[Insert(1, NULL)]), tx(&[Insert(2, NULL)])],
        ..Plan::default()
    }
}

/// An insert against an update to the same value, while a third inserts the value that the update
/// gives up.
pub(crate) fn insert_update() -> Plan {
    Plan {
        name: "insert_update",
        docs: vec![None, Some(1), None],
        txs: vec![tx(&[Insert(0, 2)]), tx(&[Update(1, 2)]), tx(&[Insert(2, 1)])],
        ..Plan::default()
    }
}

/// A document moves to another value, and a rival inserts the old one.
pub(crate) fn move_away() -> Plan {
    Plan {
        name: "move_away",
        docs: vec![Some(1), None],
        txs: vec![tx(&[Update(0, 2)]), tx(&[Insert(1, 1)])],
        ..Plan::default()
    }
}

/// The same plan, and the move is rolled back.
pub(crate) fn move_back() -> Plan {
    let back = TxPlan { end: End::RollBack, ..tx(&[Update(0, 2)]) };
    Plan { name: "move_back", txs: vec![back, tx(&[Insert(1, 1)])], ..move_away() }
}

/// A document moves to another value, and a rival inserts the old one after another insert.
pub(crate) fn insert_after_move() -> Plan {
    Plan {
        name: "insert_after_move",
        docs: vec![Some(1), None, None],
        txs: vec![tx(&[Update(0, 2)]), tx(&[Insert(1, 3), Insert(2, 1)])],
        ..Plan::default()
    }
}

/// A document goes away and comes back within a transaction, while a rival inserts its value.
pub(crate) fn away_and_back() -> Plan {
    Plan {
        name: "away_and_back",
        txs: vec![tx(&[Update(0, 2), Update(0, 1)]), tx(&[Insert(1, 1)])],
        eager_janitor: true,
        ..move_away()
    }
}

/// A document is removed and inserted again, while a rival inserts its value and another its `_id`.
pub(crate) fn reinsert() -> Plan {
    Plan {
        name: "reinsert",
        txs: vec![tx(&[Remove(0), Insert(0, 1)]), tx(&[Insert(1, 1)]), tx(&[Insert(0, 2)])],
        ..move_away()
    }
}

/// A document is inserted, removed and inserted again, with a rival.
pub(crate) fn insert_twice() -> Plan {
    Plan {
        name: "insert_twice",
        txs: vec![tx(&[Insert(0, 1), Remove(0), Insert(0, 2)]), tx(&[Insert(1, 1), Update(1, 2)])],
        ..same_inserts()
    }
}

/// A value is removed in one document and inserted in another.
pub(crate) fn hand_over_alone() -> Plan {
    Plan {
        name: "hand_over_alone",
        txs: vec![tx(&[Remove(0), Insert(1, 1)])],
        must_commit: true,
        eager_janitor: true,
        ..move_away()
    }
}

/// The same plan, and rivals that want the value, one of them in the document that had it.
pub(crate) fn hand_over() -> Plan {
    Plan {
        name: "hand_over",
        docs: vec![Some(1), None, None],
        txs: vec![tx(&[Remove(0), Insert(1, 1)]), tx(&[Insert(2, 1)]), tx(&[Update(0, 3)])],
        ..Plan::default()
    }
}

/// Two values are swapped through a temporary one.
pub(crate) fn swap_alone() -> Plan {
    Plan {
        name: "swap_alone",
        docs: vec![Some(1), Some(2)],
        txs: vec![swap()],
        must_commit: true,
        eager_janitor: true,
        ..Plan::default()
    }
}

/// A swap, and a rival that inserts one of the values.
pub(crate) fn swap_insert() -> Plan {
    Plan {
        name: "swap_insert",
        docs: vec![Some(1), Some(2), None],
        txs: vec![swap(), tx(&[Insert(2, 1)])],
        eager_janitor: true,
        ..Plan::default()
    }
}

/// A swap, and a rival that inserts the temporary value.
pub(crate) fn swap_temporary() -> Plan {
    Plan { name: "swap_temporary", txs: vec![swap(), tx(&[Insert(2, 9)])], ..swap_insert() }
}

/// A swap, and rivals that change its documents: they repair in the middle of its finishing.
pub(crate) fn swap_repaired() -> Plan {
    Plan {
        name: "swap_repaired",
        docs: vec![Some(1), Some(2)],
        txs: vec![swap(), tx(&[Update(0, 3)]), tx(&[Update(1, 4)])],
        eager_janitor: true,
        ..Plan::default()
    }
}

/// Two transactions swap the same values.
pub(crate) fn swap_twice() -> Plan {
    Plan { name: "swap_twice", txs: vec![swap(), swap()], ..swap_repaired() }
}

/// Values move along a chain.
pub(crate) fn chain_alone() -> Plan {
    Plan {
        name: "chain_alone",
        docs: vec![Some(1), Some(2), Some(3)],
        txs: vec![chain()],
        must_commit: true,
        eager_janitor: true,
        ..Plan::default()
    }
}

/// Values move along a chain; one rival inserts the first of them, and another changes a document
/// of the chain.
pub(crate) fn chain_insert() -> Plan {
    Plan {
        name: "chain_insert",
        docs: vec![Some(1), Some(2), Some(3), None],
        txs: vec![chain(), tx(&[Insert(3, 1)]), tx(&[Update(1, 5)])],
        ..Plan::default()
    }
}

/// Writes outside a transaction, against one that moves a document to their value.
pub(crate) fn outside_insert() -> Plan {
    Plan { name: "outside_insert", txs: vec![tx(&[Update(0, 2)]), outside(Insert(1, 2))], ..move_away() }
}

/// A write outside a transaction moves a document away and another to the value that a transaction
/// inserts.
pub(crate) fn outside_update() -> Plan {
    Plan {
        name: "outside_update",
        docs: vec![Some(1), Some(2), None],
        txs: vec![outside(Update(0, 3)), outside(Update(1, 1)), tx(&[Insert(2, 1)])],
        ..Plan::default()
    }
}

/// A client dies anywhere in a swap, or its rival's.
pub(crate) fn dead() -> Plan {
    let faults = Faults { deaths: 1, ..Faults::default() };
    Plan { name: "dead", faults, ..swap_insert() }
}

/// A transaction that goes on after a duplicate, and a rival that wants the value that it had.
pub(crate) fn refused() -> Plan {
    let goes_on = TxPlan { goes_on: true, ..tx(&[Update(0, 3), Update(0, 2), Insert(2, 2)]) };
    Plan {
        name: "refused",
        docs: vec![Some(1), Some(2), None, None],
        txs: vec![goes_on, tx(&[Insert(3, 3)])],
        eager_janitor: true,
        ..Plan::default()
    }
}

/// Two clients die, two rivals are left.
pub(crate) fn dead_movers() -> Plan {
    let faults = Faults { deaths: 2, ..Faults::default() };
    Plan { name: "dead_movers", faults, ..insert_update() }
}

/// A transaction is rolled back while its client lives and goes on.
pub(crate) fn aborted() -> Plan {
    let faults = Faults { aborts: 1, ..Faults::default() };
    Plan { name: "aborted", faults, ..swap_insert() }
}

/// The same plan, with inserts that are removed, and a client that dies.
pub(crate) fn aborted_inserts() -> Plan {
    let faults = Faults { aborts: 1, deaths: 1 };
    Plan { name: "aborted_inserts", faults, eager_janitor: true, ..insert_twice() }
}

/// A swap, a value handed over and an insert, of which one may be rolled back, and one die.
pub(crate) fn crowd() -> Plan {
    Plan {
        name: "crowd",
        docs: vec![Some(1), Some(2), None],
        txs: vec![swap(), tx(&[Remove(0), Insert(2, 1)]), tx(&[Insert(2, 2)])],
        faults: Faults { aborts: 1, deaths: 1 },
        eager_janitor: true,
        ..Plan::default()
    }
}

/// Two updates that are sent together, beside rivals that insert the value that one of them gives
/// up, and the one that the other gets.
pub(crate) fn updates_together(sent: Sent) -> Plan {
    Plan {
        name: "updates_together",
        docs: vec![Some(1), Some(2), None, None],
        txs: vec![
            TxPlan { sent, ..tx(&[Update(0, 3), Update(1, 4)]) },
            tx(&[Insert(2, 4)]),
            TxPlan { end: End::RollBack, ..tx(&[Insert(3, 1)]) },
        ],
        ..Plan::default()
    }
}

/// Three updates that are sent together, of which a rival holds the second document, and goes away
/// from its value.
pub(crate) fn missed_together(sent: Sent) -> Plan {
    Plan {
        name: "missed_together",
        docs: vec![Some(1), Some(2), Some(3)],
        txs: vec![TxPlan { sent, ..tx(&[Update(0, 4), Update(1, 1), Update(2, 2)]) }, tx(&[Update(1, 5)])],
        eager_janitor: true,
        ..Plan::default()
    }
}

/// Two inserts that are sent together, beside a rival that moves another document to the value of
/// the second.
pub(crate) fn inserts_together() -> Plan {
    Plan {
        name: "inserts_together",
        docs: vec![Some(1), None, None],
        txs: vec![TxPlan { sent: Sent::Together, ..tx(&[Insert(1, 2), Insert(2, 3)]) }, tx(&[Update(0, 3)])],
        ..Plan::default()
    }
}

/// The value that the first statement wants is given up by the second, which is too late.
pub(crate) fn given_up_too_late(sent: Sent) -> Plan {
    Plan {
        name: "given_up_too_late",
        docs: vec![Some(1), Some(2)],
        txs: vec![TxPlan { sent, ..tx(&[Update(1, 1), Update(0, 3)]) }],
        ..Plan::default()
    }
}

/// Statements that are sent together, of a transaction that is rolled back, or whose client dies.
pub(crate) fn aborted_together() -> Plan {
    let faults = Faults { aborts: 1, deaths: 1 };
    Plan { name: "aborted_together", faults, eager_janitor: true, ..updates_together(Sent::Together) }
}
