//! Tests of backups of real servers beside a writer, which are restored into other servers, and of
//! `dtranx scan` beside a writer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dtranx::client::Client;
use dtranx::core::KeyRange;

use crate::limit::Limit;
use crate::processes::commands::{dtranx, err, out};
use crate::processes::snapshots::Ends;
use crate::processes::trio::Trio;

const ACCOUNTS: u64 = 2500;
const EACH: u64 = 100;

fn account(number: u64) -> String {
    format!("account{number:05}")
}

fn open(client: &Client) {
    for chunk in 0..ACCOUNTS / 500 {
        let numbers = chunk * 500..(chunk + 1) * 500;
        client.transact(|tranx| numbers.clone().try_for_each(|at| tranx.put(account(at), EACH.to_string()))).unwrap();
    }
}

/// Moves money between accounts until `over` is set. Returns the number of payments.
fn pay(client: &Client, over: &AtomicBool) -> u64 {
    for payment in 0.. {
        let (from, to) = (account(payment * 7 % ACCOUNTS), account((payment * 13 + 1) % ACCOUNTS));
        let pay = |balance: &str, add: i64| (balance.parse::<i64>().unwrap() + add).to_string();
        client
            .transact(|tranx| {
                let found = tranx.multi_get([from.clone(), to.clone()])?;
                // A balance that was read as absent counts as zero; its transaction is refused at
                // commit if the read was stale.
                let bytes = |at: usize| found[at].clone().unwrap_or_else(|| "0".into());
                let text = |at: usize| String::from_utf8(bytes(at).to_vec()).unwrap();
                if from != to {
                    tranx.put(from.clone(), pay(&text(0), -1))?;
                    tranx.put(to.clone(), pay(&text(1), 1))?;
                }
                Ok(())
            })
            .unwrap();
        if over.load(Ordering::SeqCst) {
            return payment;
        }
    }
    0
}

/// Sum of the balances in lines of keys and values.
fn sum(lines: &str) -> i64 {
    assert_eq!(lines.lines().count() as u64, ACCOUNTS);
    lines.lines().map(|line| line.split_once('\t').unwrap().1.parse::<i64>().unwrap()).sum()
}

#[test]
fn scans_and_backups_beside_a_writer_are_of_one_moment_and_restored() {
    let _limit = Limit::of(300, "end of a command");
    let (trio, other) = (Trio::start("disk"), Trio::start("disk"));
    let folder = tempfile::tempdir().unwrap();
    let file = |number: usize| folder.path().join(format!("{number}.backup")).display().to_string();
    let client = trio.client(20_000);
    open(&client);
    let over = AtomicBool::new(false);
    let payments = thread::scope(|scope| {
        let ends = Ends(&over);
        let writer = scope.spawn(|| pay(&trio.client(20_000), &over));
        for number in 0..10 {
            let scanned = dtranx(Some(&trio), &["scan", "--limit", "100000"], "");
            assert!(scanned.status.success(), "{}", err(&scanned));
            assert_eq!(sum(&out(&scanned)), (ACCOUNTS * EACH) as i64);
            let made = dtranx(Some(&trio), &["backup", &file(number)], "");
            assert!(made.status.success() && out(&made).starts_with("2500 items, "), "{}", err(&made));
        }
        drop(ends);
        writer.join().unwrap()
    });
    assert!(payments > 20, "only {payments} payments were made meanwhile");
    let restored = dtranx(Some(&other), &["restore", &file(9)], "");
    assert!(restored.status.success() && out(&restored).starts_with("2500 items, "), "{}", err(&restored));
    let scanned = dtranx(Some(&other), &["scan", "--limit", "100000"], "");
    assert_eq!(sum(&out(&scanned)), (ACCOUNTS * EACH) as i64);
    let again = dtranx(Some(&other), &["restore", &file(0)], "");
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("the cluster is not empty: it has the key \"account00000\""), "{}", err(&again));
    other.client(20_000).put("other", "stays").unwrap();
    let replaced = dtranx(Some(&other), &["restore", "--replace", &file(0)], "");
    assert!(replaced.status.success(), "{}", err(&replaced));
    let all = other.client(20_000).scan(&KeyRange::all(), usize::MAX).unwrap().items;
    assert_eq!(all.len() as u64, ACCOUNTS + 1);
}

#[test]
fn bad_backups_are_refused_before_anything_is_written() {
    let _limit = Limit::of(300, "end of a command");
    let trio = Trio::start("disk");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("it.backup");
    let name = file.display().to_string();
    trio.client(20_000).put("a", "one").unwrap();
    assert!(dtranx(Some(&trio), &["backup", &name], "").status.success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    let there = dtranx(Some(&trio), &["backup", &name], "");
    assert_eq!(there.status.code(), Some(2));
    assert!(err(&there).contains("is there already"), "{}", err(&there));
    let whole = std::fs::read(&file).unwrap();
    trio.client(20_000).delete("a").unwrap();
    // The file's end takes 11 bytes, so the byte before it belongs to the items.
    let middle = whole.len() - 12;
    let damaged = [&whole[..middle], &[whole[middle] ^ 1], &whole[middle + 1..]].concat();
    let cases = [
        (whole[..whole.len() - 1].to_vec(), "it was cut off"),
        (damaged, "is damaged at byte"),
        (b"nothing of the kind".to_vec(), "this is no backup of dtranx"),
    ];
    for (bytes, expected) in cases {
        std::fs::write(&file, bytes).unwrap();
        let refused = dtranx(Some(&trio), &["restore", &name], "");
        assert!(refused.status.code() == Some(2) && err(&refused).contains(expected), "{}", err(&refused));
    }
    assert_eq!(out(&dtranx(Some(&trio), &["scan"], "")), "");
    let missing = dtranx(Some(&trio), &["restore", "/nowhere/it.backup"], "");
    assert!(missing.status.code() == Some(2) && err(&missing).contains("/nowhere/it.backup"), "{}", err(&missing));
}
