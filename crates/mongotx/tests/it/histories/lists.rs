//! Transactions that append to lists and read them.

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongotx::{Collection, ErrorKind, Isolation, Result, ReturnDocument, Session, TransactionOptions};
use txcheck::lists::{End, Lists, Op, Recorder};

use super::{Member, assert_clean, crew, step_aside};
use crate::random::Random;

/// Number of lists in the collection.
const KEYS: i64 = 3;

struct Run {
    recorder: Recorder,
    isolations: Vec<Isolation>,
    until: super::End,
}

/// Clients of these levels in turn work on the same lists; `model`: what all of them together are
/// promised.
async fn check_histories(isolations: &[Isolation], model: &str) {
    let crew = crew(4).await;
    crew[0].coll.insert_many(&empty()).await.unwrap();
    let run =
        Arc::new(Run { recorder: Recorder::default(), isolations: isolations.to_vec(), until: super::End::of_run() });
    let tasks = (0..8).map(|nth| {
        let Member { client, coll } = &crew[nth % crew.len()];
        let (run, client, coll) = (Arc::clone(&run), client.clone(), coll.clone());
        tokio::spawn(async move { run.work(nth, client, coll).await })
    });
    for done in join_all(tasks).await {
        done.unwrap();
    }
    assert_clean(&crew).await;
    let last = crew[0].coll.find(doc! {}).await.unwrap().try_collect().await.unwrap();
    let summary = run.recorder.judge(model, &lists(&last)).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(summary.committed > 0, "no transaction committed");
    println!("{isolations:?}: {summary:?}");
}

/// The lists in the beginning.
pub(super) fn empty() -> Vec<Document> {
    (0..KEYS).map(|key| doc! {"_id": key, "name": format!("list {key}"), "list": []}).collect()
}

pub(super) fn lists(documents: &[Document]) -> Lists {
    documents.iter().map(|list| (list.get_i64("_id").unwrap() as u64, values(list))).collect()
}

fn values(list: &Document) -> Vec<u64> {
    list.get_array("list").unwrap().iter().map(|value| value.as_i64().unwrap() as u64).collect()
}

impl Run {
    async fn work(&self, nth: usize, client: mongotx::Client, coll: Collection<Document>) {
        let mut random = Random::of_seed(nth as u64);
        let isolation = self.isolations[nth % self.isolations.len()];
        let mut process = self.recorder.process();
        let mut refusals = 0;
        while !self.until.is_reached(self.recorder.committed()) {
            let lock_wait = *random.pick(&[Duration::ZERO, Duration::from_millis(50)]);
            let mut session = client.session_with(TransactionOptions {
                isolation: Some(isolation),
                lock_wait,
                ..TransactionOptions::default()
            });
            let planned = plan(&self.recorder, &mut random);
            self.recorder.begin(process, &planned);
            let end = match carry_out(&planned, isolation, &mut random, &coll, &mut session).await {
                Ok(done) => End::Committed(done),
                Err(error) if error.kind() == ErrorKind::Indeterminate => End::Unknown,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                    End::Refused
                }
            };
            self.recorder.end(process, &planned, &end);
            match end {
                End::Committed(_) => refusals = 0,
                End::Refused => {
                    refusals += 1;
                    step_aside(refusals, &mut random).await;
                }
                End::Unknown => process = self.recorder.process(),
            }
        }
    }
}

/// A transaction of some appends and reads.
pub(super) fn plan(recorder: &Recorder, random: &mut Random) -> Vec<Op> {
    let count = random.between(1, 4);
    let ops = (0..count).map(|_| {
        let key = random.below(KEYS as usize) as u64;
        if random.chance(50) { Op::Append(key, recorder.value()) } else { Op::Read(key, None) }
    });
    ops.collect()
}

