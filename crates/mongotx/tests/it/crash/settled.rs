//! mongod dies between the two commands of a query: the first has found nothing pending, the second
//! reads the safe versions. What was finished is pending again then, because that was not in the
//! journal, and an acknowledged commit must be shown all the same.

use std::time::Duration;

use bson::{Bson, Document, doc};
use local_mongod::Server;
use mongotx::{Client, ErrorKind, Step};

use crate::common::{LIMIT, hooks::Gate, world::World};
use crate::crash::server::{crash, forgetful_server};

const LEASE_MS: u64 = 30_000;
/// Attempts to lose what may or may not be lost.
const ATTEMPTS: i32 = 20;

/// A query of several commands.
#[derive(Clone, Copy, Debug)]
enum Way {
    Find,
    Count,
    Distinct,
    Aggregate,
    Out,
}

impl Way {
    /// Values of `n` that it shows in documents 1 and 2, where `n` is expected; `None`: it refuses
    /// to answer.
    async fn values(self, world: &World, client: &Client, n: i32) -> mongotx::Result<Option<Vec<i32>>> {
        let [a, copy] = ["a", "copy"].map(|name| world.collection(client, name));
        let (both, hint) = (doc! {"_id": {"$in": [1, 2]}}, doc! {"_id": 1});
        let found = match self {
            Self::Find => a.find(both).hint(hint).await?.try_collect().await?,
            Self::Aggregate => a.aggregate([doc! {"$match": both}]).hint(hint).await?.try_collect().await?,
            Self::Distinct => {
                let values = a.distinct("n", both).await?;
                return Ok(Some(values.iter().filter_map(Bson::as_i32).collect()));
            }
            Self::Count => {
                let counted = a.count_documents(doc! {"_id": {"$in": [1, 2]}, "n": n}).hint(hint).await?;
                return Ok(Some(vec![n; usize::try_from(counted).unwrap()]));
            }
            Self::Out => {
                match a.aggregate([doc! {"$match": both}, doc! {"$out": "copy"}]).await {
                    Err(error) if error.kind() == ErrorKind::Unavailable => return Ok(None),
                    done => done.map(drop)?,
                }
                copy.find(doc! {}).await?.try_collect().await?
            }
        };
        Ok(Some(found.iter().map(|document| document.get_i32("n").unwrap()).collect()))
    }
}

struct Scene {
    server: Server,
    world: World,
    owner: Client,
}

impl Scene {
    async fn set_up() -> Self {
        let server = forgetful_server().await;
        let world = World::new(&server.uri(), "settled");
        let raw = world.raw().await.database(&world.db);
        raw.collection::<Document>("a").insert_many((1..=2).map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
        let owner = world.client(LEASE_MS).await;
        Self { server, world, owner }
    }

    /// Commits `n` in both documents, and finishes them.
    async fn commit(&self, n: i32) {
        let a = self.world.collection(&self.owner, "a");
        let mut session = self.owner.session();
        let change = doc! {"$set": {"n": n}};
        let transaction = session
            .with_transaction(async |session| a.update_many(doc! {}, change.clone()).session(session).await.map(drop));
        transaction.await.unwrap();
        assert!(self.owner.flush(Duration::from_secs(20)).await);
    }

    /// Returns true if documents came back locked.
    async fn crash(&self) -> bool {
        crash(&self.server).await;
        let stored = self.world.stored(&self.world.db, "a").await;
        stored.iter().any(|document| document.contains_key("_xTxId"))
    }
}

async fn is_shown_by(way: Way) {
    let scene = Scene::set_up().await;
    for n in 1..=ATTEMPTS {
        let (gate, hook) = Gate::at(Step::BeforeSettledQuery, 2, false);
        let reader = scene.world.client_with(LEASE_MS, hook).await;
        // Afterwards the reader knows the collection, and has its connection.
        Way::Find.values(&scene.world, &reader, n).await.unwrap();
        scene.commit(n).await;
        let world = scene.world.clone();
        let reading = tokio::spawn(async move { way.values(&world, &reader, n).await });
        gate.reached().await;
        let has_come_back = scene.crash().await;
        gate.open();
        let values = tokio::time::timeout(LIMIT, reading).await.unwrap().unwrap().unwrap();
        let is_right = |values: &Vec<i32>| !values.is_empty() && values.iter().all(|value| *value == n);
        assert!(values.as_ref().is_none_or(is_right), "{way:?} shows {values:?} instead of {n}");
        if has_come_back {
            return;
        }
    }
    panic!("{way:?}: nothing came back in {ATTEMPTS} attempts");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn find_shows_a_commit_from_before_a_crash() {
    is_shown_by(Way::Find).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn count_shows_a_commit_from_before_a_crash() {
    is_shown_by(Way::Count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distinct_shows_a_commit_from_before_a_crash() {
    is_shown_by(Way::Distinct).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregate_shows_a_commit_from_before_a_crash() {
    is_shown_by(Way::Aggregate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn out_writes_nothing_from_before_a_commit() {
    is_shown_by(Way::Out).await;
}
