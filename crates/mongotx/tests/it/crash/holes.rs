//! Losses at a restart: prepared writes, read locks and finished documents that were acknowledged
//! and not yet in the journal (protocol notes 3.13 and 3.14).

use std::time::Duration;

use bson::{Document, doc};
use local_mongod::Server;
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Outcome, Session, TransactionOptions};

use crate::common::{until, world::World};
use crate::crash::server::{crash, forgetful_server};

const LEASE_MS: u64 = 30_000;
/// Number of attempts to lose what may or may not be lost.
const ROUNDS: i32 = 4;

struct Scene {
    server: Server,
    world: World,
    client: Client,
    a: Collection<Document>,
}

impl Scene {
    /// Three documents, durably, and a client that has a connection for its record already.
    async fn set_up(lease_ms: u64) -> Self {
        let server = forgetful_server().await;
        let world = World::new(&server.uri(), "holes");
        let documents = (1..=3).map(|id| doc! {"_id": id, "n": 0});
        let raw = world.raw().await.database(&world.db);
        raw.collection::<Document>("a").insert_many(documents).await.unwrap();
        let client = world.client(lease_ms).await;
        let a = world.collection(&client, "a");
        let mut session = client.session();
        session.begin().unwrap();
        a.update_one(doc! {"_id": 3}, doc! {"$set": {"warm": true}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
        world.make_durable().await;
        Self { server, world, client, a }
    }

    async fn add_one(&self, session: &mut Session, id: i32) -> mongotx::Result<()> {
        self.a.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(session).await.map(drop)
    }

    /// Through another client: the numbers of documents 1 and 2.
    async fn numbers(&self) -> (i32, i32) {
        let other = self.world.client(LEASE_MS).await;
        let a = self.world.collection(&other, "a");
        let mut found = Vec::new();
        for id in [1, 2] {
            found.push(a.find_one(doc! {"_id": id}).await.unwrap().unwrap().get_i32("n").unwrap());
        }
        (found[0], found[1])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_two_prepared_writes_commits_without_a_hole() {
    let scene = Scene::set_up(LEASE_MS).await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.add_one(&mut session, 1).await.unwrap();
    let id = session.id().unwrap();
    crash(&scene.server).await;
    // The driver comes back by itself, perhaps after an error that ends the transaction.
    let done = match scene.add_one(&mut session, 2).await {
        Ok(()) => session.commit().await,
        Err(error) => Err(error),
    };
    let error = done.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Expired | ErrorKind::Unavailable), "{error}");
    assert_eq!(scene.numbers().await, (0, 0));
    assert_ne!(scene.client.outcome(id).await.unwrap(), Outcome::Committed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_writes_with_a_sign_of_life_between_commits_without_a_hole() {
    // Signs of life every 100 ms: the connection for the record is new again when the commit comes.
    let scene = Scene::set_up(300).await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.add_one(&mut session, 1).await.unwrap();
    crash(&scene.server).await;
    let writes = scene.client.metrics().record_writes;
    // A client that stood still while the server was away gives the record up, and cannot write
    // that into the record.
    const GIVEN_UP: Duration = Duration::from_secs(25);
    until("signs of life, or the end of the record", async || {
        let records = scene.client.clients().await.unwrap();
        let ended = records.iter().any(|record| record.fenced || record.silent > GIVEN_UP);
        (ended || scene.client.metrics().record_writes > writes + 3).then_some(())
    })
    .await;
    let done = match scene.add_one(&mut session, 2).await {
        Ok(()) => session.commit().await,
        Err(error) => Err(error),
    };
    let error = done.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Expired | ErrorKind::Unavailable), "{error}");
    assert_eq!(scene.numbers().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_a_read_lock_does_not_commit_on_it() {
    let scene = Scene::set_up(LEASE_MS).await;
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    let mut session = scene.client.session_with(options);
    session.begin().unwrap();
    let read = scene.a.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap().unwrap();
    assert_eq!(read.get_i32("n").unwrap(), 0);
    crash(&scene.server).await;
    let rival = scene.world.client(LEASE_MS).await;
    let theirs = scene.world.collection(&rival, "a");
    let free = theirs.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 100}});
    // The write may have to wait for a read lock that was not lost.
    let changed = tokio::time::timeout(Duration::from_secs(2), async { free.await.unwrap() }).await.is_ok();
    let done = match scene.add_one(&mut session, 2).await {
        Ok(()) => session.commit().await,
        Err(error) => Err(error),
    };
    assert!(done.is_err(), "committed on a read that was taken back; changed: {changed}");
    assert_eq!(scene.numbers().await.1, 0);
}

/// The transaction's number leaves the record, and that is not in the journal, nor are its finished
/// documents: afterwards the owner remembers more than the server does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_finishing_owner_does_not_roll_back_what_came_back() {
    let scene = Scene::set_up(LEASE_MS).await;
    let raw = scene.world.raw().await.database(&scene.world.db);
    for (round, more) in (1..=ROUNDS).flat_map(|round| (1..=2).map(move |more| (round, more))) {
        raw.create_collection(format!("more{round}{more}")).await.unwrap();
    }
    for round in 1..=ROUNDS {
        let mut session = scene.client.session();
        let id = session
            .with_transaction(async |session| {
                scene.add_one(session, 1).await?;
                scene.add_one(session, 2).await?;
                Ok(session.id().unwrap())
            })
            .await
            .unwrap();
        assert!(scene.client.flush(Duration::from_secs(10)).await);
        // A collection that is new to the record takes a write to it that does not wait for the
        // journal: the first is the evidence, the second raises the mark.
        let mut next = scene.client.session();
        next.begin().unwrap();
        for more in 1..=2 {
            let coll: Collection<Document> =
                scene.client.database(&scene.world.db).collection(&format!("more{round}{more}"));
            coll.insert_one(&doc! {"_id": 1}).session(&mut next).await.unwrap();
        }
        crash(&scene.server).await;
        let stored = scene.world.stored(&scene.world.db, "a").await;
        let came_back = stored.iter().filter(|document| document.contains_key("_xTxId")).count();
        println!("round {round}: {came_back} locks came back");
        let found = scene.a.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
        assert_eq!(found.get_i32("n").unwrap(), round, "the owner, by _id");
        let all = scene.a.find(doc! {"n": round}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(all.len(), 2, "the owner, by query");
        assert_eq!(scene.numbers().await, (round, round));
        assert_eq!(scene.client.outcome(id).await.unwrap(), Outcome::Committed);
        // Whatever became of it.
        drop(next.rollback().await);
    }
}

/// The owner has finished what it left in one collection, and not in the other one. The first is
/// locked again afterwards, though the owner remembers it as clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_finishing_one_collection_owner_finishes_again_what_came_back() {
    let scene = Scene::set_up(LEASE_MS).await;
    let options = ClientOptions { finish_delay: Duration::from_secs(10), ..scene.world.options(LEASE_MS) };
    let client = Client::connect_with(&scene.world.uri, options).await.unwrap();
    let [a, b] = ["a", "b"].map(|name| scene.world.collection(&client, name));
    let all_of = async |n: i32| {
        let found = a.find(doc! {"_id": {"$lte": 2}, "n": n}).await.unwrap();
        found.try_collect().await.unwrap().len()
    };
    let locked = async || {
        let stored = scene.world.stored(&scene.world.db, "a").await;
        stored.iter().filter(|document| document.contains_key("_xTxId")).count()
    };
    b.insert_one(&doc! {"_id": 1}).await.unwrap();
    // The journal may have been written just before.
    let mut came_back = 0;
    for round in 1..=5 * ROUNDS {
        let mut session = client.session();
        let change = doc! {"$set": {"n": round}};
        let transaction = session.with_transaction(async |session| {
            a.update_many(doc! {"_id": {"$lte": 2}}, change.clone()).session(session).await?;
            b.update_one(doc! {"_id": 1}, change.clone()).session(session).await.map(drop)
        });
        transaction.await.unwrap();
        until("the query has the first collection finished", async || {
            assert_eq!(all_of(round).await, 2, "before");
            (locked().await == 0).then_some(())
        })
        .await;
        crash(&scene.server).await;
        came_back += locked().await;
        assert_eq!(all_of(round).await, 2, "the owner, by query, in round {round}");
        assert_eq!(scene.numbers().await, (round, round));
        if round >= ROUNDS && came_back > 0 {
            return;
        }
    }
    panic!("no lock came back in any round");
}