/// Runs it to its commit, and answers what it has done and seen.
pub(super) async fn carry_out(
    planned: &[Op],
    isolation: Isolation,
    random: &mut Random,
    coll: &Collection<Document>,
    session: &mut Session,
) -> Result<Vec<Op>> {
    session.begin()?;
    let mut done = Vec::new();
    for op in planned {
        match op {
            Op::Read(key, _) => done.push(Op::Read(*key, Some(read(*key, random, coll, session).await?))),
            Op::Append(key, value) => {
                // At read committed nothing keeps what was read from changing before it is written
                // over.
                if isolation != Isolation::ReadCommitted && random.chance(60) {
                    let seen = write_back(*key, *value, random, coll, session).await?;
                    done.push(Op::Read(*key, Some(seen)));
                } else {
                    append(*key, *value, random, coll, session).await?;
                }
                done.push(op.clone());
            }
        }
    }
    session.commit().await?;
    Ok(done)
}

fn by(key: u64, random: &mut Random) -> Document {
    if random.chance(50) {
        doc! {"_id": key as i64}
    } else {
        doc! {"name": format!("list {key}")}
    }
}

async fn read(key: u64, random: &mut Random, coll: &Collection<Document>, session: &mut Session) -> Result<Vec<u64>> {
    let filter = by(key, random);
    if random.chance(30) {
        let grouped = [doc! {"$match": filter}, doc! {"$project": {"list": 1}}];
        let found = coll.aggregate(grouped).session(session).await?.try_collect().await?;
        return Ok(values(&found[0]));
    }
    Ok(values(&coll.find_one(filter).session(session).await?.unwrap()))
}

async fn append(
    key: u64,
    value: u64,
    random: &mut Random,
    coll: &Collection<Document>,
    session: &mut Session,
) -> Result<()> {
    let (filter, push) = (by(key, random), doc! {"$push": {"list": value as i64}});
    match random.below(3) {
        0 => assert_eq!(coll.update_one(filter, push).session(session).await?.matched_count, 1),
        1 => assert_eq!(coll.update_many(filter, push).session(session).await?.matched_count, 1),
        _ => {
            let ask = coll.find_one_and_update(filter, push).return_document(ReturnDocument::After);
            assert_eq!(values(&ask.session(session).await?.unwrap()).last(), Some(&value));
        }
    }
    Ok(())
}

/// Reads the list and writes it back with one value more.
async fn write_back(
    key: u64,
    value: u64,
    random: &mut Random,
    coll: &Collection<Document>,
    session: &mut Session,
) -> Result<Vec<u64>> {
    let seen = read(key, random, coll, session).await?;
    let list: Vec<Bson> = seen.iter().chain([&value]).map(|value| Bson::Int64(*value as i64)).collect();
    match random.below(2) {
        0 => {
            let done = coll.update_one(by(key, random), doc! {"$set": {"list": list}}).session(session).await?;
            assert_eq!(done.matched_count, 1);
        }
        _ => {
            let replacement = doc! {"name": format!("list {key}"), "list": list};
            assert_eq!(coll.replace_one(by(key, random), &replacement).session(session).await?.matched_count, 1);
        }
    }
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_read_committed() {
    check_histories(&[Isolation::ReadCommitted], "strong-read-committed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_repeatable_read() {
    // Documents that are there already and stay: without phantoms, repeatable read is all that
    // there is to wish for.
    check_histories(&[Isolation::RepeatableRead], "strict-serializable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_snapshot() {
    check_histories(&[Isolation::Snapshot], "strong-snapshot-isolation").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_serializable() {
    check_histories(&[Isolation::Serializable], "strict-serializable").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_snapshot_and_serializable() {
    check_histories(&[Isolation::Snapshot, Isolation::Serializable], "strong-snapshot-isolation").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_all_levels() {
    let all = [Isolation::ReadCommitted, Isolation::Serializable, Isolation::RepeatableRead, Isolation::Snapshot];
    check_histories(&all, "strong-read-committed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_at_both_levels() {
    check_histories(&[Isolation::ReadCommitted, Isolation::RepeatableRead], "strong-read-committed").await;
}
