//! In front of three nodes: a write that only the old primary has is answered as the server answers
//! it, and is no commit.

use crate::common;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use common::commands::{Client, Session, code, documents, has_label, is_ok};
use futures_util::future::BoxFuture;
use local_mongod::{ReplicaSet, Server};
use mongotx::{ClientOptions, Outcome, Step, StepHook, TxId};
use mongotx_gateway::GatewayOptions;
use tokio::sync::Semaphore;

/// Longest time that a test waits for anything.
const LIMIT: Duration = Duration::from_secs(90);

async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, wait).await.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"));
}

/// Waits until one member has such a document, whatever the others know.
async fn until_has(member: &Server, db: &str, coll: &str, filter: Document) {
    let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", member.port());
    let alone = mongodb::Client::with_uri_str(uri).await.unwrap().database(db).collection::<Document>(coll);
    until("a document on one member", async || alone.find_one(filter.clone()).await.is_ok_and(|found| found.is_some()))
        .await;
}

/// Holds the gateway at every decision, until the test lets it go on, and then for ever before it
/// finishes what was decided, as if it had died.
struct Gate {
    reached_once: AtomicBool,
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (reached, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        Arc::new(Self { reached_once: AtomicBool::default(), reached, open })
    }
}

impl StepHook for Gate {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        if step == Step::BeforeFinish && self.reached_once.load(SeqCst) {
            return Box::pin(std::future::pending());
        }
        let held = step == Step::BeforeDecision;
        self.reached_once.fetch_or(held, SeqCst);
        let (reached, open) = (Arc::clone(&self.reached), Arc::clone(&self.open));
        Box::pin(async move {
            if held {
                reached.add_permits(1);
                drop(open.acquire().await);
            }
        })
    }
}

async fn in_front_of(set: &ReplicaSet, hook: Option<Arc<dyn StepHook>>) -> Client {
    let client = ClientOptions { hook, sweep: false, lease: Duration::from_secs(120), ..ClientOptions::default() };
    let uri = format!("{}&serverSelectionTimeoutMS=8000", set.uri());
    Client::in_front_of(
        uri,
        local_mongod::unique_db("gw_replicas"),
        GatewayOptions { client, ..GatewayOptions::default() },
    )
    .await
}

async fn roles(set: &ReplicaSet) -> (&Server, &Server) {
    let primary = set.primary().await.unwrap();
    (primary, set.members().iter().find(|member| member.port() != primary.port()).unwrap())
}

/// Waits until the other member is primary, and the old one has dropped what it alone had.
async fn fail_over(set: &ReplicaSet, next: &Server) {
    set.fail_over_to(next).await.unwrap();
    set.go_on_replicating().await.unwrap();
    set.until_all_follow().await.unwrap();
    set.wait().await.unwrap();
}

fn increment(id: i32) -> Document {
    doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$inc": {"n": 1}}}]}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_the_old_primary_has_is_no_commit_and_a_write_concern_error() {
    let set = ReplicaSet::start_with(3, &ReplicaSet::breakable()).await.unwrap();
    commit_that_is_lost(&set).await;
    write_that_is_lost(&set).await;
    read_of_what_is_lost(&set).await;
    more_than_the_majority(&set).await;
    of_what_the_server_gets_as_it_came(&set).await;
}

async fn commit_that_is_lost(set: &ReplicaSet) {
    let gate = Gate::new();
    let gateway = Arc::new(in_front_of(set, Some(Arc::clone(&gate) as Arc<dyn StepHook>)).await);
    gateway.ok(doc! {"insert": "c", "documents": [{"_id": 1, "n": 0}, {"_id": 2, "n": 0}]}).await;
    let session = Session::new();
    gateway.ok(session.first(increment(1))).await;
    gateway.ok(session.next(increment(2))).await;
    let mut commit = session.commit();
    commit.insert("writeConcern", doc! {"w": "majority"});
    commit.insert("$db", "admin");
    let inner = Arc::clone(&gateway);
    let commit = tokio::spawn(async move { inner.run_on("admin", commit).await });
    tokio::time::timeout(LIMIT, gate.reached.acquire()).await.unwrap().unwrap().forget();
    let (old, next) = roles(set).await;
    set.stop_replication(next).await.unwrap();
    gate.open.add_permits(1_000);
    until_has(old, &format!("{}_tx", gateway.db), "txs", doc! {"committed": 1_i64}).await;
    fail_over(set, next).await;
    let answer = commit.await.unwrap();
    assert!(is_ok(&answer) || has_label(&answer, "TransientTransactionError"), "the new primary can tell: {answer}");
    // A rival, which finds it undecided or decided.
    let options = ClientOptions { tx_database: format!("{}_tx", gateway.db), sweep: false, ..ClientOptions::default() };
    let rival = mongotx::Client::connect_with(&set.uri(), options).await.unwrap();
    let client = rival.clients().await.unwrap().pop().unwrap().id;
    let outcome = rival.abort(TxId { client, seq: 1 }).await.unwrap();
    assert_eq!(is_ok(&answer), outcome == Outcome::Committed, "acknowledged, and lost: {answer}, {outcome:?}");
    let coll = rival.database(&gateway.db).collection::<Document>("c");
    for id in [1, 2] {
        let kept = coll.find_one(doc! {"_id": id}).await.unwrap().unwrap();
        assert_eq!(kept.get_i32("n").unwrap(), i32::from(is_ok(&answer)), "{answer}, {kept}");
    }
}

