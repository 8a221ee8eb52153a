//! Documents that come and go under queries of a range: what is counted and summed there must be of
//! one moment.

use std::sync::atomic::Ordering::SeqCst;

use bson::{Bson, Document, doc};
use mongotx::{Collection, IndexModel, Isolation, Result, Session};

use super::{
    crew,
    rules::{Counts, work},
};
use crate::random::Random;

/// Worth of all coins together, wherever they are.
const WORTH: i64 = 600;
const COINS: i64 = 6;
/// Places are from 0 to here, in the order of an index.
const PLACES: i64 = 50;
/// Seats that may be taken.
const SEATS: u64 = 3;

fn coin(place: i64, n: i64) -> Document {
    doc! {"place": place, "n": n}
}

fn everywhere() -> Document {
    doc! {"place": {"$gte": 0}}
}

async fn worth(coll: &Collection<Document>, session: &mut Session, random: &mut Random) -> Result<i64> {
    if random.chance(50) {
        let sum = [doc! {"$match": everywhere()}, doc! {"$group": {"_id": 1, "n": {"$sum": "$n"}}}];
        let found = coll.aggregate(sum).session(session).await?.try_collect().await?;
        return Ok(found.first().map_or(0, |sum| sum.get_i64("n").unwrap()));
    }
    let found = coll.find(everywhere()).session(session).await?.try_collect().await?;
    Ok(found.iter().map(|coin| coin.get_i64("n").unwrap()).sum())
}

/// Takes a coin out of one place and puts as much into another: moved, or melted and struck again
/// under another `_id`.
async fn carry(coll: &Collection<Document>, session: &mut Session, random: &mut Random) -> Result<()> {
    let (from, to) = (random.below(PLACES as usize) as i64, random.below(PLACES as usize) as i64);
    let next = doc! {"place": {"$gte": from}};
    if random.chance(50) {
        coll.find_one_and_update(next, doc! {"$set": {"place": to}}).sort(doc! {"place": 1}).session(session).await?;
        return Ok(());
    }
    let Some(melted) = coll.find_one_and_delete(next).sort(doc! {"place": 1}).session(session).await? else {
        return Ok(());
    };
    coll.insert_one(&coin(to, melted.get_i64("n").unwrap())).session(session).await?;
    Ok(())
}

async fn worth_is_constant(isolation: Isolation) -> std::sync::Arc<Counts> {
    let crew = crew(4).await;
    crew[0].coll.create_index(IndexModel::new(doc! {"place": 1})).await.unwrap();
    for nth in 0..COINS {
        crew[0].coll.insert_one(&coin(nth * 8, WORTH / COINS)).await.unwrap();
    }
    let counts = work(&crew, isolation, move |nth, coll, mut session, mut random| async move {
        let step = async {
            if nth > 1 {
                carry(&coll, &mut session, &mut random).await?;
                return Ok(0);
            }
            // A wrong sum counts only if the transaction that has read it commits.
            let first = worth(&coll, &mut session, &mut random).await?;
            let second = worth(&coll, &mut session, &mut random).await?;
            Ok(i64::from((first, second) != (WORTH, WORTH)))
        };
        (step.await, session, random)
    });
    counts.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_over_documents_that_come_and_go_are_of_one_moment_at_snapshot() {
    let counts = worth_is_constant(Isolation::Snapshot).await;
    assert_eq!(counts.done.load(SeqCst), 0, "wrong sums were committed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_over_documents_that_come_and_go_are_of_one_moment_at_serializable() {
    let counts = worth_is_constant(Isolation::Serializable).await;
    assert_eq!(counts.done.load(SeqCst), 0, "wrong sums were committed");
}

/// Times that an anomaly is looked for which comes by chance.
const ATTEMPTS: usize = 20;

/// The same load without validation shows wrong sums.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sums_over_documents_that_come_and_go_are_wrong_at_read_committed() {
    for _ in 0..ATTEMPTS {
        if worth_is_constant(Isolation::ReadCommitted).await.done.load(SeqCst) > 0 {
            return;
        }
    }
    panic!("{ATTEMPTS} times no wrong sum was committed");
}

/// A transaction that counts a free seat takes it, by a document of its own; others get up. Returns
/// the most that ever were taken when a transaction counted, and how many are in the end.
async fn most_seats_taken(isolation: Isolation) -> u64 {
    let crew = crew(4).await;
    let counts = work(&crew, isolation, |nth, coll, mut session, mut random| async move {
        let step = async {
            let taken = coll.count_documents(doc! {"taken": true}).session(&mut session).await?;
            if taken < SEATS && random.chance(80) {
                let seat = doc! {"_id": Bson::from(bson::oid::ObjectId::new()), "taken": true, "by": nth as i32};
                coll.insert_one(&seat).session(&mut session).await?;
            } else {
                coll.delete_one(doc! {"taken": true}).session(&mut session).await?;
            }
            Ok(i64::from(taken > SEATS))
        };
        (step.await, session, random)
    });
    let over = counts.await.done.load(SeqCst) as u64;
    over + crew[0].coll.count_documents(doc! {"taken": true}).await.unwrap().saturating_sub(SEATS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_seat_too_many_is_taken_at_serializable() {
    assert_eq!(most_seats_taken(Isolation::Serializable).await, 0);
}
