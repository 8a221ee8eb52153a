//! Tests of snapshots beside writers: every reader gets one, and each snapshot shows the state of
//! one moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use dtranx::client::{Client, Error, Result, Snapshot};
use dtranx::core::{KeyRange, Refusal};

use crate::limit::Limit;
use crate::processes::trio::{REQUEST_MS, Trio};

const ACCOUNTS: u64 = 40;
const EACH: u64 = 1000;

fn account(number: u64) -> Vec<u8> {
    format!("account{number:02}").into_bytes()
}

fn number(value: &Bytes) -> u64 {
    u64::from_be_bytes(*value.first_chunk().unwrap())
}

fn open(client: &Client) {
    client
        .transact(|tranx| (0..ACCOUNTS).try_for_each(|at| tranx.put(account(at), EACH.to_be_bytes().to_vec())))
        .unwrap();
}

/// Moves money between two accounts, and counts the payment at a key of its own in the same
/// transaction.
fn pay(client: &Client, payment: u64) -> Result<()> {
    let (from, to) = (payment * 7 % ACCOUNTS, (payment * 11 + 1) % ACCOUNTS);
    client.transact(|tranx| {
        let found = tranx.multi_get([account(from), account(to)])?;
        // A balance that was read as absent counts as zero; its transaction is refused at commit if
        // the read was stale.
        let balances: Vec<u64> = found.into_iter().map(|value| value.map_or(0, |value| number(&value))).collect();
        if from != to && balances[0] > 0 {
            tranx.put(account(from), (balances[0] - 1).to_be_bytes().to_vec())?;
            tranx.put(account(to), (balances[1] + 1).to_be_bytes().to_vec())?;
        }
        tranx.put("payments", payment.to_be_bytes().to_vec())
    })
}

/// Sum of all accounts, and the number of payments made.
fn audit(snapshot: &Snapshot) -> Result<(u64, u64)> {
    let found = snapshot.scan(&KeyRange::all(), usize::MAX)?;
    assert!(found.complete);
    let of = |prefix: &'static [u8]| found.items.iter().filter(move |(key, _)| key.starts_with(prefix));
    let sum = of(b"account").map(|(_, value)| number(value)).sum();
    Ok((sum, of(b"payments").map(|(_, value)| number(value)).sum()))
}

/// Ends the writers when it is dropped, even if a reader has failed.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Makes payments until `over` is set. `acknowledged` holds the number of the last acknowledged
/// payment.
fn write(client: &Client, over: &AtomicBool, acknowledged: &AtomicU64) {
    for payment in 1.. {
        match pay(client, payment) {
            Ok(()) => acknowledged.store(payment, Ordering::SeqCst),
            Err(Error::Unknown(_) | Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if over.load(Ordering::SeqCst) {
            break;
        }
    }
}

/// Audits a snapshot. It must show all payments that were acknowledged before, and no fewer than
/// the audit before.
fn read(client: &Client, acknowledged: &AtomicU64, seen: &mut u64) -> Result<()> {
    let before = acknowledged.load(Ordering::SeqCst);
    let (sum, payments) = client.read(audit)?;
    assert_eq!(sum, ACCOUNTS * EACH);
    assert!(payments >= before, "a snapshot that was begun after payment {before} shows {payments}");
    assert!(payments >= *seen, "a later snapshot shows {payments} payments, an earlier one {seen}");
    *seen = payments;
    Ok(())
}

#[test]
fn every_audit_beside_a_writer_succeeds_and_sees_one_moment() {
    let _limit = Limit::of(300, "answer to a payment");
    let trio = Trio::start("disk");
    let client = trio.client(20_000);
    open(&client);
    let (over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let ends = Ends(&over);
        let writer = scope.spawn(|| write(&trio.client(20_000), &over, &acknowledged));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let (client, mut seen) = (trio.client(20_000), 0);
                    (0..60).for_each(|_| read(&client, &acknowledged, &mut seen).unwrap());
                    seen
                })
            })
            .collect();
        let seen: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).max().unwrap();
        drop(ends);
        writer.join().unwrap();
        assert!(seen > 10, "only {seen} payments were made meanwhile");
    });
}

