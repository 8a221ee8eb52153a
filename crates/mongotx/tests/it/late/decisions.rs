//! Decisions that rest on the connection they are sent over (decision 0039): it breaks before them,
//! during them, and before their answer.

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, Outcome, Result, Session, TxId};
use tokio::task::JoinHandle;

use super::{LIMIT, behind_proxy, proxy::Proxy};
use crate::common::world::World;

/// A client behind the proxy, with a transaction that has written to one document.
struct Scene {
    world: World,
    proxy: Proxy,
    client: Client,
    coll: Collection<Document>,
}

impl Scene {
    async fn new(name: &str) -> Self {
        let (world, proxy, client, coll) = behind_proxy(name).await;
        coll.insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
        let scene = Self { world, proxy, client, coll };
        let mut session = scene.begun().await;
        session.commit().await.unwrap();
        assert!(scene.client.flush(LIMIT).await);
        scene
    }

    async fn begun(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        self.coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        session
    }

    /// A transaction whose decision is on its way.
    async fn deciding(&self) -> (TxId, JoinHandle<Result<()>>) {
        let mut session = self.begun().await;
        let id = session.id().unwrap();
        self.proxy.hold_after(0);
        let commit = tokio::spawn(async move { session.commit().await });
        assert_eq!(self.proxy.until_held().await, "update");
        (id, commit)
    }

    /// The stored `n`, the `n` that every client reads, and the transaction's outcome are these.
    async fn assert_outcome(&self, id: TxId, outcome: Outcome, n: i32) {
        assert!(self.client.flush(LIMIT).await);
        let plain = self.world.client(5_000).await;
        for client in [&self.client, &plain] {
            assert_eq!(client.outcome(id).await.unwrap(), outcome);
            let seen = self.world.collection(client, "a").find_one(doc! {"_id": 1}).await.unwrap();
            assert_eq!(seen, Some(doc! {"_id": 1, "n": n}));
        }
        let mut session = self.begun().await;
        session.commit().await.unwrap();
        assert_eq!(self.coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": n + 1}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_that_arrives_after_it_was_given_up_decides_nothing() {
    let scene = Scene::new("late_decision").await;
    let (id, commit) = scene.deciding().await;
    scene.proxy.break_connections().await;
    let error = tokio::time::timeout(LIMIT, commit).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
    scene.proxy.deliver().await;
    scene.assert_outcome(id, Outcome::RolledBack, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_whose_answer_is_lost_is_found_in_the_record() {
    let scene = Scene::new("lost_answer").await;
    let (id, commit) = scene.deciding().await;
    scene.proxy.deliver_and_lose_the_answer().await;
    tokio::time::timeout(LIMIT, commit).await.unwrap().unwrap().unwrap();
    scene.assert_outcome(id, Outcome::Committed, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_is_not_sent_over_another_connection_than_its_own() {
    let scene = Scene::new("another_connection").await;
    let mut session = scene.begun().await;
    let id = session.id().unwrap();
    scene.proxy.break_connections().await;
    let error = session.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Expired, "{error}");
    scene.assert_outcome(id, Outcome::RolledBack, 1).await;
}
