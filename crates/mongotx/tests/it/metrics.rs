//! Every counter counts what its name says, and nothing else.

use crate::quiet;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, Isolation, Metrics, Outcome, Session, Step, StepHook,
    TransactionOptions,
};
use quiet::{Gate, collection, connect, options, through};

const LIMIT: Duration = Duration::from_secs(30);

fn add_one() -> Document {
    doc! {"$inc": {"n": 1}}
}

async fn update(coll: &Collection<Document>, session: &mut Session, id: i32) -> mongotx::Result<()> {
    coll.update_one(doc! {"_id": id}, add_one()).session(session).await.map(drop)
}

/// The counters without what depends on how often commands are sent.
fn events(client: &Client) -> Metrics {
    let mut metrics = client.metrics();
    metrics.commands.clear();
    metrics.record_writes = 0;
    metrics.sent_along = 0;
    metrics
}

/// The counters as they are expected: those before, changed.
fn expect(before: &Metrics, change: impl FnOnce(&mut Metrics)) -> Metrics {
    let mut expected = before.clone();
    change(&mut expected);
    expected
}

#[tokio::test]
async fn commits_and_rollbacks_of_callers_are_counted() {
    let client = connect(options()).await;
    let coll = collection(&client, 3).await;
    let before = events(&client);
    let mut session = client.session();
    session.begin().unwrap();
    update(&coll, &mut session, 1).await.unwrap();
    session.commit().await.unwrap();
    // One that only reads, and a call that is a transaction of its own.
    session.begin().unwrap();
    coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    // A document that is finished already is not finished by the next.
    assert!(client.flush(Duration::from_secs(60)).await);
    coll.update_many(doc! {}, add_one()).await.unwrap();
    assert_eq!(events(&client), expect(&before, |m| m.commits += 3));
    assert!(client.flush(Duration::from_secs(60)).await);
    session.begin().unwrap();
    update(&coll, &mut session, 1).await.unwrap();
    session.rollback().await.unwrap();
    assert_eq!(session.rollback().await.unwrap_err().kind(), ErrorKind::Closed);
    let expected = expect(&before, |m| (m.commits, m.rollbacks) = (m.commits + 3, m.rollbacks + 1));
    assert_eq!(events(&client), expected);
}

#[tokio::test]
async fn writes_of_one_document_outside_a_transaction_are_no_commits() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    let before = events(&client);
    coll.update_one(doc! {"_id": 1}, add_one()).await.unwrap();
    assert_eq!(events(&client), before);
}

#[tokio::test]
async fn conflicts_are_counted_as_aborts() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    let before = events(&client);
    let (mut first, mut second) = (client.session(), client.session());
    first.begin().unwrap();
    second.begin().unwrap();
    update(&coll, &mut first, 1).await.unwrap();
    update(&coll, &mut second, 1).await.unwrap_err();
    // The caller rolls back what is rolled back already.
    second.rollback().await.unwrap();
    first.commit().await.unwrap();
    let expected = expect(&before, |m| (m.commits, m.aborts_conflict) = (m.commits + 1, 1));
    assert_eq!(events(&client), expected);
}

#[tokio::test]
async fn the_end_of_a_maximum_life_is_counted_as_expired() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    let before = events(&client);
    let mut session =
        client.session_with(TransactionOptions { max_life: Some(Duration::ZERO), ..TransactionOptions::default() });
    session.begin().unwrap();
    let error = update(&coll, &mut session, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired);
    session.begin().unwrap();
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Expired);
    assert_eq!(events(&client), expect(&before, |m| m.aborts_expired = 2));
}

#[tokio::test]
async fn a_transaction_aborted_by_a_rival_is_counted_as_expired_and_its_documents_as_rolled_back() {
    let (client, rival) = (connect(options()).await, connect(options()).await);
    let coll = collection(&client, 2).await;
    let mut session = client.session();
    session.begin().unwrap();
    update(&coll, &mut session, 1).await.unwrap();
    update(&coll, &mut session, 2).await.unwrap();
    let before = events(&client);
    assert_eq!(rival.abort(session.id().unwrap()).await.unwrap(), Outcome::RolledBack);
    assert_eq!((rival.metrics().undone_for_others, rival.metrics().finished_for_others), (2, 0));
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Expired);
    assert_eq!(events(&client), expect(&before, |m| m.aborts_expired = 1));
}

#[tokio::test]
async fn documents_finished_for_others_are_counted() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let hook: Arc<dyn StepHook> = gate.clone();
    let (client, rival) = (connect(ClientOptions { hook: Some(hook), ..options() }).await, connect(options()).await);
    let coll = collection(&client, 3).await;
    gate.shut();
    let mut session = client.session();
    session.begin().unwrap();
    for id in 1..=3 {
        update(&coll, &mut session, id).await.unwrap();
    }
    session.commit().await.unwrap();
    let rivals = through(&rival, &coll);
    // Finished by a writer, and by a query.
    rivals.update_one(doc! {"_id": 1}, add_one()).await.unwrap();
    assert_eq!(rival.metrics().finished_for_others, 1);
    assert_eq!(rivals.find(doc! {"n": 2}).await.unwrap().try_collect().await.unwrap().len(), 2);
    assert_eq!((rival.metrics().finished_for_others, rival.metrics().undone_for_others), (3, 0));
    gate.open();
    assert!(client.flush(LIMIT).await);
    assert_eq!(rivals.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 3}));
}

