//! Tests of ranges that move all the time between three servers which are killed, paused and cut
//! off, while clients append to lists, or pay each other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dtranx::client::{Client, Error};
use dtranx::core::{Key, KeyRange, ServerId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::limit::Limit;
use crate::processes::appends::append_and_judge;
use crate::processes::trio::{REQUEST_MS, Trio};

/// Moves ranges between two lists' keys to servers, by chance, until `over` is set. Returns how
/// many moves were made.
fn move_around(client: &Client, seed: u64, over: &AtomicBool) -> u64 {
    let mut random = StdRng::seed_from_u64(seed);
    let mut made = 0;
    while !over.load(Ordering::Relaxed) || made < 10 {
        let mut list = || Key::new(format!("list{}", random.random_range(0..40))).unwrap();
        let ends = BTreeSet::from([list(), list()]);
        let (Some(first), Some(last)) = (ends.first(), ends.last()) else { continue };
        let range = KeyRange::through(first.clone(), last.clone());
        match client.move_range(&range, ServerId(random.random_range(1..=3)), |_| {}) {
            Ok(moved) => made += moved.transactions,
            Err(Error::Unknown(_) | Error::Unavailable { .. } | Error::GivenUp { .. } | Error::Refused(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    made
}

#[test]
fn torment_list_appends_beside_moves_are_strictly_serializable() {
    let _limit = Limit::of(300, "answer to a transaction");
    let mut trio = Trio::ranges("disk", ["", "list2", "list4"]);
    let clients = (0..3).map(|_| trio.client(REQUEST_MS)).collect();
    let (movers, reader) = ([trio.client(REQUEST_MS), trio.client(REQUEST_MS)], trio.client(20_000));
    let over = AtomicBool::new(false);
    append_and_judge(clients, &reader, || {
        let made: u64 = thread::scope(|scope| {
            let over = &over;
            let moving: Vec<_> = movers
                .iter()
                .zip(0..)
                .map(|(client, seed)| scope.spawn(move || move_around(client, seed, over)))
                .collect();
            trio.torment();
            over.store(true, Ordering::Relaxed);
            moving.into_iter().map(|mover| mover.join().unwrap()).sum()
        });
        assert!(made >= 20, "{made} moves");
    });
    // Each list is where the maps say, and at one server only.
    let map = reader.map().unwrap();
    let found = reader.scan(&KeyRange::all(), 10_000).unwrap().items;
    assert!(!found.is_empty() && map.pieces(&KeyRange::all()).len() > 3);
    for server in &reader.cluster().servers {
        assert_eq!(reader.status(server.id).unwrap().anomalies, 0);
    }
}
