//! Reads inside transactions hold in every state that each plan can reach; each deliberate breakage
//! is found, under a plan that holds without it.

use protocol_model::reading::{
    Breakage, Faults,
    Op::{Read, Remove, Write},
    Plan, TxPlan, explore,
};

use crate::expect::{expect_holds, expect_violation};

use self::plans::*;

fn holds(plan: Plan, events: &[&str]) {
    expect_holds(&explore(plan), events);
}

fn fails(plan: Plan, breakage: Breakage, property: &str) {
    expect_violation(&explore(plan.broken(breakage)), property);
}

mod plans {
    use super::*;

    fn repeatable(ops: Vec<protocol_model::reading::Op>) -> TxPlan {
        TxPlan { ops, repeatable: true }
    }

    fn committed(ops: Vec<protocol_model::reading::Op>) -> TxPlan {
        TxPlan { ops, repeatable: false }
    }

    /// A reader, and a rival that writes both documents.
    pub(super) fn reader_and_writer() -> Plan {
        Plan {
            name: "reader_and_writer",
            docs: 2,
            txs: vec![repeatable(vec![Read(vec![0, 1]), Read(vec![0, 1])]), committed(vec![Write(0), Write(1)])],
            ..Plan::default()
        }
    }

    /// A reader finds the document held by one rival, and free when it looks; another rival writes
    /// it afterwards.
    pub(super) fn reader_between() -> Plan {
        let writer = committed(vec![Write(0)]);
        Plan {
            name: "reader_between",
            docs: 1,
            txs: vec![repeatable(vec![Read(vec![0])]), writer.clone(), writer],
            ..Plan::default()
        }
    }

    /// The same plan, and the documents that were read are changed afterwards.
    pub(super) fn counter_between() -> Plan {
        let mut plan = reader_between();
        (plan.name, plan.docs) = ("counter_between", 2);
        plan.txs[0].ops.push(Write(1));
        plan
    }

    /// Two transactions read a document and write a value that depends on the one they read.
    pub(super) fn counters() -> Plan {
        Plan {
            name: "counters",
            docs: 1,
            txs: vec![repeatable(vec![Read(vec![0]), Write(0)]), repeatable(vec![Read(vec![0]), Write(0)])],
            faults: Faults { aborts: 1, restarts: 1 },
            ..Plan::default()
        }
    }

    /// Two transactions read (or count) the same two documents, and each writes one of them.
    pub(super) fn skew() -> Plan {
        Plan {
            name: "skew",
            docs: 2,
            txs: vec![repeatable(vec![Read(vec![0, 1]), Write(0)]), repeatable(vec![Read(vec![0, 1]), Write(1)])],
            faults: Faults { aborts: 1, restarts: 0 },
            ..Plan::default()
        }
    }

    /// A rival removes the document between its selection and its reading.
    pub(super) fn removed() -> Plan {
        Plan {
            name: "removed",
            docs: 2,
            txs: vec![repeatable(vec![Read(vec![0, 1]), Read(vec![0, 1])]), committed(vec![Remove(0), Write(1)])],
            faults: Faults { aborts: 1, restarts: 0 },
            ..Plan::default()
        }
    }

    /// A transaction at read committed is ended by others, or by a restart, and reads on.
    pub(super) fn doomed() -> Plan {
        Plan {
            name: "doomed",
            docs: 2,
            txs: vec![committed(vec![Write(0), Read(vec![0, 1]), Read(vec![1])]), committed(vec![Write(1), Write(0)])],
            faults: Faults { aborts: 1, restarts: 1 },
            ..Plan::default()
        }
    }

    /// The plan `doomed` at repeatable read.
    pub(super) fn doomed_reader() -> Plan {
        Plan {
            name: "doomed_reader",
            txs: vec![repeatable(vec![Read(vec![0]), Read(vec![0, 1])]), committed(vec![Write(0), Write(1)])],
            ..doomed()
        }
    }
}

#[test]
fn readers_and_writers_hold() {
    holds(reader_and_writer(), &["all commit", "a statement skips a document"]);
    holds(reader_between(), &["all commit", "a statement skips a document"]);
    holds(counter_between(), &["all commit", "a statement skips a document"]);
    holds(counters(), &["all commit", "a statement skips a document", "a transaction loses its locks"]);
    holds(skew(), &["a statement skips a document", "a transaction loses its locks"]);
}

#[test]
fn removals_hold() {
    holds(removed(), &["all commit", "a statement skips a document"]);
}

#[test]
fn doomed_transactions_hold() {
    holds(doomed(), &["all commit", "a transaction loses its locks"]);
    holds(doomed_reader(), &["all commit", "a statement skips a document", "a transaction loses its locks"]);
}

#[test]
fn taken_for_removed_is_found() {
    fails(reader_between(), Breakage::TakenForRemoved, "R2");
    fails(counter_between(), Breakage::TakenForRemoved, "R2");
}

#[test]
fn selection_answers_is_found() {
    fails(reader_and_writer(), Breakage::SelectionAnswers, "R1");
    fails(skew(), Breakage::SelectionAnswers, "R2");
}

#[test]
fn lost_read_lock_passes_is_found() {
    fails(counters(), Breakage::LostReadLockPasses, "R4");
}

#[test]
fn readers_ignored_is_found() {
    fails(skew(), Breakage::ReadersIgnored, "R2");
}

#[test]
fn doomed_answers_is_found() {
    fails(doomed(), Breakage::DoomedAnswers, "R3");
    fails(doomed_reader(), Breakage::DoomedAnswers, "R3");
}

#[test]
fn checked_before_reading_is_found() {
    fails(doomed(), Breakage::CheckedBeforeReading, "R3");
}

#[test]
fn restart_unnoticed_is_found() {
    fails(doomed(), Breakage::RestartUnnoticed, "R3");
}
