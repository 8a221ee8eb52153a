//! Tests of a bank: payments between accounts on three servers, or in a group, never change the sum
//! of the balances.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use dtranx::client::{Client, Error};
use dtranx::core::KeyRange;

use crate::limit::Limit;
use crate::processes::trio::{REQUEST_MS, Trio};

const ACCOUNTS: u64 = 10;
const EACH: u64 = 50;

fn account(number: u64) -> Vec<u8> {
    format!("account{number}").into_bytes()
}

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(*value.first_chunk().unwrap()))
}

/// Moves one unit from one account to another, and writes the payment's number to a key of the
/// worker's own.
fn pay(client: &Client, worker: u64, from: u64, to: u64, payment: u64) -> Result<(), Error> {
    client.transact(|tranx| {
        let found = tranx.multi_get([account(from), account(to)])?;
        let balances: Vec<u64> = found.into_iter().map(number).collect();
        tranx.put(format!("worker{worker}"), payment.to_be_bytes().to_vec())?;
        if from != to && balances[0] > 0 {
            tranx.put(account(from), (balances[0] - 1).to_be_bytes().to_vec())?;
            tranx.put(account(to), (balances[1] + 1).to_be_bytes().to_vec())?;
        }
        Ok(())
    })
}

#[test]
fn torment_bank_keeps_its_money_and_every_acknowledged_payment() {
    let _limit = Limit::of(300, "answer to a payment");
    torment(Trio::start("disk"));
}

#[test]
fn torment_bank_of_a_group_keeps_its_money_and_every_acknowledged_payment() {
    let _limit = Limit::of(300, "answer to a payment");
    torment(Trio::group("disk"));
}

fn torment(mut trio: Trio) {
    let client = trio.client(20_000);
    client
        .transact(|tranx| (0..ACCOUNTS).try_for_each(|at| tranx.put(account(at), EACH.to_be_bytes().to_vec())))
        .unwrap();
    let over = AtomicBool::new(false);
    let acknowledged: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for worker in 0..3 {
            let (client, over, acknowledged) = (trio.client(REQUEST_MS), &over, &acknowledged[worker as usize]);
            scope.spawn(move || {
                let (mut payment, mut made) = (0, 0);
                // Each worker makes at least 20 payments, on a slow machine after the servers have
                // recovered.
                while !over.load(Ordering::Relaxed) || made < 20 {
                    payment += 1;
                    let from = (worker * 3 + payment * 5) % ACCOUNTS;
                    match pay(&client, worker, from, (from + payment) % ACCOUNTS, payment) {
                        Ok(()) => {
                            made += 1;
                            acknowledged.store(payment, Ordering::Relaxed);
                        }
                        Err(Error::Unknown(_) | Error::Unavailable { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        trio.torment();
        over.store(true, Ordering::Relaxed);
    });
    let found = client.scan(&KeyRange::all(), 100).unwrap().items;
    let sum: u64 =
        found.iter().filter(|(key, _)| key.starts_with(b"account")).map(|(_, value)| number(Some(value.clone()))).sum();
    assert_eq!(sum, ACCOUNTS * EACH);
    for (worker, acknowledged) in acknowledged.iter().enumerate() {
        let payments = number(client.get(format!("worker{worker}")).unwrap());
        let acknowledged = acknowledged.load(Ordering::Relaxed);
        // A payment without an answer may have been made after the last acknowledged one.
        assert!(payments >= acknowledged, "worker {worker}: {payments} < {acknowledged}");
    }
    for server in &client.cluster().servers {
        assert_eq!(client.status(server.id).unwrap().anomalies, 0);
    }
}
