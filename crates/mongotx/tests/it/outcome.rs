//! Honest outcomes (P9): any client that looks up an id gets the true outcome, before and after the
//! owner is gone.

use crate::common;

use std::time::{Duration, Instant};

use bson::{Document, doc};
use mongotx::{
    Client, ClientId, ClientOptions, Collection, ErrorKind, Isolation, Outcome, Session, Step, TransactionOptions, TxId,
};

use common::{ghost, hooks::Gate, scenario::Scenario, until, world::World};

struct Scene {
    world: World,
    client: Client,
    other: Client,
    a: Collection<Document>,
}

impl Scene {
    async fn set_up() -> Self {
        let server = local_mongod::shared_standalone().await.unwrap();
        let world = World::new(&server.uri(), "outcome");
        Scenario::Single.set_up(&world).await;
        // A lease that no pause of the machine outlasts: a client that is declared dead here died
        // before.
        let (client, other) = (world.client(10_000).await, world.client(10_000).await);
        let a = world.collection(&client, "a");
        Self { world, client, other, a }
    }

    async fn open(&self) -> (Session, TxId) {
        let mut session = self.client.session();
        session.begin().unwrap();
        self.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        (session, id)
    }

    /// The other client gets this answer in the end, and never one that contradicts it.
    async fn learns(&self, id: TxId, expected: Outcome) {
        let outcome = until("a decided outcome", async || {
            Some(self.other.outcome(id).await.unwrap()).filter(|outcome| *outcome != Outcome::Active)
        })
        .await;
        assert_eq!(outcome, expected);
        assert_eq!(self.other.outcome(id).await.unwrap(), expected, "asked again");
    }
}

#[tokio::test]
async fn committed_is_reported_at_once_and_after_shutdown() {
    let scene = Scene::set_up().await;
    let (mut session, id) = scene.open().await;
    assert_eq!(scene.other.outcome(id).await.unwrap(), Outcome::Active);
    session.commit().await.unwrap();
    assert_eq!(scene.other.outcome(id).await.unwrap(), Outcome::Committed);
    assert_eq!(scene.client.outcome(id).await.unwrap(), Outcome::Committed);
    scene.client.shutdown().await.unwrap();
    let record = scene.other.clients().await.unwrap().into_iter().find(|record| record.id == id.client).unwrap();
    assert!(record.closed && record.low > id.seq && record.committed.is_empty());
    assert_eq!(scene.other.outcome(id).await.unwrap(), Outcome::Committed);
}

#[tokio::test]
async fn rolled_back_is_reported_and_stays_after_shutdown() {
    let scene = Scene::set_up().await;
    let (mut session, id) = scene.open().await;
    session.rollback().await.unwrap();
    scene.learns(id, Outcome::RolledBack).await;
    scene.client.shutdown().await.unwrap();
    scene.learns(id, Outcome::RolledBack).await;
    assert_eq!(scene.client.outcome(id).await.unwrap(), Outcome::RolledBack);
}

/// The transaction holds read locks, and is decided like any other.
#[tokio::test]
async fn read_only_repeatable_transaction_is_committed() {
    let scene = Scene::set_up().await;
    let options = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    let mut session = scene.client.session_with(options);
    session.begin().unwrap();
    scene.a.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    session.commit().await.unwrap();
    scene.client.shutdown().await.unwrap();
    scene.learns(id, Outcome::Committed).await;
}

#[tokio::test]
async fn dead_client_decided_or_not_is_reported_after_its_lease() {
    let scene = Scene::set_up().await;
    let committed = ghost::unfinished(&scene.world).await;
    let undecided = ghost::undecided(&scene.world).await;
    assert_eq!(scene.other.outcome(committed).await.unwrap(), Outcome::Committed);
    scene.learns(undecided, Outcome::RolledBack).await;
    scene.learns(committed, Outcome::Committed).await;
    until("a sweep", async || (scene.other.sweep().await.unwrap().fenced == 0).then_some(())).await;
    scene.learns(undecided, Outcome::RolledBack).await;
    scene.learns(committed, Outcome::Committed).await;
    assert_eq!(scene.a.count_documents(doc! {"n": {"$gte": 50}}).await.unwrap(), 0);
}

#[tokio::test]
async fn aborted_transaction_cannot_commit_and_a_committed_one_cannot_be_aborted() {
    let scene = Scene::set_up().await;
    let (mut session, id) = scene.open().await;
    assert_eq!(scene.other.abort(id).await.unwrap(), Outcome::RolledBack);
    let error = session.commit().await.unwrap_err();
    assert_eq!((error.kind(), error.transaction()), (ErrorKind::Expired, Some(id)));
    scene.learns(id, Outcome::RolledBack).await;
    let (mut session, next) = scene.open().await;
    session.commit().await.unwrap();
    assert_eq!(scene.other.abort(next).await.unwrap(), Outcome::Committed);
    assert_eq!(scene.a.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 1}));
    scene.client.shutdown().await.unwrap();
    scene.learns(id, Outcome::RolledBack).await;
    scene.learns(next, Outcome::Committed).await;
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_called_so() {
    let scene = Scene::set_up().await;
    let id = TxId { client: ClientId([7; 12]), seq: 1 };
    assert_eq!(scene.other.outcome(id).await.unwrap(), Outcome::Unknown);
    assert_eq!(scene.other.abort(id).await.unwrap(), Outcome::Unknown);
    assert!(scene.other.documents_of(id, 10).await.unwrap().is_empty());
    for text in ["", "1", "07070707070707070707070.1", "070707070707070707070707.", "070707070707070707070707.0"] {
        let error = text.parse::<TxId>().unwrap_err();
        assert!(error.to_string().contains("not a transaction id"), "{error}");
    }
    assert_eq!("070707070707070707070707.1".parse(), Ok(id));
}

/// The answer of a commit is lost: the server stands still from the moment at which the commit is
/// sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_without_an_answer_is_indeterminate_in_time_and_known_later() {
    let server = local_mongod::Server::standalone().await.unwrap();
    let world = World::new(&server.uri(), "outcome");
    Scenario::Single.set_up(&world).await;
    let (gate, hook) = Gate::at(Step::BeforeDecision, 1, false);
    let options = ClientOptions { hook: Some(hook), commit_timeout: Duration::from_secs(4), ..world.options(1_000) };
    let client = Client::connect_with(&world.uri, options).await.unwrap();
    let a = world.collection(&client, "a");
    let mut session =
        client.session_with(TransactionOptions { lock_wait: Duration::from_secs(20), ..TransactionOptions::default() });
    session.begin().unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let id = session.id().unwrap();
    let begun = Instant::now();
    let commit = tokio::spawn(async move { session.commit().await });
    gate.reached().await;
    server.pause().unwrap();
    gate.open();
    let answer = tokio::time::timeout(Duration::from_secs(25), commit).await;
    server.resume().unwrap();
    let error = answer.unwrap_or_else(|_| panic!("no answer after {:?}", begun.elapsed())).unwrap().unwrap_err();
    assert_eq!(error.transaction(), Some(id));
    let other = world.client(1_000).await;
    let outcome = until("an outcome", async || {
        Some(other.outcome(id).await.unwrap()).filter(|outcome| *outcome != Outcome::Active)
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert!(error.contains_label("UnknownTransactionCommitResult"));
    let expected = i32::from(outcome == Outcome::Committed);
    let read = world.collection(&other, "a").find_one(doc! {"_id": 1}).await.unwrap().unwrap();
    assert_eq!(read.get_i32("n").unwrap(), expected, "{outcome:?}");
}
