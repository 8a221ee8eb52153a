//! Single statements outside transactions, sent by many at once: what comes of them is what the
//! server alone guarantees. The same load runs on both, and the same judge looks at it.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongotx::{Collection, IndexModel};

use super::{Member, assert_clean, crew};

/// Statements that each client sends.
const EACH: i32 = 12;
const CLIENTS: usize = 10;

/// The side that carries out the statements.
#[derive(Clone)]
enum Target {
    Ours(Collection<Document>),
    Plain(mongodb::Collection<Document>),
}

/// The code that the server gives, `None` when it is no refusal.
type Done<T> = Result<T, Option<i32>>;

fn refused(error: &mongodb::error::Error) -> Option<i32> {
    use mongodb::error::{ErrorKind, WriteFailure};
    match error.kind.as_ref() {
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        _ => None,
    }
}

impl Target {
    async fn upsert(&self, filter: Document, update: Document) -> Done<()> {
        match self {
            Self::Ours(coll) => coll.update_one(filter, update).upsert(true).await.map(drop).map_err(|e| e.code()),
            Self::Plain(coll) => coll.update_one(filter, update).upsert(true).await.map(drop).map_err(|e| refused(&e)),
        }
    }

    async fn replace(&self, filter: Document, replacement: &Document) -> Done<()> {
        match self {
            Self::Ours(coll) => {
                coll.replace_one(filter, replacement).upsert(true).await.map(drop).map_err(|e| e.code())
            }
            Self::Plain(coll) => {
                coll.replace_one(filter, replacement).upsert(true).await.map(drop).map_err(|e| refused(&e))
            }
        }
    }

    async fn change(&self, filter: Document, update: Document, upsert: bool) -> Done<Option<Document>> {
        match self {
            Self::Ours(coll) => coll.find_one_and_update(filter, update).upsert(upsert).await.map_err(|e| e.code()),
            Self::Plain(coll) => coll.find_one_and_update(filter, update).upsert(upsert).await.map_err(|e| refused(&e)),
        }
    }

    async fn insert(&self, document: &Document) -> Done<()> {
        match self {
            Self::Ours(coll) => coll.insert_one(document).await.map(drop).map_err(|e| e.code()),
            Self::Plain(coll) => coll.insert_one(document).await.map(drop).map_err(|e| refused(&e)),
        }
    }

    async fn delete(&self, filter: Document) -> Done<u64> {
        match self {
            Self::Ours(coll) => coll.delete_one(filter).await.map_err(|e| e.code()),
            Self::Plain(coll) => coll.delete_one(filter).await.map(|done| done.deleted_count).map_err(|e| refused(&e)),
        }
    }

    async fn all(&self) -> Vec<Document> {
        match self {
            Self::Ours(coll) => coll.find(doc! {}).await.unwrap().try_collect().await.unwrap(),
            Self::Plain(coll) => {
                let (mut cursor, mut all) = (coll.find(doc! {}).await.unwrap(), Vec::new());
                while cursor.advance().await.unwrap() {
                    all.push(cursor.deserialize_current().unwrap());
                }
                all
            }
        }
    }
}

