//! The first document in an order, which a client that is alone finds and locks by one statement
//! (decision 0072).

use super::{LIMIT, Reader, UNFINISHED, finishing_after, started, until_unprobed};

use std::{
    collections::BTreeMap,
    future::poll_fn,
    pin::pin,
    task::Poll,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use mongotx::{ClientOptions, Collection, ErrorKind, Isolation, Session, Step, TransactionOptions};

use crate::quiet::{self, Gate, commands_of};

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot];

/// Removes the first of the documents with `n: 0`, by `k`, and answers its `_id`.
async fn take(coll: &Collection<Document>, session: &mut Session) -> mongotx::Result<Option<i32>> {
    let first = coll.find_one_and_delete(doc! {"n": 0}).sort(doc! {"k": 1}).session(session).await?;
    Ok(first.map(|first| first.get_i32("_id").unwrap()))
}

fn begun(reader: &Reader, isolation: Isolation) -> Session {
    let mut session = reader.client.session();
    session.begin_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() }).unwrap();
    session
}

async fn insert(coll: &Collection<Document>, session: &mut Session, id: i32, k: i32) {
    coll.insert_one(&doc! {"_id": id, "k": k, "n": 0}).session(session).await.unwrap();
}

/// Does something again until it answers true: a machine that stands still loses the lease.
async fn until_leased(reader: &Reader, mut is_done: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !is_done().await {
        assert!(begun.elapsed() < LIMIT, "never under a lease: {:?}", reader.client.metrics());
        until_unprobed(&reader.client, &reader.coll).await;
    }
}

/// At snapshot the commit does not ask whether it was the first: it reads nothing but stamps.
#[tokio::test]
async fn one_command_takes_the_first_at_each_level() {
    let server = started().await;
    let options = ClientOptions { count_commands: true, ..quiet::options() };
    let reader = Reader::on(&server, options).await.alone().await;
    for isolation in LEVELS {
        until_leased(&reader, async || {
            let (mut session, before) = (begun(&reader, isolation), reader.client.metrics());
            assert_eq!(take(&reader.coll, &mut session).await.unwrap(), Some(1));
            let second = async { assert_eq!(take(&reader.coll, &mut session).await.unwrap(), Some(2)) };
            let sent = commands_of(&reader.client, second).await;
            session.validate().await.unwrap();
            session.rollback().await.unwrap();
            assert!(reader.client.flush(LIMIT).await);
            let after = reader.client.metrics();
            let is_unasked = isolation != Isolation::Snapshot || after.validations_unasked > before.validations_unasked;
            sent == BTreeMap::from([("findAndModify".to_owned(), 1)]) && is_unasked
        })
        .await;
    }
}

/// Documents that the client has committed and not finished have their places in the order.
#[tokio::test]
async fn what_was_committed_a_moment_ago_is_the_first() {
    let server = started().await;
    let reader = Reader::on(&server, finishing_after(UNFINISHED)).await.alone().await;
    let unprobed = reader.client.metrics().unprobed;
    for (k, isolation) in LEVELS.into_iter().cycle().take(12).enumerate() {
        let (id, k) = (100 + k as i32, -(k as i32));
        let mut session = begun(&reader, isolation);
        insert(&reader.coll, &mut session, id, k).await;
        session.commit().await.unwrap();
        let mut session = begun(&reader, isolation);
        assert_eq!(take(&reader.coll, &mut session).await.unwrap(), Some(id), "{isolation:?}");
        session.commit().await.unwrap();
    }
    assert!(reader.client.metrics().unprobed > unprobed, "none of that was under the lease");
}

/// A sibling commits an earlier one after the statement was allowed, and before it is carried out.
/// The document that it finds is not the first, and does not stay changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_meanwhile_is_not_passed_over() {
    let server = started().await;
    for isolation in LEVELS {
        let gate = Gate::before(&[Step::BeforeLock]);
        let options = ClientOptions { hook: Some(gate.clone()), ..finishing_after(UNFINISHED) };
        let reader = Reader::on(&server, options).await.alone().await;
        until_leased(&reader, async || {
            let mut earlier = begun(&reader, isolation);
            insert(&reader.coll, &mut earlier, 100, 0).await;
            gate.shut();
            let taking = tokio::spawn({
                let (coll, mut session) = (reader.coll.clone(), begun(&reader, isolation));
                async move {
                    let taken = take(&coll, &mut session).await;
                    let taken = match taken {
                        Ok(taken) if isolation == Isolation::Snapshot => session.validate().await.map(|()| taken),
                        taken => taken,
                    };
                    drop(session.rollback().await);
                    taken
                }
            });
            gate.until_held().await;
            let in_vain = reader.client.metrics().unprobed_in_vain;
            earlier.commit().await.unwrap();
            gate.open();
            let taken = taking.await.unwrap();
            let was_leased = reader.client.metrics().unprobed_in_vain > in_vain;
            // As it was, for the next attempt.
            reader.coll.delete_one(doc! {"_id": 100}).await.unwrap();
            assert!(reader.client.flush(LIMIT).await);
            // Without the lease it had selected the first one before the other was committed.
            assert!(!was_leased || taken.is_err(), "{isolation:?}: {taken:?} although another one is the first");
            if let Err(refused) = taken {
                assert_eq!(refused.kind(), ErrorKind::Conflict, "{isolation:?}");
            }
            was_leased
        })
        .await;
        reader.client.shutdown().await.unwrap();
    }
}

