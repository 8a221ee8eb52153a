//! Queries of a client that is alone (decision 0066): that they need no probe, and show what they
//! would show with one, when other clients commit, come, are paused or are killed.
//!
//! Each test has a server of its own: on the shared one no client is alone.

mod beside_own_changes;
mod first;

use std::{
    process::{Child, ChildStdin, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use bson::{Document, doc};
use local_mongod::{Server, ServerOptions, again, heard, report};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Session, Step};

use crate::quiet::{self, Gate};

const LIMIT: Duration = Duration::from_secs(60);
/// Time for which a document stays unfinished, as long as a test needs it, if no client wants it.
const UNFINISHED: Duration = Duration::from_secs(10);
/// Documents `{_id, k: _id, n: 0}` of the collection, with an index by `k`.
const ALL: i32 = 20;
/// Key of one that no test changes.
const UNTOUCHED: i32 = 15;

async fn started() -> Server {
    ServerOptions::standalone().in_memory().start().await.unwrap()
}

fn finishing_after(finish_delay: Duration) -> ClientOptions {
    ClientOptions { finish_delay, ..quiet::options() }
}

/// A client that is alone on a server, and its collection.
struct Reader {
    client: Client,
    coll: Collection<Document>,
}

impl Reader {
    async fn on(server: &Server, options: ClientOptions) -> Self {
        let client = Client::connect_with(&server.uri(), options).await.unwrap();
        let coll = quiet::collection(&client, 0).await;
        coll.create_index(IndexModel::new(doc! {"k": 1})).await.unwrap();
        let all: Vec<Document> = (1..=ALL).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect();
        coll.insert_many(&all).await.unwrap();
        assert!(client.flush(LIMIT).await);
        Self { client, coll }
    }

    /// Reads until queries go without a probe.
    async fn alone(self) -> Self {
        until_unprobed(&self.client, &self.coll).await;
        self
    }
}

async fn until_unprobed(client: &Client, coll: &Collection<Document>) {
    let (before, begun) = (client.metrics().unprobed, Instant::now());
    while client.metrics().unprobed == before {
        assert!(begun.elapsed() < LIMIT, "no lease was taken: {:?}", client.metrics());
        by_key(coll, UNTOUCHED).await;
    }
}

/// The number in the document with this key.
async fn by_key(coll: &Collection<Document>, k: i32) -> Option<i32> {
    coll.find_one(doc! {"k": k}).await.unwrap().map(|found| found.get_i32("n").unwrap())
}

async fn set(coll: &Collection<Document>, session: &mut Session, id: i32, n: i32) {
    let changed = coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": n}}).session(session).await.unwrap();
    assert_eq!(changed.matched_count, 1);
}

/// Sets the numbers of the first two documents in one transaction.
async fn commit(client: &Client, coll: &Collection<Document>, n: i32) {
    let mut session = client.session();
    session.begin().unwrap();
    set(coll, &mut session, 1, n).await;
    set(coll, &mut session, 2, n).await;
    session.commit().await.unwrap();
}

/// Every kind of query, with its answer.
async fn ask_everything(coll: &Collection<Document>) {
    assert_eq!(by_key(coll, 3).await, Some(0));
    let sorted = coll.find(doc! {"k": {"$gt": 5}}).sort(doc! {"k": -1}).limit(2).await.unwrap();
    let ids: Vec<i32> = sorted.try_collect().await.unwrap().iter().map(|one| one.get_i32("_id").unwrap()).collect();
    assert_eq!(ids, [ALL, ALL - 1]);
    let hinted = coll.find(doc! {"k": 4}).hint(doc! {"k": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(hinted.len(), 1);
    assert_eq!(coll.count_documents(doc! {"k": {"$lte": 7}}).await.unwrap(), 7);
    assert_eq!(coll.distinct("k", doc! {"k": {"$lt": 3}}).await.unwrap().len(), 2);
    let lookup = doc! {"from": coll.namespace().coll.as_str(), "localField": "k", "foreignField": "k", "as": "same"};
    let joined = coll.aggregate([doc! {"$match": {"k": 9}}, doc! {"$lookup": lookup}]).await.unwrap();
    let joined = joined.try_collect().await.unwrap();
    assert_eq!(joined[0].get_array("same").unwrap().len(), 1);
}

/// Kinds of queries in [`ask_everything`].
const KINDS: u64 = 6;

#[tokio::test]
async fn queries_of_a_client_that_is_alone_need_no_probe() {
    let server = started().await;
    let Reader { client, coll } = Reader::on(&server, quiet::options()).await.alone().await;
    let begun = Instant::now();
    loop {
        let before = client.metrics();
        ask_everything(&coll).await;
        let after = client.metrics();
        if after.unprobed - before.unprobed == KINDS {
            // Nothing was sent along with another command, as probes are.
            assert_eq!(after.sent_along, before.sent_along);
            break;
        }
        // A machine that stands still for a while loses the lease.
        assert!(begun.elapsed() < LIMIT, "{after:?}");
        until_unprobed(&client, &coll).await;
    }
    // An open transaction hides what it has written from others, and sees it itself.
    let unprobed = client.metrics().unprobed;
    let mut session = client.session();
    session.begin().unwrap();
    set(&coll, &mut session, 1, 5).await;
    coll.insert_one(&doc! {"_id": 99, "k": 99, "n": 0}).session(&mut session).await.unwrap();
    for _ in 0..10 {
        assert_eq!((by_key(&coll, 1).await, by_key(&coll, 99).await), (Some(0), None));
        let own = coll.find_one(doc! {"k": 1}).session(&mut session).await.unwrap().unwrap();
        assert_eq!(own.get_i32("n").unwrap(), 5);
    }
    assert!(client.metrics().unprobed > unprobed, "what is not decided blocks no query");
    session.rollback().await.unwrap();
}

/// Some of the time what was committed is still locked, some of the time it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_client_has_committed_is_seen_at_once() {
    let server = started().await;
    for delay in [Duration::ZERO, UNFINISHED] {
        let Reader { client, coll } = Reader::on(&server, finishing_after(delay)).await.alone().await;
        let others = quiet::through(&client, &coll);
        let asks = tokio::spawn(async move { while by_key(&others, 1).await != Some(-1) {} });
        for n in (1..200).chain([-1]) {
            commit(&client, &coll, n).await;
            let seen = (by_key(&coll, 1).await, by_key(&coll, 2).await);
            assert_eq!(seen, (Some(n), Some(n)), "finished after {delay:?}");
        }
        tokio::time::timeout(LIMIT, asks).await.unwrap().unwrap();
        client.shutdown().await.unwrap();
    }
}

/// The server has decided, and the client does not know it yet. A reader of the document by its
/// `_id` learns it from the record; what it has seen stays so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_being_decided_is_not_hidden_again() {
    let server = started().await;
    let gate = Gate::before(&[Step::AfterDecision]);
    let options = ClientOptions { hook: Some(gate.clone()), ..finishing_after(UNFINISHED) };
    let Reader { client, coll } = Reader::on(&server, options).await.alone().await;
    gate.shut();
    let deciding = tokio::spawn({
        let (client, coll) = (client.clone(), coll.clone());
        async move { commit(&client, &coll, 1).await }
    });
    gate.until_held().await;
    until_unprobed_elsewhere(&client).await;
    let by_id = coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    assert_eq!(by_id.get_i32("n").unwrap(), 1, "the record says so");
    assert_eq!((by_key(&coll, 1).await, by_key(&coll, 2).await), (Some(1), Some(1)));
    until_unprobed_elsewhere(&client).await;
    gate.open();
    deciding.await.unwrap();
}

/// The lease stands still: queries of another collection need no probe.
async fn until_unprobed_elsewhere(client: &Client) {
    let elsewhere = client.database(&local_mongod::unique_db("elsewhere")).collection("docs");
    let mut session = client.session();
    session.begin().unwrap();
    drop(session);
    elsewhere.create_index(IndexModel::new(doc! {"k": 1})).await.unwrap();
    until_unprobed(client, &elsewhere).await;
}

/// A newcomer commits as soon as it can, and leaves its documents locked. The reader reads all the
/// time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_newcomer_commits_is_seen_at_once() {
    let server = started().await;
    let Reader { client, coll } = Reader::on(&server, quiet::options()).await.alone().await;
    let (done, stop) = tokio::sync::watch::channel(false);
    let asks = tokio::spawn({
        let coll = coll.clone();
        async move {
            while !*stop.borrow() {
                by_key(&coll, UNTOUCHED).await;
            }
        }
    });
    let newcomer = Client::connect_with(&server.uri(), finishing_after(UNFINISHED)).await.unwrap();
    let others = quiet::through(&newcomer, &coll);
    until_unprobed(&client, &coll).await;
    for n in 1..=20 {
        commit(&newcomer, &others, n).await;
        assert_eq!((by_key(&coll, 1).await, by_key(&coll, 2).await), (Some(n), Some(n)));
    }
    done.send_replace(true);
    asks.await.unwrap();
    newcomer.shutdown().await.unwrap();
}

