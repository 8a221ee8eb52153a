//! Rules that hold whichever client was faster: counters that miss no acknowledged step, at least
//! one doctor on call, one document for each unique value.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use futures_util::future::join_all;
use mongotx::{Collection, ErrorKind, IndexModel, Isolation, Result, ReturnDocument, Session, TransactionOptions};

use super::{End, Member, assert_clean, crew, step_aside};
use crate::random::Random;

/// Acknowledged steps, and those of which the outcome is not known.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) done: AtomicI64,
    unknown: AtomicI64,
    commits: AtomicUsize,
}

impl Counts {
    fn assert_is(&self, count: i64) {
        let (done, unknown) = (self.done.load(SeqCst), self.unknown.load(SeqCst));
        println!("{done} acknowledged, {unknown} unknown, {count} there");
        assert!((done..=done + unknown).contains(&count), "{done} acknowledged, {unknown} unknown, {count} there");
    }
}

/// Six tasks run transactions of `isolation` until the time is over: each what `one` does in its
/// session. It answers what a commit of it adds.
pub(super) async fn work<F, Fut>(crew: &[Member], isolation: Isolation, one: F) -> Arc<Counts>
where
    F: Fn(usize, Collection<Document>, Session, Random) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = (Result<i64>, Session, Random)> + Send + 'static,
{
    let (counts, until) = (Arc::new(Counts::default()), End::of_run());
    let tasks = (0..6).map(|nth| {
        let Member { client, coll } = &crew[nth % crew.len()];
        let (counts, client, coll, one) = (Arc::clone(&counts), client.clone(), coll.clone(), one.clone());
        tokio::spawn(async move {
            let mut random = Random::of_seed(nth as u64);
            let mut refusals = 0;
            while !until.is_reached(counts.commits.load(SeqCst)) {
                let lock_wait = *random.pick(&[Duration::ZERO, Duration::from_millis(100)]);
                let options =
                    TransactionOptions { isolation: Some(isolation), lock_wait, ..TransactionOptions::default() };
                let mut session = client.session_with(options);
                session.begin().unwrap();
                let (steps, mut session, after) = one(nth, coll.clone(), session, random).await;
                random = after;
                let (steps, done) = match steps {
                    Ok(steps) => (steps, session.commit().await),
                    Err(error) => (0, Err(error)),
                };
                match done {
                    Ok(()) => {
                        refusals = 0;
                        counts.commits.fetch_add(1, SeqCst);
                        counts.done.fetch_add(steps, SeqCst);
                    }
                    Err(error) if error.kind() == ErrorKind::Indeterminate => {
                        counts.unknown.fetch_add(steps, SeqCst);
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                        refusals += 1;
                        step_aside(refusals, &mut random).await;
                    }
                }
            }
        })
    });
    for done in join_all(tasks).await {
        done.unwrap();
    }
    assert_clean(crew).await;
    assert!(counts.commits.load(SeqCst) > 0, "no transaction committed");
    counts
}

async fn n_of(coll: &Collection<Document>, filter: Document) -> i64 {
    coll.find_one(filter).await.unwrap().unwrap().get_i64("n").unwrap()
}

async fn read_and_write_back(isolation: Isolation) {
    let crew = crew(4).await;
    crew[0].coll.insert_one(&doc! {"_id": 1, "n": 0_i64}).await.unwrap();
    let counts = work(&crew, isolation, |_, coll, mut session, random| async move {
        let step = async {
            let n = coll.find_one(doc! {"_id": 1}).session(&mut session).await?.unwrap().get_i64("n").unwrap();
            coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": n + 1}}).session(&mut session).await?;
            Ok(1)
        };
        (step.await, session, random)
    });
    counts.await.assert_is(n_of(&crew[0].coll, doc! {}).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_are_read_and_written_back_at_repeatable_read() {
    read_and_write_back(Isolation::RepeatableRead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_are_read_and_written_back_at_snapshot() {
    read_and_write_back(Isolation::Snapshot).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_that_are_read_and_written_back_at_serializable() {
    read_and_write_back(Isolation::Serializable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_by_find_and_modify_and_by_upserts() {
    let crew = crew(4).await;
    crew[0].coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    let counts = work(&crew, Isolation::ReadCommitted, |_, coll, mut session, mut random| async move {
        let step = async {
            let (k, add) = (random.between(1, 2), doc! {"$inc": {"n": 1_i64}});
            let before = match random.below(3) {
                // An operation that shows a counter shows it as it has become.
                0 => {
                    let ask = coll.find_one_and_update(doc! {"k": k}, add).upsert(true);
                    let shown = ask.return_document(ReturnDocument::After).session(&mut session).await?;
                    shown.unwrap().get_i64("n").unwrap() - 1
                }
                1 => {
                    coll.update_one(doc! {"k": k}, add).upsert(true).session(&mut session).await?;
                    0
                }
                _ => {
                    coll.update_many(doc! {"k": k}, add).upsert(true).session(&mut session).await?;
                    0
                }
            };
            assert!(before >= 0);
            if random.chance(5) {
                // A transaction begins anew, and takes back what was counted.
                let removed = coll.find_one_and_delete(doc! {"k": k}).session(&mut session).await?.unwrap();
                return Ok(1 - removed.get_i64("n").unwrap());
            }
            Ok(1)
        };
        (step.await, session, random)
    });
    let counts = counts.await;
    let mut sum = 0;
    for k in [1, 2] {
        let all = crew[0].coll.find(doc! {"k": k}).await.unwrap().try_collect().await.unwrap();
        assert!(all.len() <= 1, "{all:?}");
        sum += all.iter().map(|counter| counter.get_i64("n").unwrap()).sum::<i64>();
    }
    assert_eq!(counts.unknown.load(SeqCst), 0);
    counts.assert_is(sum);
}

/// A transaction that has counted two on call may leave; one always stays.
async fn somebody_is_always_on_call(isolation: Isolation) {
    let crew = crew(4).await;
    for id in 0..3 {
        crew[0].coll.insert_one(&doc! {"_id": id, "on": true}).await.unwrap();
    }
    let counts = work(&crew, isolation, |nth, coll, mut session, mut random| async move {
        let step = async {
            let on = || doc! {"on": true};
            let count = match random.below(3) {
                0 => coll.count_documents(on()).session(&mut session).await?,
                1 => coll.distinct("_id", on()).session(&mut session).await?.len() as u64,
                _ => coll.find(on()).session(&mut session).await?.try_collect().await?.len() as u64,
            };
            assert!(count > 0, "no doctor was on call");
            let change = match count {
                1 => doc! {"$set": {"on": true}},
                _ => doc! {"$set": {"on": false}},
            };
            coll.update_one(doc! {"_id": (nth % 3) as i32}, change).session(&mut session).await?;
            Ok(1)
        };
        (step.await, session, random)
    });
    counts.await;
    assert!(crew[0].coll.count_documents(doc! {"on": true}).await.unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_is_always_on_call_at_repeatable_read() {
    somebody_is_always_on_call(Isolation::RepeatableRead).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_is_always_on_call_at_serializable() {
    somebody_is_always_on_call(Isolation::Serializable).await;
}
