//! The plans of validation that are explored, each small enough to be explored completely.

use protocol_model::validation::{
    Asks,
    Level::{Serializable, Snapshot},
    Op,
    Op::{Count, Insert, Key, Point, Remove, Scan, Write, WriteIf, WriteMany},
    Plan, Start, TxPlan,
    query::{ABSENT, ANY, ONE, Values, ZERO},
};

/// Documents of one collection, with these values.
fn docs(values: &[Values]) -> Vec<Start> {
    values.iter().map(|value| Start { ns: 0, value: *value }).collect()
}

fn snapshot(client: usize, ops: &[Op]) -> TxPlan {
    TxPlan { ops: ops.to_vec(), level: Snapshot, client, ..TxPlan::default() }
}

fn serializable(client: usize, ops: &[Op]) -> TxPlan {
    TxPlan { level: Serializable, ..snapshot(client, ops) }
}

/// A transaction at serializable that requests quiet before it reads.
fn quiet(client: usize, ops: &[Op]) -> TxPlan {
    TxPlan { asks: Asks::First, ..serializable(client, ops) }
}

fn then(after: usize, tx: TxPlan) -> TxPlan {
    TxPlan { after: Some(after), ..tx }
}

/// A reader of two documents, and a client whose transactions change both, there and back again.
pub(super) fn values_come_back() -> Plan {
    let both = |value| snapshot(1, &[Write(0, value), Write(1, value)]);
    Plan {
        name: "values_come_back",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![snapshot(0, &[Point(0), Point(1)]), both(ONE), then(1, both(ZERO)), then(2, both(ONE))],
        ..Plan::default()
    }
}

/// The plan `values_come_back` in two collections, one of which is changed again by itself.
pub(super) fn two_points() -> Plan {
    let mut plan = values_come_back();
    plan.name = "two_points";
    plan.docs[1].ns = 1;
    plan.txs.push(snapshot(2, &[Write(0, ONE)]));
    plan
}

/// A reader of a key and of a document beside it, and a client whose transactions move the key, and
/// change the document, there and back again. Stamps are of documents.
pub(super) fn moved_key() -> Plan {
    let moved = |from, to, value| snapshot(1, &[Write(from, ZERO), Write(to, ONE), Write(2, value)]);
    let beside = Start { ns: 1, value: ZERO };
    Plan {
        name: "moved_key",
        docs: [docs(&[ONE, ZERO]), vec![beside]].concat(),
        txs: vec![
            snapshot(0, &[Key(0), Point(2)]),
            moved(0, 1, ONE),
            then(1, moved(1, 0, ZERO)),
            then(2, moved(0, 1, ONE)),
        ],
        by_document: true,
        ..Plan::default()
    }
}

/// A reader of a key, which a client gives to a document now and then, together with a change of
/// the document beside it.
pub(super) fn key_comes_and_goes() -> Plan {
    let both = |value| snapshot(1, &[Write(0, value), Write(1, value)]);
    let mut plan = Plan { name: "key_comes_and_goes", by_document: true, ..values_come_back() };
    plan.docs[1].ns = 1;
    plan.txs = vec![snapshot(0, &[Key(0), Point(1)]), both(ONE), then(1, both(ZERO)), then(2, both(ONE))];
    plan
}

/// A reader of a key that moves behind its cursor: the reader may find no document with this key.
pub(super) fn torn_key() -> Plan {
    Plan {
        name: "torn_key",
        docs: docs(&[ZERO, ONE]),
        txs: vec![snapshot(0, &[Key(0)]), snapshot(1, &[Write(1, ZERO), Write(0, ONE)])],
        by_document: true,
        ..Plan::default()
    }
}

/// A reader of a key that stays where it is, and of another document; the document that has the key
/// is changed by itself, and others of its collection all the while.
pub(super) fn key_stays() -> Plan {
    Plan {
        name: "key_stays",
        docs: docs(&[ONE, ZERO, ZERO]),
        txs: vec![
            snapshot(0, &[Key(0), Point(1)]),
            snapshot(1, &[Write(0, ONE)]),
            snapshot(2, &[Remove(2)]),
            then(2, snapshot(2, &[Insert(2, ZERO)])),
        ],
        by_document: true,
        ..Plan::default()
    }
}