async fn write_that_is_lost(set: &ReplicaSet) {
    let gateway = Arc::new(in_front_of(set, None).await);
    for id in 1..=5 {
        gateway.ok(doc! {"insert": "c", "documents": [{"_id": id, "n": 0}]}).await;
    }
    let (old, next) = roles(set).await;
    set.stop_replication(next).await.unwrap();
    let (session, other) = (Arc::new(Session::new()), Session::new());
    let modify = doc! {"findAndModify": "c", "query": {"_id": 3}, "update": {"$inc": {"n": 1}}, "new": true};
    let several = doc! {"update": "c", "updates": [
        {"q": {"_id": 4}, "u": {"$inc": {"n": 1}}},
        {"q": {"_id": 5}, "u": {"$inc": {"n": 1}}},
        {"q": {"_id": 6}, "u": {"$inc": {"n": 1}}, "upsert": true},
    ]};
    let commands = [session.write(increment(1)), increment(2), modify, other.write(several.clone())];
    let answers = commands.map(|command| {
        let inner = Arc::clone(&gateway);
        tokio::spawn(async move { inner.run_command(command).await })
    });
    for id in 1..=6 {
        until_has(old, &gateway.db, "c", doc! {"_id": id, "n": 1}).await;
    }
    fail_over(set, next).await;
    for (place, answer) in answers.into_iter().enumerate() {
        let answer = answer.await.unwrap();
        let missed = answer.get_document("writeConcernError").unwrap_or_else(|_| panic!("{place}: {answer}"));
        assert!(is_ok(&answer) && [91, 189, 11_602].contains(&missed.get_i32("code").unwrap()), "{answer}");
        assert_eq!(has_label(&answer, "RetryableWriteError"), [0, 3].contains(&place), "{answer}");
        match place {
            3 => {
                let counts = ["n", "nModified"].map(|count| answer.get_i32(count).unwrap());
                let upserted = doc! {"index": 2, "_id": 6};
                assert_eq!(
                    (counts, answer.get_array("upserted").unwrap()),
                    ([3, 2], &vec![upserted.into()]),
                    "{answer}"
                );
            }
            2 => assert_eq!(answer.get_document("value").unwrap().get_i32("n").unwrap(), 1, "{answer}"),
            _ => assert_eq!(answer.get_i32("nModified").unwrap(), 1, "{answer}"),
        }
    }
    // No answer may say that it was made.
    for again in [session.again(increment(1)), other.again(several)] {
        let again = gateway.run_command(again).await;
        assert_eq!(code(&again), 89, "{again}");
    }
    let kept = gateway.all("c").await;
    assert!(kept.iter().all(|document| document.get_i32("n").unwrap() == 0), "{kept:?}");
}

/// One document is read by one command, and yet not from a primary that alone has it.
async fn read_of_what_is_lost(set: &ReplicaSet) {
    let gateway = Arc::new(in_front_of(set, None).await);
    gateway.ok(doc! {"insert": "c", "documents": [{"_id": 1, "n": 0}]}).await;
    let (old, next) = roles(set).await;
    set.stop_replication(next).await.unwrap();
    let run_command = |command: Document| {
        let inner = Arc::clone(&gateway);
        tokio::spawn(async move { inner.run_command(command).await })
    };
    let written = run_command(increment(1));
    until_has(old, &gateway.db, "c", doc! {"_id": 1, "n": 1}).await;
    let read = run_command(doc! {"find": "c", "filter": {"_id": 1}, "readConcern": {"level": "linearizable"}});
    // Long enough for an answer that must not come.
    tokio::time::sleep(Duration::from_secs(1)).await;
    fail_over(set, next).await;
    written.await.unwrap();
    let answer = read.await.unwrap();
    match code(&answer) {
        0 => assert_eq!(documents(&answer, "firstBatch"), [doc! {"_id": 1, "n": 0}], "{answer}"),
        // Drivers send it again.
        code => assert!([89, 262].contains(&code), "{answer}"),
    }
}

