//! Futures that are dropped while they use the connection for record writes. Whatever else the
//! client has open goes on: a connection that broke would have ended it all.

use bson::{Document, doc, oid::ObjectId};
use mongotx::{Client, Collection, Session, TransactionOptions};

use super::{LIMIT, behind_proxy, proxy::Proxy};
use crate::common::world::World;

/// Id of a client that has left locks.
const DEAD: [u8; 12] = [7; 12];

/// A client behind the proxy, with a transaction that is open.
struct Scene {
    world: World,
    proxy: Proxy,
    client: Client,
    coll: Collection<Document>,
    session: Session,
}

impl Scene {
    async fn new(name: &str) -> Self {
        let (world, proxy, client, coll) = behind_proxy(name).await;
        coll.insert_many(&[doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}]).await.unwrap();
        assert!(client.flush(LIMIT).await);
        let mut session = client.session();
        session.begin().unwrap();
        coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        Self { world, proxy, client, coll, session }
    }

    /// A dead client's leftovers, whose lease ended long ago: a document that is committed and not
    /// finished.
    async fn leave_something(&self) {
        let raw = self.world.raw().await;
        let (owner, long_ago) = (ObjectId::from_bytes(DEAD), bson::DateTime::from_millis(0));
        let record = doc! {
            "_id": owner, "stamp": 1_i64, "beat": long_ago, "leaseMs": 1_000_i64, "low": 1_i64, "committed": [1_i64],
            "rolledBack": [], "aborted": [], "namespaces": [format!("{}.a", self.world.db)],
        };
        raw.database(&self.world.tx_db()).collection("txs").insert_one(record).await.unwrap();
        let pending = doc! {
            "_id": 9, "n": 0, "_unsafe": {"_id": 9, "n": 1}, "_xTxId": {"c": owner, "n": 1_i64},
        };
        raw.database(&self.world.db).collection("a").insert_one(pending).await.unwrap();
    }

    /// Lets the command arrive that was held, and commits what was open all the while.
    async fn commit(&mut self, name: &str) {
        self.proxy.deliver().await;
        self.session.commit().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(self.client.flush(LIMIT).await, "{name}: not finished");
        assert_eq!(self.seen(1).await, Some(doc! {"_id": 1, "n": 1}), "{name}");
    }

    async fn seen(&self, id: i32) -> Option<Document> {
        self.coll.find_one(doc! {"_id": id}).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_dropped_at_any_command_ends_no_transaction_of_its_client() {
    for before in 0.. {
        let mut scene = Scene::new("late_sweep").await;
        scene.leave_something().await;
        scene.proxy.hold_after(before);
        let held = tokio::select! {
            biased;
            held = scene.proxy.until_held() => held,
            swept = scene.client.sweep() => {
                assert_eq!(swept.unwrap().retired, 1);
                assert!(before > 4, "a sweep sends no more than {before} commands");
                return;
            }
        };
        let name = format!("dropped at {held}, after {before} commands");
        println!("{name}");
        scene.commit(&name).await;
        // The sweep of another client finds nothing in its way.
        scene.client.sweep().await.unwrap();
        assert_eq!(scene.seen(9).await, Some(doc! {"_id": 9, "n": 1}), "{name}");
        assert!(scene.client.client_info(mongotx::ClientId(DEAD)).await.unwrap().unwrap().closed, "{name}");
        scene.world.drop().await;
    }
}

/// A transaction with a lease of its own needs a record of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_write_dropped_at_any_command_ends_no_other_transaction_of_its_client() {
    for before in 0.. {
        let mut scene = Scene::new("late_register").await;
        let lease = Some(std::time::Duration::from_secs(500));
        let mut other = scene.client.session_with(TransactionOptions { lease, ..TransactionOptions::default() });
        other.begin().unwrap();
        scene.proxy.hold_after(before);
        let held = tokio::select! {
            biased;
            held = scene.proxy.until_held() => held,
            done = scene.coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut other) => {
                assert_eq!(done.unwrap().modified_count, 1);
                assert!(before > 3, "a first write sends no more than {before} commands");
                return;
            }
        };
        let name = format!("dropped at {held}, after {before} commands");
        println!("{name}");
        scene.commit(&name).await;
        drop(other);
        // Whatever was made of its record: the next one gets one.
        let mut again = scene.client.session_with(TransactionOptions { lease, ..TransactionOptions::default() });
        again.begin().unwrap();
        let added = scene.coll.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).session(&mut again).await;
        assert_eq!(added.unwrap_or_else(|error| panic!("{name}: {error}")).modified_count, 1, "{name}");
        again.commit().await.unwrap();
        scene.world.drop().await;
    }
}
