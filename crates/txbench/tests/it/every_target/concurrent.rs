//! Transfers by many clients at once.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::task::JoinSet;
use txbench::{
    error::{OpError, OpResult},
    targets::{Session, registry::Entry},
};

use crate::every_target::rig::{DOCS, Rig, begin, entries, increment, values};

const ACCOUNTS: i32 = 12;
const CLIENTS: u64 = 8;
const TRANSFERS: u32 = 40;

async fn transfer(session: &mut dyn Session, from: i32, to: i32, amount: i32) -> OpResult<()> {
    begin(session).await;
    session.update(DOCS, increment(from, -amount)).await?;
    session.update(DOCS, increment(to, amount)).await?;
    session.commit().await
}

/// Makes transfers until each has happened; returns the change that each account must show.
async fn client(mut session: Box<dyn Session>, seed: u64) -> Vec<i32> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut changes = vec![0; ACCOUNTS as usize];
    for _ in 0..TRANSFERS {
        let from = random.random_range(0..ACCOUNTS);
        let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let amount = random.random_range(1..100);
        loop {
            match transfer(&mut *session, from, to, amount).await {
                Ok(()) => break,
                Err(OpError::Conflict(_)) => {
                    tokio::time::sleep(Duration::from_millis(random.random_range(1..10))).await
                }
                Err(error) => panic!("{error}"),
            }
        }
        changes[from as usize] -= amount;
        changes[to as usize] += amount;
    }
    changes
}

/// Balances after transfers by many clients at once, and those that must be there.
pub(crate) async fn transfers(entry: &'static Entry) -> (Vec<i32>, Vec<i32>) {
    let rig = Rig::with(entry, ACCOUNTS).await;
    let mut clients = JoinSet::new();
    for seed in 0..CLIENTS {
        clients.spawn(client(rig.session().await, seed));
    }
    let mut expected = vec![0; ACCOUNTS as usize];
    while let Some(changes) = clients.join_next().await {
        expected.iter_mut().zip(changes.unwrap()).for_each(|(sum, change)| *sum += change);
    }
    let found = values(&rig).await;
    rig.end().await;
    (found, expected)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_transfer_happens_once_and_whole() {
    for entry in entries(&[]) {
        let (found, expected) = transfers(entry).await;
        assert_eq!(found, expected, "{}", entry.traits.name);
    }
}