async fn more_than_the_majority(set: &ReplicaSet) {
    let gateway = in_front_of(set, None).await;
    let mut command = increment(1);
    command.insert("writeConcern", doc! {"w": 3});
    let answer = gateway.ok(command.clone()).await;
    assert!(!answer.contains_key("writeConcernError"), "{answer}");
    command.insert("writeConcern", doc! {"w": 4, "wtimeout": 500});
    let answer = gateway.run_command(command).await;
    assert_eq!(answer.get_document("writeConcernError").unwrap().get_i32("code").unwrap(), 100, "{answer}");
}

/// Writes to a capped collection, and commands about collections, wait as others do.
async fn of_what_the_server_gets_as_it_came(set: &ReplicaSet) {
    let gateway = in_front_of(set, None).await;
    gateway.ok(doc! {"create": "capped", "capped": true, "size": 4096}).await;
    let server = set.client().await.unwrap().database(&gateway.db);
    server.run_command(doc! {"profile": 2}).await.unwrap();
    for (id, concern) in [(1, None), (2, Some(doc! {"w": 1}))] {
        let mut insert = doc! {"insert": "capped", "documents": [{"_id": id}]};
        insert.extend(concern.map(|concern| ("writeConcern".to_owned(), concern.into())));
        gateway.ok(insert).await;
    }
    server.run_command(doc! {"profile": 0}).await.unwrap();
    let profile = server.collection::<Document>("system.profile");
    let waited = doc! {"command.insert": "capped", "command.writeConcern.w": "majority"};
    assert_eq!(profile.count_documents(waited).await.unwrap(), 2);
    for mut command in [
        doc! {"insert": "capped", "documents": [{"_id": 3}]},
        doc! {"create": "made"},
        doc! {"createIndexes": "made", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
        doc! {"aggregate": "c", "pipeline": [{"$out": "made"}], "cursor": {}},
        doc! {"drop": "made"},
    ] {
        command.insert("writeConcern", doc! {"w": 3});
        let answer = gateway.ok(command.clone()).await;
        assert!(!answer.contains_key("writeConcernError"), "{command}: {answer}");
        let name = command.keys().next().cloned().unwrap();
        if name != "drop" && name != "insert" {
            continue;
        }
        command.insert("writeConcern", doc! {"w": 4, "wtimeout": 500});
        command.insert(name.clone(), "capped");
        command.get_array_mut("documents").map(|all| all[0] = doc! {"_id": 4}.into()).ok();
        let answer = gateway.run_command(command).await;
        let missed = answer.get_document("writeConcernError").unwrap_or_else(|_| panic!("{name}: {answer}"));
        assert_eq!(code(missed), 100, "{answer}");
    }
}

/// More writers than the gateway has connections to the server want a member that is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_who_wait_for_a_member_that_is_down_keep_nobody_waiting() {
    let set = ReplicaSet::start_with(3, &ReplicaSet::breakable()).await.unwrap();
    let gateway = Arc::new(in_front_of(&set, None).await);
    gateway.ok(doc! {"insert": "c", "documents": [{"_id": 0}]}).await;
    roles(&set).await.1.kill().unwrap();
    let concern = doc! {"w": 3, "wtimeout": 3_600_000};
    let committing = Session::new();
    gateway.ok(committing.first(doc! {"insert": "c", "documents": [{"_id": -1}]})).await;
    let mut commit = committing.commit();
    commit.insert("writeConcern", concern.clone());
    let waiting: Vec<_> = (1..=20)
        .map(|id| {
            let (gateway, concern) = (Arc::clone(&gateway), concern.clone());
            let insert = doc! {"insert": "c", "documents": [{"_id": id}], "writeConcern": concern};
            tokio::spawn(async move { gateway.run_command(insert).await })
        })
        .collect();
    let ending = tokio::spawn({
        let gateway = Arc::clone(&gateway);
        async move { gateway.run_on("admin", commit).await }
    });
    let count = doc! {"count": "c"};
    until("all are inserted", async || gateway.ok(count.clone()).await.get_i32("n").unwrap() == 22).await;
    // All of them wait now, and others go on; the session that waits can be killed.
    for id in 100..200 {
        gateway.ok(doc! {"insert": "c", "documents": [{"_id": id}]}).await;
        gateway.ok(doc! {"find": "c", "filter": {"_id": id}}).await;
    }
    gateway.ok(doc! {"killSessions": [committing.lsid.clone()]}).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()) && !ending.is_finished());
    // With the client they end.
    gateway.disconnect().await;
    for ended in waiting.into_iter().chain([ending]) {
        let answer = tokio::time::timeout(LIMIT, ended).await.expect("it goes on waiting").unwrap();
        let missed = answer.get_document("writeConcernError").unwrap();
        assert_eq!(missed.get_i32("code").unwrap(), 64, "{answer}");
    }
}
