//! Statements that have changed documents when the server refuses what has to follow: a look at the
//! keys of others, the taking back of a duplicate, the showing of the document. The application is
//! answered an error, so nothing of the statement may stay (decision 0084).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc};
use futures_util::{FutureExt, future::BoxFuture};
use local_mongod::{Server, ServerOptions};
use mongotx::{Client, ClientOptions, Collection, Error, IndexModel, ReturnDocument, Step, StepHook, WriteModel};

use crate::quiet;

const LONG: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "half_done.c";
/// QueryPlanKilled: a read ends so if an index is dropped beside it.
const PLAN_KILLED: i32 = 175;
const UNAUTHORIZED: i32 = 13;

/// Sets a fail point once a prepared write was answered.
struct BehindWrite {
    admin: mongodb::Database,
    fail_point: Document,
    /// Number of prepared writes up to the one behind which it is set; 0: none.
    left: AtomicUsize,
}

impl StepHook for BehindWrite {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let one_less = |left: usize| left.checked_sub(1);
        if step != Step::AfterLock || self.left.fetch_update(SeqCst, SeqCst, one_less) != Ok(1) {
            return async {}.boxed();
        }
        let (admin, fail_point) = (self.admin.clone(), self.fail_point.clone());
        async move {
            admin.run_command(fail_point).await.unwrap();
        }
        .boxed()
    }
}

/// A server whose command fails, and a client of it.
struct Scene {
    _server: Server,
    admin: mongodb::Database,
    hook: Arc<BehindWrite>,
    client: Client,
    coll: Collection<Document>,
    before: Vec<Document>,
}

impl Scene {
    /// Behind a write `command` fails with this code, the `skipped` first ones excepted.
    async fn new(command: &str, code: i32, skipped: i32) -> Self {
        let options = ServerOptions::standalone().in_memory().arg("--setParameter").arg("enableTestCommands=1");
        let server = options.start().await.unwrap();
        let admin = server.client().await.unwrap().database("admin");
        let data = doc! {"failCommands": [command], "namespace": NAMESPACE, "errorCode": code};
        let fail_point = doc! {"configureFailPoint": "failCommand", "mode": {"skip": skipped}, "data": data};
        let hook = Arc::new(BehindWrite { admin: admin.clone(), fail_point, left: AtomicUsize::new(0) });
        let options = ClientOptions { hook: Some(hook.clone()), ..quiet::options() };
        let client = Client::connect_with(&server.uri(), options).await.unwrap();
        let coll: Collection<Document> = client.database("half_done").collection("c");
        coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
        let before =
            vec![doc! {"_id": 1, "k": 1, "g": 1, "n": 1, "list": [1]}, doc! {"_id": 2, "k": 2, "g": 1, "n": 1}];
        coll.insert_many(&before).await.unwrap();
        assert!(client.flush(LONG).await);
        Self { _server: server, admin, hook, client, coll, before }
    }

    /// The error of `work`, behind whose write of this number the command fails.
    async fn error_of<T>(&self, writes: usize, work: impl Future<Output = mongotx::Result<T>>) -> Error {
        self.hook.left.store(writes, SeqCst);
        let Err(error) = work.await else { panic!("it does not fail behind write {writes}") };
        assert_eq!(self.hook.left.swap(0, SeqCst), 0, "there were as many writes");
        self.admin.run_command(doc! {"configureFailPoint": "failCommand", "mode": "off"}).await.unwrap();
        error
    }

    /// Nothing was changed, and nothing is held.
    async fn is_as_before(&self, what: &str) {
        assert!(self.client.flush(LONG).await, "{what}");
        let found = self.coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(found, self.before, "{what}");
        self.coll.update_many(doc! {}, doc! {"$set": {"is_free": true}}).await.unwrap();
        self.coll.update_many(doc! {}, doc! {"$unset": {"is_free": 1}}).await.unwrap();
    }
}

fn insert(id: i32, k: i32) -> WriteModel {
    WriteModel::InsertOne { document: doc! {"_id": id, "k": k} }
}

#[tokio::test]
async fn what_could_not_be_compared_is_not_committed() {
    let scene = Scene::new("find", PLAN_KILLED, 0).await;
    let coll = &scene.coll;
    let documents = [doc! {"_id": 3, "k": 1}, doc! {"_id": 4, "k": 4}];
    let errors = [
        ("insert_one", scene.error_of(1, async { coll.insert_one(&documents[0]).await }).await),
        ("insert_many", scene.error_of(1, async { coll.insert_many(&documents).ordered(false).await }).await),
        (
            "bulk_write",
            scene.error_of(1, async { coll.bulk_write([insert(3, 1), insert(4, 4)]).ordered(false).await }).await,
        ),
        (
            "update_one",
            scene.error_of(1, async { coll.update_one(doc! {"_id": 2}, doc! {"$set": {"k": 1}}).await }).await,
        ),
    ];
    for (what, error) in errors {
        assert_eq!(error.code(), Some(PLAN_KILLED), "{what}: {error}");
        scene.is_as_before(what).await;
    }
}