/// A reader of all documents with a value, and of a document beside them; another document gets the
/// value together with a change of that.
pub(super) fn another_matches() -> Plan {
    let both = |value| snapshot(1, &[Write(1, value), Write(2, value)]);
    Plan {
        name: "another_matches",
        docs: [docs(&[ONE, ZERO]), vec![Start { ns: 1, value: ZERO }]].concat(),
        txs: vec![snapshot(0, &[Scan(0, ONE), Point(2)]), both(ONE), then(1, both(ZERO)), then(2, both(ONE))],
        by_document: true,
        ..Plan::default()
    }
}

/// The same plan, and a restart may lose a decision, which is sent again.
pub(super) fn restarts() -> Plan {
    Plan { name: "restarts", restarts: 1, ..values_come_back() }
}

/// A reader of two documents, and one transaction that changes both.
pub(super) fn read_skew() -> Plan {
    Plan {
        name: "read_skew",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![snapshot(0, &[Point(0), Point(1)]), snapshot(1, &[Write(0, ONE), Write(1, ONE)])],
        ..Plan::default()
    }
}

/// A reader of one document, and a transaction that changes it twice.
pub(super) fn changed_twice() -> Plan {
    Plan {
        name: "changed_twice",
        docs: docs(&[ZERO]),
        txs: vec![snapshot(0, &[Point(0)]), snapshot(1, &[Write(0, ONE), Write(0, ZERO)])],
        ..Plan::default()
    }
}

/// A transaction that sends its reads again behind its insert; `behind` are the statements that
/// follow.
fn asks_ahead(behind: &[Op]) -> TxPlan {
    TxPlan { ahead: true, ..snapshot(0, &[&[Point(0), Point(1), Insert(2, ONE)], behind].concat()) }
}

/// A transaction commits behind its insert; a client changes what it has read, there and back
/// again.
pub(super) fn ahead_of_the_commit() -> Plan {
    let mut plan = values_come_back();
    plan.docs.push(Start { ns: 2, value: ABSENT });
    plan.txs[0] = asks_ahead(&[]);
    Plan { name: "ahead_of_the_commit", remembered: true, ..plan }
}

/// The transaction reads one more document behind its insert, or changes one, which the other
/// client changes together with what was read before.
pub(super) fn ahead_of_more(more: Op) -> Plan {
    let mut plan = ahead_of_the_commit();
    plan.docs.push(Start { ns: 3, value: ZERO });
    plan.txs = vec![asks_ahead(&[more]), snapshot(1, &[Write(0, ONE), Write(3, ONE)])];
    Plan { name: "ahead_of_more", ..plan }
}

/// The transaction commits behind its insert, beside a single write to what it has read, which sets
/// no stamp.
pub(super) fn ahead_of_a_single_write() -> Plan {
    let mut plan = ahead_of_the_commit();
    plan.txs.truncate(1);
    Plan { name: "ahead_of_a_single_write", directs: vec![(1, ONE)], ..plan }
}

/// A scan, and one transaction that moves two documents.
pub(super) fn torn_scan() -> Plan {
    Plan {
        name: "torn_scan",
        docs: docs(&[ZERO, ONE]),
        txs: vec![snapshot(0, &[Scan(0, ANY)]), snapshot(1, &[Write(0, ONE), Write(1, ZERO)])],
        ..Plan::default()
    }
}

/// A count, and a client that moves a document to and fro behind its cursor.
pub(super) fn moved_past_the_cursor() -> Plan {
    let moved = |value| snapshot(1, &[Write(0, value)]);
    Plan {
        name: "moved_past_the_cursor",
        docs: docs(&[ONE, ZERO]),
        txs: vec![snapshot(0, &[Count(0, ANY)]), moved(ZERO), then(1, moved(ONE)), then(2, moved(ZERO))],
        ..Plan::default()
    }
}

/// The same plan, and each of these transactions changes a document of another collection, too.
pub(super) fn two_collections() -> Plan {
    let mut plan = moved_past_the_cursor();
    plan.name = "two_collections";
    plan.docs.iter_mut().for_each(|doc| doc.ns = 1);
    plan.docs.push(Start { ns: 0, value: ZERO });
    plan.txs[0].ops = vec![Count(1, ANY)];
    plan.txs[1..].iter_mut().for_each(|tx| tx.ops.insert(0, Write(2, ONE)));
    plan
}