#[test]
fn snapshot_stays_as_it_is_while_everything_is_replaced_and_deleted() {
    let _limit = Limit::of(300, "answer to a payment");
    let trio = Trio::start("disk");
    let client = trio.client(20_000);
    // The keys of one server take more than one answer of a scan.
    for chunk in 0..5_u64 {
        let numbers = chunk * 900..(chunk + 1) * 900;
        client.transact(|tranx| numbers.clone().try_for_each(|at| tranx.put(format!("key{at:05}"), "old"))).unwrap();
    }
    let snapshot = client.snapshot().unwrap();
    for chunk in 0..5_u64 {
        client
            .transact(|tranx| {
                for at in chunk * 900..(chunk + 1) * 900 {
                    match at % 3 {
                        0 => tranx.put(format!("key{at:05}"), "new")?,
                        1 => tranx.delete(format!("key{at:05}"))?,
                        _ => {}
                    }
                }
                (0..100).try_for_each(|at| tranx.put(format!("more{chunk}{at}"), "new"))
            })
            .unwrap();
    }
    let found = snapshot.scan(&KeyRange::all(), usize::MAX).unwrap();
    assert!(found.complete && found.items.len() == 4500, "{}", found.items.len());
    assert!(found.items.iter().enumerate().all(|(at, (key, value))| *key == format!("key{at:05}") && value == "old"));
    let some = snapshot.multi_get(["key00001", "more00", "key04499"]).unwrap();
    assert_eq!(some, [Some(Bytes::from("old")), None, Some(Bytes::from("old"))]);
    assert!(!snapshot.scan(&KeyRange::all(), 1234).unwrap().complete);
    let later = client.snapshot().unwrap();
    assert!(later.epoch() > snapshot.epoch());
    assert_eq!(later.scan(&KeyRange::all(), usize::MAX).unwrap().items.len(), 3500);
}

#[test]
fn torment_audits_go_on_and_see_one_moment() {
    let _limit = Limit::of(300, "answer to a payment");
    let mut trio = Trio::start("disk");
    let client = trio.client(20_000);
    open(&client);
    let (over, acknowledged, audits) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let (writer, reader) = (trio.client(REQUEST_MS), trio.client(REQUEST_MS));
        let (over, acknowledged, audits) = (&over, &acknowledged, &audits);
        scope.spawn(move || write(&writer, over, acknowledged));
        scope.spawn(move || {
            let mut seen = 0;
            while !over.load(Ordering::SeqCst) || audits.load(Ordering::SeqCst) < 5 {
                match read(&reader, acknowledged, &mut seen) {
                    Ok(()) => drop(audits.fetch_add(1, Ordering::SeqCst)),
                    Err(Error::Unavailable { .. } | Error::GivenUp { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        });
        trio.torment();
        over.store(true, Ordering::SeqCst);
    });
    assert_eq!(client.read(audit).unwrap().0, ACCOUNTS * EACH);
    for server in &client.cluster().servers {
        assert_eq!(client.status(server.id).unwrap().anomalies, 0);
    }
}

#[test]
fn snapshot_of_before_a_restart_is_refused_by_name_and_a_missing_server_too() {
    let _limit = Limit::of(300, "answer to a payment");
    let mut trio = Trio::start("disk");
    let client = trio.client(20_000);
    open(&client);
    let snapshot = client.snapshot().unwrap();
    trio.kill(1);
    trio.run(1);
    match snapshot.scan(&KeyRange::all(), 100) {
        Err(Error::Refused(refusal @ Refusal::SnapshotTooOld { .. })) => {
            assert_eq!(refusal.to_string(), "snapshot too old: server 2 was restarted since");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(client.read(audit).unwrap().0, ACCOUNTS * EACH);
    // While one server is away there are no snapshots. Requests for one must not delay commits on
    // the other servers.
    trio.kill(2);
    let asker = dtranx::client::ClientOptions { attempts: 1, request_ms: 20_000, ..Default::default() };
    let asker = Client::connect(&trio.addresses()[..1], asker).unwrap();
    let asked = thread::spawn(move || {
        loop {
            // The request may also go to the server that is away, which counts as unavailable.
            match asker.snapshot() {
                Err(Error::GivenUp { last: refusal, .. }) => return refusal,
                Err(Error::Unavailable { .. }) => {}
                other => panic!("{:?}", other.map(|snapshot| snapshot.epoch())),
            }
        }
    });
    let there = (0..ACCOUNTS).map(account).find(|key| {
        let key = dtranx::core::Key::new(key.clone()).unwrap();
        client.cluster().partition.server_of(&key).0 == 1
    });
    client.put(there.unwrap(), EACH.to_be_bytes().to_vec()).unwrap();
    assert_eq!(asked.join().unwrap().to_string(), "server 3 did not answer in time");
}