/// The question for all documents together is answered, those for each of them are not.
#[tokio::test]
async fn inserts_that_could_not_be_compared_one_by_one_are_not_committed() {
    let scene = Scene::new("find", PLAN_KILLED, 1).await;
    let documents = [doc! {"_id": 3, "k": 1}, doc! {"_id": 4, "k": 4}];
    for ordered in [false, true] {
        let error = scene.error_of(1, async { scene.coll.insert_many(&documents).ordered(ordered).await }).await;
        assert_eq!(error.code(), Some(PLAN_KILLED), "{error}");
        scene.is_as_before("insert_many").await;
    }
}

/// A role that may insert and not remove.
#[tokio::test]
async fn duplicate_that_cannot_be_taken_back_is_not_committed() {
    let scene = Scene::new("delete", UNAUTHORIZED, 0).await;
    let coll = &scene.coll;
    let documents = [doc! {"_id": 3, "k": 1}, doc! {"_id": 4, "k": 4}];
    let error = scene.error_of(1, async { coll.insert_one(&documents[0]).await }).await;
    assert_eq!(error.code(), Some(UNAUTHORIZED), "{error}");
    scene.is_as_before("insert_one").await;
    for ordered in [false, true] {
        let error = scene.error_of(1, async { coll.insert_many(&documents).ordered(ordered).await }).await;
        assert_eq!(error.code(), Some(UNAUTHORIZED), "{error}");
        scene.is_as_before("insert_many").await;
    }
    let mut session = scene.client.session();
    session.begin().unwrap();
    let error = scene.error_of(1, async { coll.insert_one(&documents[0]).session(&mut session).await }).await;
    assert_eq!(error.code(), Some(UNAUTHORIZED), "{error}");
    assert!(!session.is_open(), "the transaction could only commit the duplicate");
    scene.is_as_before("insert_one in a transaction").await;
}

/// The document of an upsert whose `_id` is in use is built under another `_id` first.
#[tokio::test]
async fn upsert_leaves_no_document_that_was_built_aside() {
    let scene = Scene::new("find", PLAN_KILLED, 0).await;
    let upsert = || async {
        let filter = doc! {"_id": 1, "k": 7};
        scene.coll.update_one(filter, doc! {"$set": {"n": 1}}).upsert(true).await
    };
    let error = scene.error_of(3, upsert()).await;
    assert_eq!(error.code(), Some(PLAN_KILLED), "{error}");
    scene.is_as_before("upsert").await;
}

/// What an application would run again is not half done.
#[tokio::test]
async fn statement_that_is_half_done_ends_its_transaction() {
    let scene = Scene::new("find", PLAN_KILLED, 0).await;
    let other = Client::connect_with(&scene._server.uri(), quiet::options()).await.unwrap();
    let theirs = quiet::through(&other, &scene.coll);
    theirs.insert_many(&[3, 4].map(|id| doc! {"_id": id, "k": id, "g": 1, "n": 1})).await.unwrap();
    let mut rival = other.session();
    rival.begin().unwrap();
    theirs.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 10}}).session(&mut rival).await.unwrap();
    let mut session = scene.client.session();
    session.begin().unwrap();
    let error = scene
        .error_of(1, async {
            scene.coll.update_many(doc! {"g": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await
        })
        .await;
    assert_eq!(error.code(), Some(PLAN_KILLED), "{error}");
    assert!(!session.is_open(), "three of the four are changed");
    rival.rollback().await.unwrap();
    theirs.delete_many(doc! {"_id": {"$gt": 2}}).await.unwrap();
    scene.is_as_before("update_many").await;
    session.begin().unwrap();
    let error = scene
        .error_of(1, async {
            let update = doc! {"$inc": {"n": 1}, "$set": {"list.$[one]": 5}};
            let one = scene.coll.find_one_and_update(doc! {"_id": 1}, update).array_filters([doc! {"one": 1}]);
            one.return_document(ReturnDocument::After).session(&mut session).await
        })
        .await;
    assert_eq!(error.code(), Some(PLAN_KILLED), "{error}");
    assert!(!session.is_open(), "it is changed, and not shown");
    scene.is_as_before("find_one_and_update").await;
}