/// A reader of two collections, and a client that may decide its changes of both by one write, to
/// and fro.
pub(super) fn decided_together() -> Plan {
    let change = |doc, value| snapshot(1, &[Write(doc, value)]);
    Plan {
        name: "decided_together",
        docs: vec![Start { ns: 0, value: ZERO }, Start { ns: 1, value: ONE }, Start { ns: 1, value: ZERO }],
        txs: vec![
            snapshot(0, &[Count(1, ANY)]),
            change(1, ZERO),
            then(1, change(1, ONE)),
            then(2, change(0, ONE)),
            then(2, change(1, ZERO)),
        ],
        ..Plan::default()
    }
}

/// A transaction writes a value that depends on a document, which another transaction changes.
pub(super) fn read_then_write() -> Plan {
    Plan {
        name: "read_then_write",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![snapshot(0, &[Point(0), Write(1, ONE)]), snapshot(1, &[Write(0, ONE)])],
        ..Plan::default()
    }
}

/// A transaction scans, and sets a document to what the scan has found; another changes it.
pub(super) fn scan_then_write() -> Plan {
    Plan {
        name: "scan_then_write",
        docs: docs(&[ZERO, ONE]),
        txs: vec![snapshot(0, &[Scan(0, ZERO), Write(0, ZERO)]), snapshot(1, &[Write(0, ONE)])],
        ..Plan::default()
    }
}

/// Two transactions read a document by its `_id` and write values that depend on it.
pub(super) fn counters() -> Plan {
    let counter = |client| snapshot(client, &[Point(0), Write(0, ONE)]);
    Plan { name: "counters", docs: docs(&[ZERO]), txs: vec![counter(0), counter(1)], ..Plan::default() }
}

/// The plan `counters` with scans; one transaction sets the document to the value that the other
/// has read.
pub(super) fn scanned_counters() -> Plan {
    Plan {
        name: "scanned_counters",
        docs: docs(&[ZERO, ONE]),
        txs: vec![snapshot(0, &[Scan(0, ZERO), Write(0, ZERO)]), snapshot(1, &[Scan(0, ZERO), Write(0, ONE)])],
        ..Plan::default()
    }
}

/// Two transactions, each of which reads the document that the other writes.
pub(super) fn write_skew() -> Plan {
    Plan {
        name: "write_skew",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![serializable(0, &[Point(0), Write(1, ONE)]), serializable(1, &[Point(1), Write(0, ONE)])],
        ..Plan::default()
    }
}

/// Two doctors on duty: each counts the doctors, and leaves.
pub(super) fn roster(doctors: usize) -> Plan {
    let leaves = |doctor| serializable(doctor, &[Count(0, ONE), Write(doctor, ZERO)]);
    Plan { name: "roster", docs: docs(&vec![ONE; doctors]), txs: (0..doctors).map(leaves).collect(), ..Plan::default() }
}

/// Two transactions that each count documents and insert one.
pub(super) fn phantoms() -> Plan {
    let inserts = |client| serializable(client, &[Count(0, ONE), Insert(client, ONE)]);
    Plan { name: "phantoms", docs: docs(&[ABSENT, ABSENT]), txs: vec![inserts(0), inserts(1)], ..Plan::default() }
}

/// A reader beside two writers that have an order only without it.
pub(super) fn read_only_anomaly() -> Plan {
    Plan {
        name: "read_only_anomaly",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![
            serializable(0, &[Point(1), Write(0, ONE)]),
            serializable(1, &[Write(1, ONE)]),
            serializable(2, &[Point(0), Point(1)]),
        ],
        ..Plan::default()
    }
}

/// The same plan, with a reader that passes by the rivals that it meets.
pub(super) fn audit() -> Plan {
    let mut plan = read_only_anomaly();
    plan.name = "audit";
    plan.txs[2] = quiet(2, &[Scan(0, ANY)]);
    plan
}

