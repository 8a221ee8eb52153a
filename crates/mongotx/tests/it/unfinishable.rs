//! Committed documents that the server refuses to finish: an index that another tool made while
//! they were locked cannot hold them.

use std::time::Duration;

use bson::{Document, doc};
use mongodb::{IndexModel, options::IndexOptions};
use mongotx::{Client, ErrorKind, Step};

use crate::common::{hooks::Gate, until, world::World};

/// Causes for which a document cannot be finished.
#[derive(Clone, Copy, Debug)]
enum Way {
    Text,
    Compound,
}

impl Way {
    fn change(self) -> Document {
        match self {
            Self::Text => doc! {"language": 5, "n": 7},
            Self::Compound => doc! {"x": [1, 2], "y": [3, 4], "n": 7},
        }
    }

    fn index(self) -> IndexModel {
        let keys = match self {
            Self::Text => doc! {"words": "text"},
            Self::Compound => doc! {"x": 1, "y": 1},
        };
        let options = IndexOptions::builder().name("in_the_way".to_owned()).build();
        IndexModel::builder().keys(keys).options(options).build()
    }

    fn changed(self, id: i32) -> Document {
        let mut all = doc! {"_id": id, "words": "some", "n": 7};
        all.extend(self.change());
        all
    }
}

struct Scene {
    world: World,
    way: Way,
    owner: Client,
    other: Client,
}

/// Allowed age of what is read.
const HOUR: Duration = Duration::from_secs(3_600);

/// Committed and acknowledged: documents 1 (not finishable) and 2; 3 was never touched.
async fn scene(way: Way) -> Scene {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World::new(&server.uri(), "unfinishable");
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    raw.insert_many([1, 2, 3].map(|id| doc! {"_id": id, "words": "some", "n": 0})).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
    let owner = world.client_with(2_000, hook).await;
    let other = world.client(10_000).await;
    let a = world.collection(&owner, "a");
    for client in [&owner, &other] {
        // From now on both know how fresh the collection is.
        world.collection(client, "a").find(doc! {}).max_staleness(HOUR).await.unwrap();
    }
    let mut session = owner.session();
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$set": way.change()}).session(&mut session).await.unwrap();
    a.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
    raw.create_index(way.index()).await.unwrap();
    session.commit().await.unwrap();
    gate.open();
    Scene { world, way, owner, other }
}

impl Scene {
    fn all(&self) -> Vec<Document> {
        let second = doc! {"_id": 2, "words": "some", "n": 7};
        vec![self.way.changed(1), second, doc! {"_id": 3, "words": "some", "n": 0}]
    }

