//! Tests that each commit counts exactly once, and that its outcome is known, although the servers
//! that got it are killed: clients ask the next life of the server what became of it.
//!
//! No entry of the log is removed here, so that the next life can always tell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use dtranx::client::Client;

use crate::limit::Limit;
use crate::processes::trio::Trio;

const CLIENTS: usize = 4;
/// Time limit of a request, in milliseconds: many times what an election or a restart takes.
const REQUEST_MS: u64 = 60_000;
const ROUNDS: usize = 6;

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_be_bytes(*value.first_chunk().unwrap()))
}

fn own_key(client: usize) -> String {
    format!("counter of client {client}")
}

/// Adds one to the client's own counter and to that of all, again and again. Every increment has an
/// outcome: it is made when this returns, or the test fails.
fn count(client: &Client, own: &str, over: &AtomicBool, made: &AtomicU64) {
    while !over.load(Ordering::SeqCst) {
        let increment = client.transact(|tranx| {
            for key in [own, "counter of all"] {
                let next = number(tranx.get(key.to_owned())?) + 1;
                tranx.put(key.to_owned(), next.to_be_bytes().to_vec())?;
            }
            Ok(())
        });
        increment.unwrap();
        made.fetch_add(1, Ordering::SeqCst);
    }
}

/// Waits until each client has made ten increments more.
fn wait_for_more(made: &[AtomicU64]) {
    for made in made {
        let before = made.load(Ordering::SeqCst);
        while made.load(Ordering::SeqCst) < before + 10 {
            thread::yield_now();
        }
    }
}

/// Kills the servers that are picked while clients count, every other time after their answers were
/// lost for a moment, and compares the counters with what was made.
fn count_over(trio: &mut Trio, pick: impl Fn(&Trio, usize) -> usize) {
    let (over, made) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; CLIENTS]);
    thread::scope(|scope| {
        for (at, made) in made.iter().enumerate() {
            let (client, over) = (trio.client(REQUEST_MS), &over);
            scope.spawn(move || count(&client, &own_key(at), over, made));
        }
        for round in 0..ROUNDS {
            wait_for_more(&made);
            let lost = pick(trio, round);
            if round % 2 == 0 {
                trio.kill_unheard(lost)
            } else {
                trio.kill(lost)
            }
            trio.run(lost);
        }
        wait_for_more(&made);
        over.store(true, Ordering::SeqCst);
    });
    let client = trio.client(REQUEST_MS);
    let made = made.map(AtomicU64::into_inner);
    let counted: Vec<u64> = (0..CLIENTS).map(|at| number(client.get(own_key(at)).unwrap())).collect();
    assert_eq!((&counted[..], number(client.get("counter of all").unwrap())), (&made[..], made.iter().sum()));
}

#[test]
fn increments_count_once_over_elections() {
    let _limit = Limit::of(500, "increment");
    count_over(&mut Trio::that_keeps_its_log(true), |trio, _| trio.leader());
}

#[test]
fn increments_count_once_over_restarts() {
    let _limit = Limit::of(500, "increment");
    count_over(&mut Trio::that_keeps_its_log(false), |_, round| round % 3);
}