/// The same plan, and the writer's decision depends on two documents.
pub(super) fn audited_reader() -> Plan {
    let mut plan = audit();
    plan.name = "audited_reader";
    plan.docs.push(Start { ns: 1, value: ZERO });
    plan.txs[0].ops = vec![Point(1), Point(2), Write(0, ONE)];
    (plan.txs[0].client, plan.txs[1].client) = (1, 0);
    plan
}

/// The plan of the audit, in which another reader sets quiet in another record.
pub(super) fn quiet_elsewhere() -> Plan {
    let mut plan = audit();
    plan.name = "quiet_elsewhere";
    plan.docs.push(Start { ns: 1, value: ZERO });
    plan.txs.push(then(2, quiet(3, &[Point(2)])));
    plan
}

/// A reader of two documents whose order in the validation is the other way round; one of them is
/// changed there and back again, the other is written by the transaction that has read the first in
/// between.
pub(super) fn disturbed_after_rivals() -> Plan {
    Plan {
        name: "disturbed_after_rivals",
        docs: vec![Start { ns: 0, value: ONE }, Start { ns: 1, value: ZERO }],
        txs: vec![
            serializable(0, &[Point(0), Point(1)]),
            then(2, serializable(1, &[Point(0), Write(1, ZERO)])),
            snapshot(2, &[Write(0, ZERO), Write(1, ONE)]),
            then(2, snapshot(2, &[Write(0, ONE)])),
        ],
        backwards: true,
        ..Plan::default()
    }
}

/// Returns the plan with quiet requested before the validation, where it is requested before the
/// first read.
pub(super) fn asked_late(mut plan: Plan) -> Plan {
    plan.txs.iter_mut().filter(|tx| tx.asks == Asks::First).for_each(|tx| tx.asks = Asks::Last);
    plan
}

/// The same in two collections, read by their `_id`s.
pub(super) fn audit_of_two() -> Plan {
    let mut plan = audit();
    plan.name = "audit_of_two";
    plan.docs[0].ns = 1;
    plan.txs[2].ops = vec![Point(0), Point(1)];
    plan
}

/// Two readers of everything, beside a writer whose decision depends on the documents that it has
/// read.
pub(super) fn two_audits() -> Plan {
    let mut plan = audit();
    plan.name = "two_audits";
    plan.txs.push(quiet(3, &[Point(0), Point(1)]));
    plan
}

/// Two transactions, each of which reads the document that the other writes, and passes it by.
pub(super) fn quiet_write_skew() -> Plan {
    let mut plan = write_skew();
    plan.name = "quiet_write_skew";
    plan.txs.iter_mut().for_each(|tx| tx.asks = Asks::First);
    plan
}

/// The same plan with a third transaction, which reads both documents.
pub(super) fn audited_write_skew() -> Plan {
    let mut plan = quiet_write_skew();
    plan.name = "audited_write_skew";
    plan.txs.push(quiet(2, &[Scan(0, ANY)]));
    plan
}

/// The same plan, with a reader of one document that begins after one of the two.
pub(super) fn one_document_afterwards() -> Plan {
    let mut plan = read_only_anomaly();
    plan.name = "one_document_afterwards";
    plan.txs[2] = then(1, serializable(2, &[Point(0)]));
    plan
}

/// A transaction at serializable beside two at snapshot that write.
pub(super) fn weaker_rivals() -> Plan {
    Plan {
        name: "weaker_rivals",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![
            snapshot(0, &[Point(1), Write(0, ONE)]),
            serializable(1, &[Scan(0, ANY), Write(1, ONE)]),
            snapshot(2, &[Write(0, ZERO)]),
        ],
        ..Plan::default()
    }
}

/// A transaction inserts, counts and inserts, beside a client that moves a document to and fro.
pub(super) fn own_view() -> Plan {
    let moved = |value| snapshot(1, &[Write(2, value)]);
    Plan {
        name: "own_view",
        docs: docs(&[ABSENT, ABSENT, ONE]),
        txs: vec![snapshot(0, &[Insert(0, ONE), Count(0, ONE), Insert(1, ONE)]), moved(ZERO), then(1, moved(ONE))],
        ..Plan::default()
    }
}