#[tokio::test]
async fn the_record_of_a_dead_client_is_counted_as_fenced() {
    let rival = connect(options()).await;
    let rivals = collection(&rival, 1).await;
    let (namespace, uri) = (rivals.namespace().clone(), local_mongod::shared_standalone().await.unwrap().uri());
    // A client that dies with its runtime, in the middle of a transaction.
    let dead = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let session = runtime.block_on(async {
            let short = ClientOptions { lease: Duration::from_millis(100), ..options() };
            let client = Client::connect_with(&uri, short).await.unwrap();
            let coll = client.database(&namespace.db).collection::<Document>(&namespace.coll);
            let mut session = client.session();
            session.begin().unwrap();
            update(&coll, &mut session, 1).await.unwrap();
            session
        });
        runtime.shutdown_background();
        drop(session);
    });
    dead.join().unwrap();
    rivals.update_one(doc! {"_id": 1}, add_one()).await.unwrap();
    assert_eq!(rivals.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 2}));
    let metrics = rival.metrics();
    assert_eq!((metrics.fenced, metrics.undone_for_others, metrics.finished_for_others), (1, 1, 0));
}

#[tokio::test]
async fn transactions_that_are_run_again_are_counted_as_retries() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    let before = events(&client);
    let (mut rival, mut session) = (client.session(), client.session());
    rival.begin().unwrap();
    update(&coll, &mut rival, 1).await.unwrap();
    let mut attempts = 0;
    session
        .with_transaction(async |session| {
            attempts += 1;
            if attempts == 3 {
                rival.rollback().await?;
            }
            update(&coll, session, 1).await
        })
        .await
        .unwrap();
    let expected = expect(&before, |m| {
        (m.commits, m.rollbacks, m.aborts_conflict, m.retries) = (m.commits + 1, 1, 2, 2);
    });
    assert_eq!((events(&client), attempts), (expected, 3));
}

#[tokio::test]
async fn somebody_who_waits_is_counted() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    let mut rival = client.session();
    rival.begin().unwrap();
    update(&coll, &mut rival, 1).await.unwrap();
    let patient = TransactionOptions {
        lock_wait: LIMIT,
        isolation: Some(Isolation::RepeatableRead),
        ..TransactionOptions::default()
    };
    let mut session = client.session_with(patient);
    session.begin().unwrap();
    assert_eq!(client.metrics().waits, 0);
    let read = async { coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap() };
    let end = async {
        quiet::until_waiting(&client, 1).await;
        rival.commit().await.unwrap();
    };
    let (found, ()) = futures_util::future::join(read, end).await;
    assert_eq!(found, Some(doc! {"_id": 1, "n": 2}));
    session.commit().await.unwrap();
}

#[tokio::test]
async fn a_server_that_goes_is_counted_as_unavailable_and_a_decision_without_answer_as_indeterminate() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let uri =
        format!("{}{}serverSelectionTimeoutMS=300", server.uri(), if server.uri().contains('?') { "&" } else { "/?" });
    let gate = Gate::before(&[Step::BeforeDecision]);
    let hook: Arc<dyn StepHook> = gate.clone();
    let short = ClientOptions { hook: Some(hook), commit_timeout: Duration::from_secs(3), ..options() };
    let client = quiet::connect_in_the_end(&uri, short).await;
    let coll = collection(&client, 2).await;
    let (mut committing, mut writing) = (client.session(), client.session());
    committing.begin().unwrap();
    update(&coll, &mut committing, 1).await.unwrap();
    writing.begin().unwrap();
    update(&coll, &mut writing, 2).await.unwrap();
    let before = events(&client);
    gate.shut();
    let commit = async { committing.commit().await.unwrap_err() };
    let kill = async {
        gate.until_held().await;
        server.kill().unwrap();
        gate.open();
    };
    let start = Instant::now();
    let (error, ()) = futures_util::future::join(commit, kill).await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    // The writes of the transaction may be lost with the server.
    let error = update(&coll, &mut writing, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
    let mut fresh = client.session();
    fresh.begin().unwrap();
    let error = update(&coll, &mut fresh, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    let expected = expect(&before, |m| (m.indeterminate, m.aborts_expired, m.aborts_unavailable) = (1, 1, 1));
    assert_eq!(events(&client), expected);
}

#[tokio::test]
async fn commands_are_counted_by_name() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    // The first write outside transactions stores a notice before (decision 0068).
    coll.insert_one(&doc! {"_id": 9}).await.unwrap();
    let count = |name: &str| client.metrics().commands.get(name).copied().unwrap_or(0);
    let before = ["insert", "update", "find", "delete"].map(count);
    coll.insert_one(&doc! {"_id": 2}).await.unwrap();
    coll.update_one(doc! {"_id": 1}, add_one()).await.unwrap();
    coll.find_one(doc! {"_id": 1}).await.unwrap();
    coll.delete_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(["insert", "update", "find", "delete"].map(count), before.map(|n| n + 1));
    let metrics = client.metrics();
    assert_eq!(metrics.commands_sent(), metrics.commands.values().sum::<u64>());
}

#[tokio::test]
async fn writes_to_the_record_are_counted() {
    let client = connect(options()).await;
    let coll = collection(&client, 1).await;
    let before = client.metrics().record_writes;
    let mut session = client.session();
    session.begin().unwrap();
    update(&coll, &mut session, 1).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(client.metrics().record_writes - before, 1, "its decision");
}