/// The records as they are stored.
async fn records(server: &Server) -> Vec<Document> {
    let records = server.client().await.unwrap().database("mongotx").collection::<Document>("txs");
    let mut cursor = records.find(doc! {}).await.unwrap();
    let mut found = Vec::new();
    while cursor.advance().await.unwrap() {
        found.push(cursor.deserialize_current().unwrap());
    }
    found
}

/// A reader that ends without a message leaves a record with the flag of a lease. Newcomers wait
/// for it, but not for long; and where the record is closed, only once.
#[tokio::test]
async fn a_reader_that_is_gone_is_waited_for() {
    let server = started().await;
    let job = Reader::on(&server, quiet::options()).await;
    job.client.shutdown().await.unwrap();
    drop(Paused::start_and_lease(&server, &job.coll).await);
    let first_commit = async || {
        let begun = Instant::now();
        let newcomer = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
        let coll = quiet::through(&newcomer, &job.coll);
        tokio::time::timeout(LIMIT, commit(&newcomer, &coll, 1)).await.unwrap();
        newcomer.shutdown().await.unwrap();
        begun.elapsed()
    };
    assert!(first_commit().await >= Duration::from_secs(1), "it could hold its lease still");
    let sweeper = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
    let begun = Instant::now();
    while sweeper.sweep().await.unwrap().retired == 0 {
        assert!(begun.elapsed() < LIMIT, "the reader's record is not closed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = async || records(&server).await.iter().filter(|record| record.contains_key("readLease")).count();
    assert_eq!(said().await, 1);
    first_commit().await;
    assert_eq!(said().await, 0, "no reader waits for it again");
}

/// The test does not know for how long the client of such a record may read without probes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_cannot_be_read_is_waited_for() {
    let server = started().await;
    let Reader { client, coll } = Reader::on(&server, quiet::options()).await;
    client.shutdown().await.unwrap();
    let stored = server.client().await.unwrap().database("mongotx").collection::<Document>("txs");
    stored.insert_one(doc! {"readLease": "a text"}).await.unwrap();
    let newcomer = Client::connect_with(&server.uri(), quiet::options()).await.unwrap();
    let others = quiet::through(&newcomer, &coll);
    let committing = tokio::spawn(async move { commit(&newcomer, &others, 1).await });
    // Long enough for a commit that must not come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!committing.is_finished(), "it did not wait");
    stored.delete_one(doc! {"readLease": "a text"}).await.unwrap();
    tokio::time::timeout(LIMIT, committing).await.unwrap().unwrap();
}

/// The next client needs not wait.
#[tokio::test]
async fn a_client_that_ends_leaves_no_lease() {
    let server = started().await;
    for is_shut_down in [true, false] {
        let Reader { client, coll } = Reader::on(&server, quiet::options()).await.alone().await;
        assert!(records(&server).await.iter().any(|record| record.contains_key("readLease")));
        if is_shut_down {
            client.shutdown().await.unwrap();
            until_unprobed_is_refused(&coll).await;
        }
        drop((client, coll));
        let begun = Instant::now();
        while records(&server).await.iter().any(|record| record.contains_key("readLease")) {
            assert!(!is_shut_down && begun.elapsed() < LIMIT, "the lease is left behind");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// After the shutdown no lease is taken any more.
async fn until_unprobed_is_refused(coll: &Collection<Document>) {
    for _ in 0..300 {
        by_key(coll, UNTOUCHED).await;
    }
}

#[tokio::test]
async fn a_client_that_is_not_to_takes_no_lease() {
    let server = started().await;
    let options = ClientOptions { read_lease: false, ..quiet::options() };
    let Reader { client, coll } = Reader::on(&server, options).await;
    for _ in 0..600 {
        by_key(&coll, UNTOUCHED).await;
    }
    assert_eq!(client.metrics().unprobed, 0);
    assert!(!records(&server).await.iter().any(|record| record.contains_key("readLease")));
}

/// Each rolled back transaction stays in the record until it is replaced by a new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_is_replaced_does_not_end_the_lease() {
    let server = started().await;
    let Reader { client, coll } = Reader::on(&server, quiet::options()).await.alone().await;
    let flagged = async || {
        let all = records(&server).await;
        let flagged = all.iter().filter(|record| record.contains_key("readLease") && !record.contains_key("closedAt"));
        flagged.map(|record| record.get_document("readLease").unwrap().get_object_id("by").unwrap()).next()
    };
    let (name, begun) = (flagged().await, Instant::now());
    // Another collection: what is rolled back is in no transaction's way.
    let elsewhere = client.database(&local_mongod::unique_db("elsewhere")).collection::<Document>("docs");
    while records(&server).await.len() < 2 {
        assert!(begun.elapsed() < LIMIT, "the record is not replaced");
        for n in 0..100 {
            let mut session = client.session();
            session.begin().unwrap();
            elsewhere.insert_one(&doc! {"_id": n}).session(&mut session).await.unwrap();
            session.rollback().await.unwrap();
            by_key(&coll, UNTOUCHED).await;
        }
    }
    until_unprobed(&client, &coll).await;
    let before = client.metrics().unprobed;
    while client.metrics().unprobed < before + 1_000 {
        assert!(begun.elapsed() < LIMIT, "the lease is lost");
        by_key(&coll, UNTOUCHED).await;
    }
    assert_eq!(flagged().await, name, "the same lease");
}

/// A query that is sent again and answered otherwise ends the transaction at once, as without a
/// lease.
#[tokio::test]
async fn a_query_that_is_answered_otherwise_than_before_is_a_conflict() {
    let server = started().await;
    for read_lease in [true, false] {
        let options = ClientOptions { read_lease, isolation: Isolation::Snapshot, ..quiet::options() };
        let Reader { client, coll } = Reader::on(&server, options).await;
        if read_lease {
            until_unprobed(&client, &coll).await;
        }
        let mut session = client.session();
        session.begin().unwrap();
        let low = async |session: &mut Session| {
            let found = coll.find(doc! {"k": {"$lte": 2}}).session(session).await?;
            found.try_collect().await
        };
        assert_eq!(low(&mut session).await.unwrap().len(), 2);
        commit(&client, &coll, 1).await;
        assert_eq!(low(&mut session).await.unwrap_err().kind(), ErrorKind::Conflict);
        client.shutdown().await.unwrap();
    }
}

/// Reads until queries go without a probe. The record that was lost with the server before has to
/// be closed for that, by a sweep.
async fn swept(client: &Client, coll: &Collection<Document>) {
    let (before, begun) = (client.metrics().unprobed, Instant::now());
    while client.metrics().unprobed == before {
        assert!(begun.elapsed() < LIMIT, "no lease was taken: {:?}", client.metrics());
        client.sweep().await.unwrap();
        for _ in 0..200 {
            by_key(coll, UNTOUCHED).await;
        }
    }
}

/// Finishing is not journaled by itself: a server that is killed soon after it comes back with the
/// documents locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_server_brings_back_is_settled_anew() {
    let seldom = ["--journalCommitInterval", "500"];
    let options = seldom.into_iter().fold(ServerOptions::standalone(), ServerOptions::arg);
    let server = options.start().await.unwrap();
    let Reader { client, coll } = Reader::on(&server, finishing_after(Duration::ZERO)).await.alone().await;
    for n in 1..=3 {
        swept(&client, &coll).await;
        commit(&client, &coll, n).await;
        assert!(client.flush(LIMIT).await);
        server.kill().unwrap();
        server.restart().await.unwrap();
        // The first commands find broken connections.
        let begun = Instant::now();
        while let Err(error) = coll.find_one(doc! {"k": UNTOUCHED}).await {
            assert!(begun.elapsed() < LIMIT, "{error}");
        }
        if n == 2 {
            swept(&client, &coll).await;
        }
        assert_eq!((by_key(&coll, 1).await, by_key(&coll, 2).await), (Some(n), Some(n)));
    }
}

const PAUSED: &str = "read_lease::a_reader_that_was_paused_does_not_go_on_as_before";
const JOB: &str = "MONGOTX_PAUSED_READER";

/// The process of a reader that is paused: it says what it reads, again and again.
async fn read_on(job: &str) {
    let [uri, db, coll] = job.split('|').collect::<Vec<_>>()[..] else { panic!("{job}") };
    let options = ClientOptions { lease: Duration::from_secs(2), ..quiet::options() };
    let client = Client::connect_with(uri, options).await.unwrap();
    let coll = client.database(db).collection(coll);
    loop {
        let n = by_key(&coll, 1).await.unwrap();
        report(&format!("{} {n}", client.metrics().unprobed)).unwrap();
    }
}

/// A reader in a process of its own, which ends with its handle.
struct Paused {
    process: Child,
    _input: ChildStdin,
    /// Queries that went without a probe, and what was read.
    heard: Arc<Mutex<Vec<(u64, i32)>>>,
}

impl Paused {
    fn start(server: &Server, coll: &Collection<Document>) -> Self {
        let job = format!("{}|{}|{}", server.uri(), coll.namespace().db, coll.namespace().coll.as_str());
        let mut process = again(PAUSED, JOB, &job).unwrap().stdin(Stdio::piped()).spawn().unwrap();
        let readings: Arc<Mutex<Vec<(u64, i32)>>> = Arc::default();
        let inner = Arc::clone(&readings);
        local_mongod::listen(process.stdout.take().unwrap(), move |words| {
            let (unprobed, n) = words.split_once(' ').unwrap();
            inner.lock().unwrap().push((unprobed.parse().unwrap(), n.parse().unwrap()));
        });
        Self { _input: process.stdin.take().unwrap(), process, heard: readings }
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    fn heard(&self) -> Vec<(u64, i32)> {
        self.heard.lock().unwrap().clone()
    }

    /// Starts the reader, and waits until it has its lease.
    async fn start_and_lease(server: &Server, coll: &Collection<Document>) -> Self {
        let reader = Self::start(server, coll);
        reader.until("the reader takes no lease", |heard| heard.iter().any(|(unprobed, _)| *unprobed > 50)).await;
        reader
    }

    async fn until(&self, what: &str, enough: impl Fn(&[(u64, i32)]) -> bool) {
        let begun = Instant::now();
        while !enough(&self.heard()) {
            assert!(begun.elapsed() < LIMIT, "{what}: {:?}", self.heard().last());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A client is paused until a sweep has closed its record and another client has committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_was_paused_does_not_go_on_as_before() {
    if let Ok(job) = std::env::var(JOB) {
        // On one thread, where the next query is sent before the lease can be renewed or lost.
        let alone = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return std::thread::spawn(move || alone().block_on(read_on(&job))).join().unwrap();
    }
    assert_eq!(heard("@1 2"), Some("1 2"));
    let server = started().await;
    let Reader { client, coll } = Reader::on(&server, quiet::options()).await;
    client.shutdown().await.unwrap();
    let reader = Paused::start_and_lease(&server, &coll).await;
    reader.signal("-STOP");
    let newcomer = Client::connect_with(&server.uri(), finishing_after(UNFINISHED)).await.unwrap();
    let begun = Instant::now();
    while newcomer.sweep().await.unwrap().retired == 0 {
        assert!(begun.elapsed() < LIMIT, "the reader's record is not closed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let others = quiet::through(&newcomer, &coll);
    commit(&newcomer, &others, 7).await;
    let before = reader.heard().len();
    reader.signal("-CONT");
    // One query was under way, or the line about it.
    reader.until("the reader stays silent", |heard| heard.len() > before + 10).await;
    let after = reader.heard().split_off(before);
    assert!(after[1..].iter().all(|(_, n)| *n == 7), "{after:?}");
}
