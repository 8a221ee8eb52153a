//! The two-phase commit recipe: transfers and the bank hold on it, transactions that were left are
//! completed, and unknown operations are refused.

use crate::common;

use benchkit::report::result::BenchResult;
use bson::{DateTime, Document, doc, oid::ObjectId};
use local_mongod::{shared_standalone, unique_db};
use mongodb::Database;
use txbench::{
    BenchError,
    error::OpError,
    targets::{Change, Connection, Find, Session, Target, TxOptions, Update, registry::TargetName},
};

const DOCS: &str = "docs";
const LOGS: &str = "recipe_transactions";

async fn rig() -> (Box<dyn Target>, Database) {
    let server = shared_standalone().await.unwrap();
    let db = unique_db("recipe");
    let raw = server.client().await.unwrap().database(&db);
    let connection = Connection::new(server.uri(), db, 4);
    let target = ("recipe".parse::<TargetName>().unwrap().entry().connect)(connection).await.unwrap();
    target.create(DOCS, &[]).await.unwrap();
    target.load(DOCS, vec![doc! {"_id": 0, "n": 0}, doc! {"_id": 1, "n": 0}]).await.unwrap();
    (target, raw)
}

fn increment(id: i32) -> Update {
    Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": 1}} }
}

async fn values(session: &mut dyn Session) -> Vec<Document> {
    session.find(DOCS, Find::new(doc! {}).sort(doc! {"_id": 1})).await.unwrap()
}

/// A log in this state, of a transaction that adds one to both documents.
fn log(id: ObjectId, state: &str, age_ms: i64) -> Document {
    let step = |id: i32| doc! {"in": DOCS, "id": id, "update": [{"op": "inc", "fields": {"n": 1}}]};
    let modified = DateTime::from_millis(DateTime::now().timestamp_millis() - age_ms);
    doc! {"_id": id, "state": state, "steps": [step(0), step(1)], "lastModified": modified}
}

#[tokio::test]
async fn a_transaction_that_was_left_is_canceled_before_it_began_and_gone_through_with_after() {
    for (state, made, expected, last) in
        [("initial", 0, 0, "canceled"), ("pending", 0, 1, "done"), ("pending", 1, 1, "done"), ("applied", 2, 1, "done")]
    {
        let (target, raw) = rig().await;
        let id = ObjectId::new();
        raw.collection(LOGS).insert_one(log(id, state, 11_000)).await.unwrap();
        for document in 0..made {
            let change = doc! {"$inc": {"n": 1}, "$push": {"pendingTransactions": id}};
            raw.collection::<Document>(DOCS).update_one(doc! {"_id": document}, change).await.unwrap();
        }
        assert!(target.leftovers(&[DOCS]).await.unwrap().is_some(), "{state}");
        target.settle().await.unwrap();
        let mut session = target.session().await.unwrap();
        let expected = [0, 1].map(|id| doc! {"_id": id, "n": expected});
        assert_eq!(values(&mut *session).await, expected, "{state}, {made} made");
        assert_eq!(target.leftovers(&[DOCS]).await.unwrap(), None, "{state}");
        let log = raw.collection::<Document>(LOGS).find_one(doc! {"_id": id}).await.unwrap().unwrap();
        assert_eq!(log.get_str("state").unwrap(), last);
    }
}

#[tokio::test]
async fn a_transaction_that_others_may_be_at_is_left_alone() {
    let (target, raw) = rig().await;
    raw.collection(LOGS).insert_one(log(ObjectId::new(), "pending", 0)).await.unwrap();
    target.settle().await.unwrap();
    let found = values(&mut *target.session().await.unwrap()).await;
    assert_eq!(found, [doc! {"_id": 0, "n": 0}, doc! {"_id": 1, "n": 0}]);
    assert!(target.leftovers(&[DOCS]).await.unwrap().is_some());
}

