//! Sums beside writers of the same client, which are of one moment.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::{Duration, Instant},
};

use bson::{Document, doc};
use mongotx::{Client, Collection, Isolation};

use super::{LONG, Stage, begun};
use crate::quiet;

/// Audits that are committed while the same client writes, and those of them that ask nothing.
const AUDITS: u64 = 150;
const UNASKED_AUDITS: u64 = 10;
/// Documents of which a plain writer raises first one and then the other.
const AHEAD: i32 = 1;
const BEHIND: i32 = 2;
/// Accounts between which money is moved.
const FROM: i32 = 3;
const TO: i32 = 4;

/// A moment in which audits get through.
async fn breathe(nth: u64) {
    tokio::time::sleep(Duration::from_millis(nth % 20)).await;
}

async fn raise_in_turn(coll: &Collection<Document>, stop: &AtomicBool) {
    for nth in 0.. {
        for id in [AHEAD, BEHIND] {
            coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).await.unwrap();
        }
        if stop.load(SeqCst) {
            return;
        }
        breathe(nth).await;
    }
}

async fn move_money(client: &Client, coll: &Collection<Document>, stop: &AtomicBool) {
    for nth in 0.. {
        let mut session = begun(client, Isolation::ReadCommitted);
        for (id, by) in [(FROM, -1), (TO, 1)] {
            let moved = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": by}}).session(&mut session).await;
            moved.unwrap();
        }
        session.commit().await.unwrap();
        if stop.load(SeqCst) {
            return;
        }
        breathe(nth).await;
    }
}

/// Numbers that a transaction has read in these documents, in this order, if it was committed.
async fn audit(client: &Client, coll: &Collection<Document>, ids: [i32; 2], by_key: bool) -> Option<[i32; 2]> {
    let (mut session, mut found) = (begun(client, Isolation::Snapshot), [0; 2]);
    for (id, found) in ids.into_iter().zip(&mut found) {
        let filter = if by_key {
            doc! {"k": id}
        } else {
            doc! {"_id": id}
        };
        let document = coll.find_one(filter).session(&mut session).await.ok()??;
        *found = document.get_i32("n").unwrap();
    }
    session.commit().await.ok().map(|()| found)
}

/// Nothing of this is to be seen in two moments, however many of the audits are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audits_beside_writes_of_the_same_client_are_of_one_moment() {
    let (stage, stop) = (Stage::start().await, AtomicBool::new(false));
    let (client, raised, money) = (&stage.client, &stage.coll, quiet::collection(&stage.client, 0).await);
    for id in [FROM, TO] {
        money.insert_one(&doc! {"_id": id, "k": id, "n": 0}).await.unwrap();
    }
    let (before, begun) = (client.metrics().validations_unasked, Instant::now());
    let audits = async {
        let (mut committed, mut nth) = (0, 0);
        let is_enough =
            |committed| committed >= AUDITS && client.metrics().validations_unasked >= before + UNASKED_AUDITS;
        while !is_enough(committed) {
            assert!(begun.elapsed() < 3 * LONG, "{committed} are committed: {:?}", client.metrics());
            nth += 1;
            let by_key = nth % 2 == 0;
            if let Some([ahead, behind]) = audit(client, raised, [AHEAD, BEHIND], by_key).await {
                assert!((0..=1).contains(&(ahead - behind)), "{ahead} and {behind} were never there together");
                committed += 1;
            }
            if let Some([from, to]) = audit(client, &money, [FROM, TO], by_key).await {
                assert_eq!(from + to, 0, "{from} and {to} were never there together");
                committed += 1;
            }
        }
        stop.store(true, SeqCst);
    };
    tokio::join!(audits, raise_in_turn(raised, &stop), move_money(client, &money, &stop));
}
