//! Clients that die in this process: their runtime ends under them, and with it their signs of
//! life.

use bson::doc;
use mongotx::{Step, TxId};

use super::{hooks::Gate, world::World};

const LEASE_MS: u64 = 300;

/// Runs `life` on a runtime of its own that ends with it; what it spawned ends too.
pub(crate) async fn die<F: Future<Output = TxId>>(life: impl FnOnce() -> F + Send + 'static) -> TxId {
    let thread = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let id = runtime.block_on(life());
        runtime.shutdown_background();
        id
    });
    tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap()
}

/// Dies undecided: adds 50 to the first documents of both collections, and inserts a document.
pub(crate) async fn undecided(world: &World) -> TxId {
    let world = world.clone();
    die(async move || {
        let client = world.client(LEASE_MS).await;
        let mut session = client.session();
        session.begin().unwrap();
        for name in super::world::COLLECTIONS {
            let coll = world.collection(&client, name);
            coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 50}}).session(&mut session).await.unwrap();
        }
        world.collection(&client, "a").insert_one(&doc! {"_id": 11, "n": 1}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        // Dropped, it would be rolled back.
        std::mem::forget(session);
        id
    })
    .await
}

/// Dies committed and before it has finished anything: `a2` becomes 7, `b2` becomes 7, `a3` goes.
pub(crate) async fn unfinished(world: &World) -> TxId {
    let world = world.clone();
    die(async move || {
        let (_gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
        let client = world.client_with(LEASE_MS, hook).await;
        let mut session = client.session();
        session.begin().unwrap();
        for name in super::world::COLLECTIONS {
            let coll = world.collection(&client, name);
            coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
        }
        world.collection(&client, "a").delete_one(doc! {"_id": 3}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        session.commit().await.unwrap();
        id
    })
    .await
}