/// Each client runs `one`; returns the result of each.
async fn at_once<T: Send + 'static, Fut: Future<Output = T> + Send + 'static>(
    targets: &[Target],
    one: impl Fn(usize, Target) -> Fut,
) -> Vec<T> {
    let tasks = (0..CLIENTS).map(|nth| tokio::spawn(one(nth, targets[nth % targets.len()].clone())));
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

/// The same on MongoTx, then on the server alone; `unique`: with a unique index on `k`.
async fn on_both<Fut: Future<Output = ()>>(unique: bool, load: impl Fn(Vec<Target>) -> Fut) {
    let crew = crew(5).await;
    let plain = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let plain = plain.database(&local_mongod::unique_db("plain")).collection::<Document>("docs");
    if unique {
        crew[0].coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
        let options = mongodb::options::IndexOptions::builder().unique(true).build();
        plain.create_index(mongodb::IndexModel::builder().keys(doc! {"k": 1}).options(options).build()).await.unwrap();
    }
    load(crew.iter().map(|Member { coll, .. }| Target::Ours(coll.clone())).collect()).await;
    assert_clean(&crew).await;
    load(vec![Target::Plain(plain)]).await;
}

fn add() -> Document {
    doc! {"$inc": {"n": 1}}
}

fn sum(all: &[Document]) -> i32 {
    all.iter().map(|document| document.get_i32("n").unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_of_a_unique_value_are_all_carried_out() {
    on_both(true, |targets| async move {
        at_once(&targets, |nth, target| async move {
            for turn in 0..EACH {
                // The same values for all clients, in the same order: every client tries to insert
                // each value.
                let filter = if (nth + turn as usize).is_multiple_of(2) {
                    doc! {"k": turn}
                } else {
                    doc! {"$and": [{"k": {"$eq": turn}}]}
                };
                match nth % 3 {
                    0 => drop(target.change(filter, add(), true).await.unwrap()),
                    _ => target.upsert(filter, add()).await.unwrap(),
                }
            }
        })
        .await;
        let all = targets[0].all().await;
        assert_eq!((all.len() as i32, sum(&all)), (EACH, EACH * CLIENTS as i32), "{all:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_of_an_id_are_all_carried_out() {
    on_both(false, |targets| async move {
        at_once(&targets, |nth, target| async move {
            for turn in 0..EACH {
                match nth % 3 {
                    0 => drop(target.change(doc! {"_id": turn}, add(), true).await.unwrap()),
                    1 => target.replace(doc! {"_id": turn + 100}, &doc! {"by": nth as i32, "n": 0}).await.unwrap(),
                    _ => target.upsert(doc! {"_id": turn}, add()).await.unwrap(),
                }
            }
        })
        .await;
        let adders = (0..CLIENTS).filter(|nth| nth % 3 != 1).count() as i32;
        let all = targets[0].all().await;
        assert_eq!((all.len() as i32, sum(&all)), (2 * EACH, EACH * adders), "{all:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_document_is_claimed_by_one() {
    on_both(true, |targets| async move {
        for k in 0..40 {
            targets[0].insert(&doc! {"_id": k, "k": k, "state": "free"}).await.unwrap();
        }
        let claimed = at_once(&targets, |nth, target| async move {
            let mut claimed: Vec<i32> = Vec::new();
            let claim = || doc! {"$set": {"state": "taken", "by": nth as i32}};
            while let Some(before) = target.change(doc! {"state": "free"}, claim(), false).await.unwrap() {
                claimed.push(before.get_i32("_id").unwrap());
            }
            claimed
        })
        .await;
        let mut all: Vec<i32> = claimed.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (0..40).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unique_value_is_inserted_by_one() {
    on_both(true, |targets| async move {
        let inserted = at_once(&targets, |nth, target| async move {
            let mut inserted = Vec::new();
            for turn in 0..EACH {
                match target.insert(&doc! {"k": turn, "by": nth as i32}).await {
                    Ok(()) => inserted.push(turn),
                    Err(code) => assert_eq!(code, Some(11000)),
                }
            }
            inserted
        })
        .await;
        let mut all: Vec<i32> = inserted.into_iter().flatten().collect();
        all.sort_unstable();
        assert_eq!(all, (0..EACH).collect::<Vec<_>>());
        assert_eq!(targets[0].all().await.len() as i32, EACH);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_comes_and_goes_is_there_once_or_not_at_all() {
    on_both(false, |targets| async move {
        let balances = at_once(&targets, |nth, target| async move {
            let mut balance: BTreeMap<i32, i64> = BTreeMap::new();
            for turn in 0..EACH {
                let id = turn % 3;
                if (nth + turn as usize).is_multiple_of(2) {
                    match target.insert(&doc! {"_id": id, "n": 1}).await {
                        Ok(()) => *balance.entry(id).or_default() += 1,
                        Err(code) => assert_eq!(code, Some(11000)),
                    }
                } else {
                    let removed = target.delete(doc! {"_id": id}).await.unwrap();
                    *balance.entry(id).or_default() -= removed as i64;
                }
            }
            balance
        })
        .await;
        let all = targets[0].all().await;
        for id in 0..3 {
            let there = all.iter().filter(|document| document.get("_id") == Some(&Bson::Int32(id))).count();
            let balance: i64 = balances.iter().filter_map(|one| one.get(&id)).sum();
            assert_eq!(there as i64, balance, "{id}");
        }
    })
    .await;
}
