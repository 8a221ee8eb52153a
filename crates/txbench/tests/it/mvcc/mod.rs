//! The baseline with versions, when its clients die: their leftovers are resolved by the clients
//! that meet them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bson::{Document, Timestamp, doc};
use local_mongod::{Server, shared_standalone, unique_db};
use mongodb::Collection;
use txbench::{
    error::OpError,
    targets::{Connection, Find, Session, Target, TxOptions, Update, registry::TargetName},
};

const DOCS: &str = "docs";
/// Longest time that a server is looked for.
const LIMIT: Duration = Duration::from_secs(60);

struct Rig {
    target: Box<dyn Target>,
    /// The versions as they are stored.
    stored: Collection<Document>,
}

async fn rig() -> Rig {
    rig_on(shared_standalone().await.unwrap(), "").await
}

/// On this server, with more options of the connection.
async fn rig_on(server: &Server, options: &str) -> Rig {
    let db = unique_db("mvcc");
    let stored = server.client().await.unwrap().database(&db).collection(DOCS);
    let target = connect(server, options, &db).await;
    target.create(DOCS, &[]).await.unwrap();
    target.load(DOCS, (0..3).map(|id| doc! {"_id": id, "n": 0}).collect()).await.unwrap();
    Rig { target, stored }
}

/// Where little time is given to find the server, it may take several attempts.
async fn connect(server: &Server, options: &str, db: &str) -> Box<dyn Target> {
    let begun = Instant::now();
    loop {
        let connection = Connection::new(server.uri() + options, db, 4);
        match ("mvcc".parse::<TargetName>().unwrap().entry().connect)(connection).await {
            Ok(target) => return target,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
        }
    }
}

impl Rig {
    async fn session(&self) -> Box<dyn Session> {
        self.target.session().await.unwrap()
    }

    /// A client that has added one to documents 0 and 1 and is gone.
    async fn dead_client(&self) {
        let mut session = self.session().await;
        session.begin(&TxOptions::default()).await.unwrap();
        session.update(DOCS, increment(0)).await.unwrap();
        session.update(DOCS, increment(1)).await.unwrap();
    }

    /// Makes the time of the open transaction be up.
    async fn expire(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let past = Timestamp { time: u32::try_from(now).unwrap() - 11, increment: 1 };
        let update = doc! {"$set": {"_since": past}};
        let aged = self.stored.update_one(doc! {"_since": {"$exists": true}}, update).await.unwrap();
        assert_eq!(aged.modified_count, 1);
    }

    async fn values(&self) -> Vec<i32> {
        let mut session = self.session().await;
        let found = session.find(DOCS, Find::new(doc! {}).sort(doc! {"_id": 1})).await.unwrap();
        found.iter().map(|found| found.get_i32("n").unwrap()).collect()
    }

    async fn locks(&self) -> u64 {
        self.stored.count_documents(doc! {"_lock": {"$exists": true}}).await.unwrap()
    }
}

fn increment(id: i32) -> Update {
    Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"n": 1}} }
}

#[tokio::test]
async fn a_transaction_whose_time_is_not_up_is_left_alone() {
    let rig = rig().await;
    rig.dead_client().await;
    assert_eq!(rig.values().await, [0, 0, 0]);
    for id in [0, 1] {
        let refused = rig.session().await.update(DOCS, increment(id)).await;
        assert!(matches!(refused, Err(OpError::Conflict("locked"))), "{refused:?}");
    }
    assert_eq!(rig.locks().await, 2);
    assert!(rig.target.leftovers(&[DOCS]).await.unwrap().is_some());
}

#[tokio::test]
async fn a_transaction_whose_time_is_up_is_rolled_back_by_a_writer_at_its_primary() {
    let rig = rig().await;
    rig.dead_client().await;
    rig.expire().await;
    assert!(rig.session().await.update(DOCS, increment(0)).await.unwrap());
    assert_eq!(rig.values().await, [1, 0, 0]);
    assert!(rig.session().await.update(DOCS, increment(1)).await.unwrap());
    rig.target.settle().await.unwrap();
    assert_eq!(rig.values().await, [1, 1, 0]);
    assert_eq!(rig.target.leftovers(&[DOCS]).await.unwrap(), None);
}

#[tokio::test]
async fn a_transaction_whose_time_is_up_is_rolled_back_by_a_query_at_another_document() {
    let rig = rig().await;
    rig.dead_client().await;
    rig.expire().await;
    let found = rig.session().await.find(DOCS, Find::new(doc! {"n": {"$lt": 5}})).await.unwrap();
    assert!(found.iter().all(|found| found.get_i32("n").unwrap() == 0) && found.len() == 3, "{found:?}");
    assert_eq!(rig.locks().await, 0);
    assert_eq!(rig.target.leftovers(&[DOCS]).await.unwrap(), None);
}