    async fn assert_read(&self, client: &Client) {
        let a = self.world.collection(client, "a");
        let at = format!("{:?}", self.way);
        let sorted = |mut found: Vec<Document>| {
            found.sort_by_key(|document| document.get_i32("_id").unwrap());
            found
                .into_iter()
                .map(|document| document.into_iter().collect::<std::collections::BTreeMap<_, _>>())
                .collect::<Vec<_>>()
        };
        let all = a.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(sorted(all), sorted(self.all()), "all, {at}");
        let stale = a.find(doc! {"_id": {"$gte": 0}}).max_staleness(HOUR).await.unwrap().try_collect().await.unwrap();
        assert_eq!(sorted(stale), sorted(self.all()), "not behind what was seen, {at}");
        let one = a.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
        assert_eq!(sorted(vec![one]), sorted(vec![self.way.changed(1)]), "by _id, {at}");
        let few = a.find(doc! {"_id": {"$in": [1, 2]}}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(sorted(few), sorted(self.all()[..2].to_vec()), "by two _ids, {at}");
        let found = a.find(doc! {"n": 7}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(sorted(found), sorted(self.all()[..2].to_vec()), "by query, {at}");
        assert_eq!(a.count_documents(doc! {"n": 7}).await.unwrap(), 2, "{at}");
        assert_eq!(a.count_documents(doc! {"n": 0}).await.unwrap(), 1, "{at}");
        assert_eq!(a.distinct("n", doc! {"_id": 1}).await.unwrap(), [7.into()], "{at}");
        assert_eq!(a.estimated_document_count().await.unwrap(), 3, "{at}");
        let group = doc! {"$group": {"_id": "$n", "times": {"$sum": 1}}};
        let groups = a.aggregate(vec![group, doc! {"$sort": {"_id": 1}}]).await.unwrap().try_collect().await.unwrap();
        assert_eq!(groups, [doc! {"_id": 0, "times": 1}, doc! {"_id": 7, "times": 2}], "{at}");
    }
}

/// The same by a transaction with writes of its own.
async fn assert_seen_and_not_written(scene: &Scene, client: &Client) {
    let a = scene.world.collection(client, "a");
    let mut session = client.session();
    session.begin().unwrap();
    a.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 7}}).session(&mut session).await.unwrap();
    assert_eq!(a.count_documents(doc! {"n": 7}).session(&mut session).await.unwrap(), 3);
    let by_id = a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err();
    let by_query = a.update_many(doc! {"n": 7}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap_err();
    let outside = a.update_one(doc! {"language": 5}, doc! {"$inc": {"n": 1}}).await.unwrap_err();
    for error in [by_id, by_query, outside] {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        for word in ["in_the_way", &format!("{}.a", scene.world.db), "{_id: 1}"] {
            assert!(error.to_string().contains(word), "{word:?} is not in {error}");
        }
    }
    session.rollback().await.unwrap();
}

async fn committed_and_read(way: Way) {
    let scene = scene(way).await;
    let other = &scene.other;
    scene.assert_read(other).await;
    scene.assert_read(&scene.owner).await;

    let a = scene.world.collection(other, "a");
    match way {
        Way::Text => assert_seen_and_not_written(&scene, other).await,
        Way::Compound => {
            // The same index on the unsafe versions cannot be made: nothing is written in
            // transactions meanwhile.
            let mut session = other.session();
            session.begin().unwrap();
            let write = a.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 7}}).session(&mut session).await;
            let error = write.unwrap_err();
            assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("in_the_way"), "{error}");
        }
    }

    // The cause goes, and the next client that comes finishes it.
    let raw = scene.world.raw().await.database(&scene.world.db).collection::<Document>("a");
    raw.drop_index("in_the_way").await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(raw.find_one(doc! {"_id": 1}).await.unwrap().unwrap().get_i32("n").unwrap(), 8);
    until("the owner's record lists nothing", async || {
        let clients = other.clients().await.unwrap();
        clients.iter().all(|client| client.committed.is_empty()).then_some(())
    })
    .await;
    scene.world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_index_in_the_way() {
    committed_and_read(Way::Text).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compound_index_in_the_way() {
    committed_and_read(Way::Compound).await;
}

/// A sweep cleans what it can, goes on, and keeps the record without which the rest would be taken
/// for dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweep_goes_on_and_keeps_the_record() {
    let Scene { world, owner, way, other } = scene(Way::Text).await;
    assert!(owner.flush(Duration::from_secs(60)).await);
    drop(owner);
    let sweep = until("the lease of the first client ends, and it is swept", async || {
        let swept = other.sweep().await.unwrap();
        (swept.fenced > 0).then_some(swept)
    })
    .await;
    assert_eq!(sweep.retired, 0);
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    let second = raw.find_one(doc! {"_id": 2}).await.unwrap().unwrap();
    assert_eq!(second, doc! {"_id": 2, "words": "some", "n": 7});
    assert_eq!(other.sweep().await.unwrap().retired, 0, "nor by the next sweep");
    let found = world.collection(&other, "a").find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    assert_eq!(found.get_i32("language").unwrap(), 5, "{way:?}");
    raw.drop_index("in_the_way").await.unwrap();
    let swept = other.sweep().await.unwrap();
    assert_eq!((swept.retired, swept.repaired), (1, 1));
    assert!(other.flush(Duration::from_secs(60)).await);
    world.drop().await;
}