/// The statement is not believed, and yet nothing stands before what it has found: documents at the
/// same place of the order do not, whether the order has one field or several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_meanwhile_behind_it_does_no_harm() {
    let server = started().await;
    for sort in [doc! {"n": 1}, doc! {"n": 1, "k": 1}] {
        let gate = Gate::before(&[Step::BeforeLock]);
        let options = ClientOptions { hook: Some(gate.clone()), ..finishing_after(UNFINISHED) };
        let reader = Reader::on(&server, options).await.alone().await;
        until_leased(&reader, async || {
            let mut later = begun(&reader, Isolation::ReadCommitted);
            insert(&reader.coll, &mut later, 100, 100).await;
            gate.shut();
            let taking = tokio::spawn({
                let (coll, mut session) = (reader.coll.clone(), begun(&reader, Isolation::ReadCommitted));
                let sort = sort.clone();
                async move {
                    let first = coll.find_one_and_delete(doc! {"n": 0}).sort(sort).session(&mut session).await;
                    let first = first.unwrap().unwrap().get_i32("k").unwrap();
                    session.rollback().await.unwrap();
                    first
                }
            });
            gate.until_held().await;
            let in_vain = reader.client.metrics().unprobed_in_vain;
            later.commit().await.unwrap();
            gate.open();
            let first = taking.await.unwrap();
            assert!(first == 1 || sort.len() == 1, "{sort}: {first}");
            reader.coll.delete_one(doc! {"_id": 100}).await.unwrap();
            assert!(reader.client.flush(LIMIT).await);
            reader.client.metrics().unprobed_in_vain > in_vain
        })
        .await;
        reader.client.shutdown().await.unwrap();
    }
}

/// A sibling holds the first: it is waited for, and not passed over.
#[tokio::test]
async fn a_first_that_a_sibling_holds_is_waited_for() {
    let server = started().await;
    let reader = Reader::on(&server, quiet::options()).await.alone().await;
    for isolation in LEVELS {
        until_leased(&reader, async || {
            let (mut sibling, waits) = (begun(&reader, Isolation::ReadCommitted), reader.client.metrics().waits);
            super::set(&reader.coll, &mut sibling, 1, 0).await;
            let mut session = reader.client.session();
            let isolation = Some(isolation);
            let patient = TransactionOptions { isolation, lock_wait: LIMIT, ..TransactionOptions::default() };
            session.begin_with(patient).unwrap();
            let (taken, ()) = tokio::join!(take(&reader.coll, &mut session), async {
                // Long enough for the statement to come first, nearly always.
                tokio::time::sleep(Duration::from_millis(20)).await;
                sibling.rollback().await.unwrap();
            });
            assert_eq!(taken.unwrap(), Some(1), "{isolation:?}");
            session.rollback().await.unwrap();
            reader.client.metrics().waits > waits
        })
        .await;
    }
}

/// A queue with several workers: no worker takes what another one has taken, and nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_take_each_document_once() {
    let server = started().await;
    let reader = Reader::on(&server, quiet::options()).await.alone().await;
    for isolation in LEVELS {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (client, coll) = (reader.client.clone(), reader.coll.clone());
                tokio::spawn(async move {
                    let (mut all, begun) = (Vec::new(), Instant::now());
                    loop {
                        assert!(begun.elapsed() < LIMIT);
                        let mut session = client.session();
                        let patient = TransactionOptions {
                            isolation: Some(isolation),
                            lock_wait: LIMIT,
                            ..TransactionOptions::default()
                        };
                        session.begin_with(patient).unwrap();
                        let taken = match take(&coll, &mut session).await {
                            Ok(Some(taken)) => session.commit().await.map(|_| Some(taken)),
                            taken => taken,
                        };
                        match taken {
                            Ok(Some(taken)) => all.push(taken),
                            Ok(None) => return all,
                            Err(lost) => assert_eq!(lost.kind(), ErrorKind::Conflict, "{lost}"),
                        }
                    }
                })
            })
            .collect();
        let mut taken = Vec::new();
        for worker in workers {
            taken.extend(worker.await.unwrap());
        }
        taken.sort_unstable();
        assert_eq!(taken, (1..=super::ALL).collect::<Vec<_>>(), "{isolation:?}");
        let all: Vec<Document> = (1..=super::ALL).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect();
        reader.coll.insert_many(&all).await.unwrap();
    }
}

/// Polls a future so many times, and drops it then. `Some`: it had ended by then.
async fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The statement is dropped at each of its awaits, and its transaction committed or rolled back:
/// no document stays taken, and the next statement finds the same first one.
#[tokio::test]
async fn a_statement_that_is_dropped_takes_nothing() {
    let server = started().await;
    let options = ClientOptions { count_commands: true, ..quiet::options() };
    let reader = Reader::on(&server, options).await.alone().await;
    for isolation in LEVELS {
        for commits in [false, true] {
            let mut polls = 1;
            until_leased(&reader, async || {
                let mut session = begun(&reader, isolation);
                let mut taken = None;
                let sent = commands_of(&reader.client, async {
                    taken = dropped_after(polls, take(&reader.coll, &mut session)).await;
                });
                let is_one_statement = sent.await.get("findAndModify") == Some(&1);
                let is_over = match taken {
                    Some(taken) => taken.unwrap() == Some(1) && is_one_statement,
                    None => {
                        polls += 1;
                        false
                    }
                };
                // A transaction that may hold something it does not know of cannot commit.
                match commits && !is_over {
                    true => drop(session.commit().await),
                    false => drop(session.rollback().await),
                }
                assert!(reader.client.flush(LIMIT).await);
                let left = reader.coll.count_documents(doc! {"n": 0}).await.unwrap();
                assert_eq!(left, super::ALL as u64, "{isolation:?}, dropped after {polls} polls");
                is_over
            })
            .await;
            assert!(polls > 1, "the statement waits for nothing");
        }
    }
}