#[tokio::test]
async fn a_client_that_was_rolled_back_cannot_commit_any_more() {
    let rig = rig().await;
    let mut slow = rig.session().await;
    slow.begin(&TxOptions::default()).await.unwrap();
    slow.update(DOCS, increment(0)).await.unwrap();
    slow.update(DOCS, increment(1)).await.unwrap();
    rig.expire().await;
    assert!(rig.session().await.update(DOCS, increment(0)).await.unwrap());
    let refused = slow.commit().await;
    assert!(matches!(refused, Err(OpError::Conflict("expired"))), "{refused:?}");
    rig.target.settle().await.unwrap();
    assert_eq!(rig.values().await, [1, 0, 0]);
    assert_eq!(rig.target.leftovers(&[DOCS]).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_holds_when_its_client_dies_before_the_other_documents_are_unlocked() {
    let rig = rig().await;
    rig.dead_client().await;
    let primary = rig.stored.find_one(doc! {"_since": {"$exists": true}}).await.unwrap().unwrap();
    let tx = primary.get_document("_lock").unwrap().get_object_id("tx").unwrap();
    let update = doc! {"$unset": {"_lock": "", "_since": ""}, "$set": {"_done": tx}};
    rig.stored.update_one(doc! {"_id": primary.get("_id").unwrap()}, update).await.unwrap();
    // By key, by range, by another field, and for writing.
    let mut session = rig.session().await;
    let by_key = session.find_one(DOCS, Find::new(doc! {"_id": 1})).await.unwrap();
    assert_eq!(by_key, Some(doc! {"_id": 1, "n": 1}));
    assert_eq!(rig.values().await, [1, 1, 0]);
    assert_eq!(session.find(DOCS, Find::new(doc! {"n": 1})).await.unwrap().len(), 2);
    assert_eq!(session.find(DOCS, Find::new(doc! {"n": 0})).await.unwrap().len(), 1);
    assert!(session.update(DOCS, increment(1)).await.unwrap());
    rig.target.settle().await.unwrap();
    assert_eq!(rig.locks().await, 0);
    assert_eq!(rig.values().await, [1, 2, 0]);
}

#[tokio::test]
async fn a_commit_that_a_crash_interrupts_is_whole_or_nothing_once_the_server_is_back() {
    let server = Server::standalone().await.unwrap();
    let rig = rig_on(&server, "&serverSelectionTimeoutMS=200").await;
    let mut session = rig.session().await;
    // Loading waits for no disk; this commit does.
    session.update(DOCS, increment(2)).await.unwrap();
    session.begin(&TxOptions::default()).await.unwrap();
    session.update(DOCS, increment(0)).await.unwrap();
    session.update(DOCS, increment(1)).await.unwrap();
    server.kill().unwrap();
    let answer = session.commit().await;
    assert!(matches!(answer, Err(OpError::Unknown(_))), "{answer:?}");
    server.restart().await.unwrap();
    rig.target.settle().await.unwrap();
    assert_eq!(rig.target.leftovers(&[DOCS]).await.unwrap(), None);
    assert_eq!(rig.values().await, [0, 0, 1]);
    assert!(rig.session().await.update(DOCS, increment(1)).await.unwrap());
    assert_eq!(rig.values().await, [0, 1, 1]);
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_name() {
    let rig = rig().await;
    let mut session = rig.session().await;
    let rename = Update { filter: doc! {"_id": 0}, update: doc! {"$rename": {"n": "m"}} };
    for (refused, what) in [
        (session.update(DOCS, rename).await.map(drop), "$rename"),
        (session.aggregate(DOCS, Vec::new()).await.map(drop), "aggregate"),
        (session.find(DOCS, Find::new(doc! {"$expr": {"$eq": ["$n", 0]}})).await.map(drop), "$expr"),
        (session.insert(DOCS, vec![doc! {"_id": 9, "_lock": 1}]).await, "_lock"),
    ] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("mvcc") && said.contains(what), "{said}");
    }
    rig.target.settle().await.unwrap();
    assert_eq!(rig.target.leftovers(&[DOCS]).await.unwrap(), None);
}

#[tokio::test]
async fn reads_and_writes_take_as_many_commands_as_is_said() {
    let rig = rig().await;
    let mut session = rig.session().await;
    let sent = |rig: &Rig| rig.target.commands().into_iter().filter(|(name, _)| name != "delete").map(|(_, n)| n).sum();
    let mut before: u64 = sent(&rig);
    let mut expect = |rig: &Rig, n: u64, what: &str| {
        let now: u64 = sent(rig);
        assert_eq!(now - before, n, "{what}");
        before = now;
    };
    session.begin(&TxOptions::default()).await.unwrap();
    session.find_one(DOCS, Find::new(doc! {"_id": 1})).await.unwrap();
    expect(&rig, 1, "a document by its key");
    session.find(DOCS, Find::new(doc! {"_id": {"$gte": 1}}).limit(2)).await.unwrap();
    expect(&rig, 1, "a range of keys");
    session.find(DOCS, Find::new(doc! {"n": 0})).await.unwrap();
    expect(&rig, 2, "a query");
    session.update(DOCS, increment(1)).await.unwrap();
    expect(&rig, 1, "an update of what was read");
    session.update(DOCS, increment(1)).await.unwrap();
    expect(&rig, 1, "another update of it");
    session.update_each(DOCS, vec![increment(0), increment(2)]).await.unwrap();
    expect(&rig, 2, "updates by keys");
    session.commit().await.unwrap();
    rig.target.settle().await.unwrap();
    expect(&rig, 2, "the commit, and the other documents");
    session.begin(&TxOptions::default()).await.unwrap();
    session.find_one(DOCS, Find::new(doc! {"_id": 1})).await.unwrap();
    session.commit().await.unwrap();
    expect(&rig, 1, "a transaction that only reads");
}

#[tokio::test]
async fn an_update_on_the_strength_of_an_old_read_is_a_conflict_and_not_made_over_a_rival_s() {
    let rig = rig().await;
    let mut session = rig.session().await;
    session.begin(&TxOptions { no_lost_updates: true, ..TxOptions::default() }).await.unwrap();
    session.find_one(DOCS, Find::new(doc! {"_id": 0})).await.unwrap();
    assert!(rig.session().await.update(DOCS, increment(0)).await.unwrap());
    // Longer than the time for which a version may be built on a read.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let refused = session.update(DOCS, increment(0)).await;
    assert!(matches!(refused, Err(OpError::Conflict("slow read"))), "{refused:?}");
}
