//! Audits: readers of everything, beside writers that are never all decided.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Result, Session, Step, TransactionOptions};
use tokio::task::JoinHandle;

use crate::{
    quiet::{self, Gate},
    random::Random,
};

const LIMIT: Duration = Duration::from_secs(120);

fn session(client: &Client, isolation: Isolation) -> Session {
    client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() })
}

const ACCOUNTS: i32 = 2_000;
const EACH: i64 = 100;

async fn transfer(coll: &Collection<Document>, session: &mut Session, random: &mut Random) -> mongotx::Result<()> {
    session.begin()?;
    let (from, to) = (random.below(ACCOUNTS as usize) as i32, random.below(ACCOUNTS as usize) as i32);
    for (id, n) in [(from, -1_i64), (to, 1)] {
        coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": n}}).session(session).await?;
    }
    session.commit().await
}

/// Without quiet, a sum of all these documents is never of one moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_gets_through_beside_eight_writers() {
    gets_through_beside_eight_writers(Isolation::Snapshot).await;
}

/// At serializable there is always one of the writers that is not decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serializable_audit_gets_through_beside_eight_writers() {
    gets_through_beside_eight_writers(Isolation::Serializable).await;
}

async fn gets_through_beside_eight_writers(isolation: Isolation) {
    let clients = [quiet::connect_apart(quiet::options()).await, quiet::connect_apart(quiet::options()).await];
    let coll = quiet::collection(&clients[0], 0).await;
    let accounts: Vec<Document> = (0..ACCOUNTS).map(|id| doc! {"_id": id, "n": EACH}).collect();
    coll.insert_many(&accounts).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let writers = (0..8_u64).map(|nth| {
        let client = clients[nth as usize % 2].clone();
        let (coll, over) = (quiet::through(&client, &coll), Arc::clone(&over));
        tokio::spawn(async move {
            let (mut session, mut random, mut done) = (session(&client, isolation), Random::of_seed(nth), 0_u32);
            while !over.load(SeqCst) {
                match transfer(&coll, &mut session, &mut random).await {
                    Ok(()) => done += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                        session.rollback().await.ok();
                    }
                }
            }
            done
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut auditor = session(&clients[0], isolation);
    for _ in 0..3 {
        let sum = [doc! {"$group": {"_id": 1, "n": {"$sum": "$n"}}}];
        let audit = auditor.with_transaction(async |session| {
            let found = coll.aggregate(sum.clone()).session(session).await?.try_collect().await?;
            Ok(found[0].get_i64("n").unwrap())
        });
        let total = tokio::time::timeout(LIMIT, audit).await.expect("the audit starves").unwrap();
        assert_eq!(total, EACH * i64::from(ACCOUNTS));
    }
    over.store(true, SeqCst);
    for writer in writers {
        assert!(writer.await.unwrap() > 0, "a writer starves");
    }
    assert!(clients[0].metrics().quiets > 0);
}

/// A writer that has read document 1 and written document 2, is validated, and stands before its
/// decision.
struct Writer {
    gate: Arc<Gate>,
    client: Client,
    deciding: JoinHandle<Result<()>>,
}

impl Writer {
    async fn of(coll: &Collection<Document>) -> Self {
        let gate = Gate::before(&[Step::BeforeDecision]);
        let options = ClientOptions { hook: Some(Arc::clone(&gate) as _), ..quiet::options() };
        let client = quiet::connect_apart(options).await;
        let coll = quiet::through(&client, coll);
        let mut session = session(&client, Isolation::Serializable);
        session.begin().unwrap();
        coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
        coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
        gate.shut();
        let deciding = tokio::spawn(async move { session.commit().await });
        gate.until_held().await;
        Self { gate, client, deciding }
    }

    /// Lets the audit that was stopped go on, and waits for the result of its commit.
    async fn commit(self) -> (Result<()>, Client) {
        self.gate.open();
        (tokio::time::timeout(LIMIT, self.deciding).await.unwrap().unwrap(), self.client)
    }
}

/// The documents as an auditor sees them that does not wait for the writer.
async fn audit(client: &Client, coll: &Collection<Document>) -> Vec<i32> {
    let mut auditor = session(client, Isolation::Serializable);
    let all = auditor.with_transaction(async |session| {
        let found = coll.find(doc! {}).sort(doc! {"_id": 1}).session(session).await?.try_collect().await?;
        Ok(found.iter().map(|document| document.get_i32("n").unwrap()).collect())
    });
    let seen = tokio::time::timeout(LIMIT, all).await.expect("the audit starves").unwrap();
    assert!(client.metrics().passed_by > 0, "the writer was not there");
    seen
}

/// Another has changed what the writer has read, and the audit has seen that and not what the
/// writer has written: were the writer committed, each of the three would have to come before the
/// next.
#[tokio::test]
async fn writer_who_was_passed_by_and_read_what_has_changed_is_refused() {
    let client = quiet::connect_apart(quiet::options()).await;
    let coll = quiet::collection(&client, 2).await;
    let writer = Writer::of(&coll).await;
    let mut other = session(&client, Isolation::Serializable);
    other.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 5}}).session(&mut other).await.unwrap();
    other.commit().await.unwrap();
    assert_eq!(audit(&client, &coll).await, [5, 1]);
    let (committed, writer) = writer.commit().await;
    assert_eq!(committed.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(writer.metrics().validated_again > 0);
    assert_eq!(coll.find_one(doc! {"_id": 2}).await.unwrap(), Some(doc! {"_id": 2, "n": 1}));
}

#[tokio::test]
async fn writer_who_was_passed_by_and_read_what_is_the_same_commits() {
    let client = quiet::connect_apart(quiet::options()).await;
    let coll = quiet::collection(&client, 2).await;
    let writer = Writer::of(&coll).await;
    assert_eq!(audit(&client, &coll).await, [1, 1]);
    let (committed, writer) = writer.commit().await;
    committed.unwrap();
    assert!(writer.metrics().validated_again > 0);
    assert_eq!(audit_alone(&client, &coll).await, [1, 7]);
}

async fn audit_alone(client: &Client, coll: &Collection<Document>) -> Vec<i32> {
    let mut session = session(client, Isolation::Serializable);
    session.begin().unwrap();
    let found = coll.find(doc! {}).sort(doc! {"_id": 1}).session(&mut session).await.unwrap();
    let found = found.try_collect().await.unwrap();
    session.commit().await.unwrap();
    found.iter().map(|document: &Document| document.get_i32("n").unwrap()).collect()
}
