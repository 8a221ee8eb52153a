//! Limits and misuse: each ends in the error that the documentation promises, with nothing lost.

use crate::common;

mod clock;
mod dropped;
mod finishing;
mod names;
mod numbers;
mod server;
mod session;
mod size;

use bson::{Document, doc};
use mongotx::{Client, Collection};

use common::world::World;

/// A client of the shared server, and a collection with the documents 1 to 4, `n` zero.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) client: Client,
    pub(crate) a: Collection<Document>,
}

impl Scene {
    pub(crate) async fn set_up() -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        Self::set_up_at(&server.uri()).await
    }

    pub(crate) async fn set_up_at(uri: &str) -> Self {
        let world = World::new(uri, "limits");
        let client = world.client(5_000).await;
        Self::with(world, client).await
    }

    pub(crate) async fn with(world: World, client: Client) -> Self {
        let documents = (1..=4).map(|id| doc! {"_id": id, "n": 0});
        world.raw().await.database(&world.db).collection::<Document>("a").insert_many(documents).await.unwrap();
        let a = world.collection(&client, "a");
        Self { world, client, a }
    }

    /// A document as another client sees it.
    pub(crate) async fn seen(&self, id: i32) -> Option<Document> {
        let other = self.world.client(5_000).await;
        self.world.collection(&other, "a").find_one(doc! {"_id": id}).await.unwrap()
    }

    /// Checks that no lock or other metadata of any transaction is left in the documents.
    pub(crate) async fn assert_clean(&self, what: &str) {
        assert!(self.client.flush(common::LIMIT).await);
        common::until(&format!("{what}: clean documents"), async || {
            self.client.locked_documents(self.a.namespace(), 10).await.unwrap().is_empty().then_some(())
        })
        .await;
    }
}