#[tokio::test]
async fn nothing_is_written_before_the_commit_and_one_document_is_changed_once() {
    let (target, raw) = rig().await;
    let mut session = target.session().await.unwrap();
    session.begin(&TxOptions::default()).await.unwrap();
    session.update(DOCS, increment(0)).await.unwrap();
    let other = Update { filter: doc! {"_id": 0}, update: doc! {"$set": {"by": "x"}} };
    session.update(DOCS, other).await.unwrap();
    assert_eq!(values(&mut *session).await[0], doc! {"_id": 0, "n": 0});
    session.commit().await.unwrap();
    assert_eq!(values(&mut *session).await[0], doc! {"_id": 0, "n": 1, "by": "x"});
    assert_eq!(raw.collection::<Document>(LOGS).count_documents(doc! {"state": "done"}).await.unwrap(), 1);
    session.begin(&TxOptions::default()).await.unwrap();
    session.update(DOCS, increment(0)).await.unwrap();
    session.rollback().await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(values(&mut *session).await[0], doc! {"_id": 0, "n": 1, "by": "x"});
    assert_eq!(target.leftovers(&[DOCS]).await.unwrap(), None);
}

#[tokio::test]
async fn what_it_does_not_know_is_refused_by_name() {
    let (target, _) = rig().await;
    let mut session = target.session().await.unwrap();
    let push = Update { filter: doc! {"_id": 0}, update: doc! {"$push": {"l": 1}} };
    let by_n = Update { filter: doc! {"n": 0}, update: doc! {"$inc": {"n": 1}} };
    let answers = [
        (session.update(DOCS, push).await.map(drop), "$push"),
        (session.update(DOCS, by_n).await.map(drop), "_id"),
        (session.insert(DOCS, vec![doc! {"_id": 9}]).await, "insert"),
        (session.delete(DOCS, doc! {"_id": 0}).await.map(drop), "delete"),
        (session.find_and_modify(DOCS, Find::new(doc! {}), Change::Remove).await.map(drop), "modify"),
        (session.aggregate(DOCS, Vec::new()).await.map(drop), "aggregate"),
    ];
    for (answer, what) in answers {
        let Err(OpError::Fatal(error)) = answer else { panic!("{what}: {answer:?}") };
        let said = error.to_string();
        assert!(said.contains("recipe") && said.contains(what), "{said}");
    }
}

async fn bench_recipe(line: &str) -> Result<BenchResult, BenchError> {
    let uri = shared_standalone().await.unwrap().uri();
    let seconds = if line.contains("--seconds") { "" } else { "--seconds 60" };
    common::bench(&format!("{line} {seconds} --targets recipe --clients 4 --rounds 1 --warm-up 0 --uri {uri}")).await
}

/// Few accounts, so that clients meet on them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_operation_of_the_bank_is_there_once() {
    for (operations, options) in [(200, "--accounts 3"), (200, "--accounts 12 --mix 0,0,100"), (100, "--alone")] {
        let result = bench_recipe(&format!("bank --operations {operations} {options}")).await.unwrap();
        let run = &result.runs[0];
        assert_eq!((run.broken.as_deref(), run.counts.committed_in_all), (None, operations), "{options}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_make_and_lose_no_money() {
    let line = "transfer --documents 4 --seconds 1";
    let result = bench_recipe(line).await.unwrap();
    let is_stated = result.facts.iter().any(|fact| fact.ends_with("no isolation; the answer to a commit is durable."));
    assert!(is_stated, "{:?}", result.facts);
    let run = &result.runs[0];
    assert_eq!(run.broken, None);
    assert!(run.counts.committed_in_all > 0);
}

#[tokio::test]
async fn work_that_is_neither_is_refused_by_name() {
    for line in ["checkin", "hot-spot", "ycsb --core a", "ycsb --core c", "tpcc"] {
        let Err(BenchError::Refused(said)) = bench_recipe(line).await else { panic!("{line} is not refused") };
        assert!(said.contains("recipe cannot do other work than moving amounts"), "{line}: {said}");
    }
    for (line, what) in [("bank --audit", "query"), ("bank --by-account", "query"), ("bank --readers 5", "query")] {
        let Err(BenchError::Refused(said)) = bench_recipe(line).await else { panic!("{line} is not refused") };
        assert!(said.contains("recipe cannot") && said.contains(what), "{line}: {said}");
    }
}