/// A transaction counts two documents of others in its own view and writes again; both are changed,
/// to and fro.
pub(super) fn converted() -> Plan {
    let moved = |values: [Values; 2]| snapshot(1, &[Write(1, values[0]), Write(2, values[1])]);
    Plan {
        name: "converted",
        docs: docs(&[ZERO, ONE, ZERO]),
        txs: vec![
            snapshot(0, &[Write(0, ONE), Count(0, ONE), Write(0, ZERO)]),
            moved([ZERO, ONE]),
            then(1, moved([ONE, ZERO])),
        ],
        ..Plan::default()
    }
}

/// A transaction counts in its own view a document that it then changes, beside a single write to
/// that document, which sets no stamp.
pub(super) fn converted_beside_a_single_write() -> Plan {
    Plan {
        name: "converted_beside_a_single_write",
        docs: docs(&[ZERO, ONE]),
        txs: vec![snapshot(0, &[Write(0, ONE), Count(0, ONE), Write(1, ONE)])],
        directs: vec![(1, ZERO)],
        ..Plan::default()
    }
}

/// An update of many documents, and a rival that makes one more match.
pub(super) fn one_more_matches() -> Plan {
    Plan {
        name: "one_more_matches",
        docs: docs(&[ONE, ZERO]),
        txs: vec![snapshot(0, &[WriteMany(0, ONE, ZERO)]), snapshot(1, &[Write(1, ONE)])],
        ..Plan::default()
    }
}

/// An update of many documents, and a client that makes one not match, and match again.
pub(super) fn matches_again() -> Plan {
    Plan {
        name: "matches_again",
        docs: docs(&[ONE, ONE]),
        txs: vec![
            snapshot(0, &[WriteMany(0, ONE, ZERO)]),
            snapshot(1, &[Write(0, ZERO)]),
            then(1, snapshot(1, &[Write(0, ONE)])),
        ],
        ..Plan::default()
    }
}

/// An update that matches nothing, and a rival that makes it match.
pub(super) fn nothing_matches() -> Plan {
    Plan {
        name: "nothing_matches",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![
            snapshot(0, &[WriteIf(0, ONE, ZERO), Write(1, ONE)]),
            snapshot(1, &[Write(0, ONE)]),
            snapshot(2, &[Remove(1)]),
        ],
        ..Plan::default()
    }
}

/// An insert that meets a duplicate, and a rival that removes it.
pub(super) fn duplicate() -> Plan {
    Plan {
        name: "duplicate",
        docs: docs(&[ONE, ZERO]),
        txs: vec![snapshot(0, &[Insert(0, ONE), Write(1, ONE)]), snapshot(1, &[Remove(0)])],
        ..Plan::default()
    }
}

/// The older reads what the younger has locked, and the younger wants what the older has locked.
pub(super) fn lock_waits() -> Plan {
    Plan {
        name: "lock_waits",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![serializable(0, &[Write(0, ONE), Point(1)]), serializable(1, &[Write(1, ONE), Write(0, ZERO)])],
        lock_waits: true,
        ..Plan::default()
    }
}

/// A reader of two documents, one transaction that changes both, and one single write.
pub(super) fn single_write() -> Plan {
    Plan { name: "single_write", directs: vec![(0, ZERO)], ..read_skew() }
}

/// A reader of two documents, and single writes that come back.
pub(super) fn single_writes_come_back() -> Plan {
    Plan {
        name: "single_writes_come_back",
        docs: docs(&[ZERO, ZERO]),
        txs: vec![snapshot(0, &[Point(0), Point(1)])],
        directs: vec![(0, ONE), (1, ONE), (0, ZERO), (1, ZERO), (0, ONE), (1, ONE)],
        ..Plan::default()
    }
}

/// Returns the plan with scans that read statuses before safe versions.
pub(super) fn one_by_one(plan: Plan) -> Plan {
    Plan { one_by_one: true, ..plan }
}

/// Returns the plan with clients that remember looks.
pub(super) fn remembered(plan: Plan) -> Plan {
    Plan { remembered: true, ..plan }
}

/// The same plan with all transactions in one client.
pub(super) fn of_one_client(mut plan: Plan) -> Plan {
    plan.txs.iter_mut().for_each(|tx| tx.client = 0);
    plan
}

/// The same plan with all transactions at serializable.
pub(super) fn stricter(mut plan: Plan) -> Plan {
    plan.txs.iter_mut().for_each(|tx| tx.level = Serializable);
    plan
}
