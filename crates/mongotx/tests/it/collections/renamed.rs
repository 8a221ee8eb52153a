//! Collections that are renamed: with everything that belongs to them, and without losing what a
//! transaction holds.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Document, doc, oid::ObjectId};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Namespace, Step};

use crate::common::hooks::{Gate, Hook};
use crate::place::Place;

/// The name in the same database.
fn named(collection: &Collection<Document>, name: &str) -> Namespace {
    Namespace::parse_namespace(&format!("{}.{name}", collection.namespace().db)).unwrap()
}

async fn rename(collection: &Collection<Document>, name: &str) -> mongotx::Result<()> {
    collection.rename(&named(collection, name), false).await
}

/// A client that stands at gates, and waits for rivals.
async fn client_with(hook: Arc<Hook>) -> Client {
    let server = local_mongod::shared_standalone().await.unwrap();
    let options = ClientOptions { hook: Some(hook), ..crate::quiet::at_read_committed() };
    Client::connect_with(&server.uri(), options).await.unwrap()
}

#[tokio::test]
async fn everything_goes_along() {
    let place = Place::new("renamed_all").await;
    place.ours.create_collection("a").option("validator", doc! {"v": {"$gte": 0}}).await.unwrap();
    let a = place.coll("a");
    a.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    a.insert_one(&doc! {"_id": 1, "k": 1, "v": 1}).await.unwrap();
    rename(&a, "b").await.unwrap();
    assert_eq!(place.ours.list_collection_names().await.unwrap(), ["b"]);
    let b = place.coll("b");
    assert_eq!(b.list_index_names().await.unwrap(), ["_id_", "k_1"]);
    let stored = place.plain.collection::<Document>("b").list_index_names().await.unwrap();
    assert!(stored.iter().all(|name| !name.starts_with("_mongotx_renaming")), "{stored:?}");
    let mut session = place.begin();
    let twice = b.insert_one(&doc! {"_id": 2, "k": 1, "v": 1}).session(&mut session).await.unwrap_err();
    assert!(twice.duplicate_key().is_some(), "{twice}");
    let broken = b.insert_one(&doc! {"_id": 2, "k": 2, "v": -1}).session(&mut session).await.unwrap_err();
    assert_eq!(broken.code(), Some(121));
    session.rollback().await.unwrap();
    // The old name is another collection.
    a.insert_many(&[doc! {"_id": 1, "k": 1}, doc! {"_id": 2, "k": 1}]).await.unwrap();
    assert_eq!(a.list_index_names().await.unwrap(), ["_id_"]);
}

#[tokio::test]
async fn what_a_transaction_holds_is_waited_for() {
    let place = Place::new("renamed_held").await;
    let (a, b) = (place.coll("a"), place.coll("b"));
    for collection in [&a, &b] {
        collection.insert_one(&doc! {"_id": 1}).await.unwrap();
    }
    for held in [&a, &b] {
        let mut session = place.begin();
        held.update_one(doc! {"_id": 1}, doc! {"$set": {"x": 1}}).session(&mut session).await.unwrap();
        let refused = a.rename(b.namespace(), true).await.unwrap_err();
        let conflict = refused.conflict().unwrap();
        assert_eq!((refused.kind(), &conflict.namespace), (ErrorKind::Conflict, held.namespace()));
        assert_eq!(Some(conflict.rival), session.id());
        session.commit().await.unwrap();
    }
    a.rename(b.namespace(), true).await.unwrap();
    assert_eq!(place.stored("b").await, [doc! {"_id": 1, "x": 1}]);
    assert_eq!(place.ours.list_collection_names().await.unwrap(), ["b"]);
}

#[tokio::test]
async fn what_the_server_refuses_is_refused_and_nothing_stays_frozen() {
    let place = Place::new("renamed_refused").await;
    let (a, b, missing) = (place.coll("a"), place.coll("b"), place.coll("missing"));
    for collection in [&a, &b] {
        collection.insert_one(&doc! {"_id": 1}).await.unwrap();
    }
    place
        .ours
        .create_collection("view")
        .option("viewOn", "a")
        .option("pipeline", Vec::<bson::Bson>::new())
        .await
        .unwrap();
    let code = |refused: mongotx::Result<()>| refused.unwrap_err().code();
    assert_eq!(code(rename(&a, "a").await), Some(20));
    assert_eq!(code(rename(&a, "b").await), Some(48));
    assert_eq!(code(rename(&a, "system.x").await), Some(20));
    assert_eq!(code(rename(&missing, "c").await), Some(26));
    assert_eq!(code(rename(&place.coll("view"), "c").await), Some(166));
    let mut session = place.begin();
    for collection in [&a, &b] {
        collection.update_one(doc! {"_id": 1}, doc! {"$set": {"x": 1}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
}

/// The lock comes after the look that has found none, and before the server could refuse it.
#[tokio::test]
async fn a_lock_that_comes_in_between_is_not_moved_away_from_its_transaction() {
    let place = Place::new("renamed_between").await;
    let a = place.coll("a");
    a.insert_one(&doc! {"_id": 1, "x": 0}).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeFreeze, 1, false);
    let other: Collection<Document> = client_with(hook).await.database(place.ours.name()).collection("a");
    let renaming = tokio::spawn(async move { rename(&other, "b").await });
    gate.reached().await;
    let mut session = place.begin();
    a.update_one(doc! {"_id": 1}, doc! {"$set": {"x": 1}}).session(&mut session).await.unwrap();
    gate.open();
    // The rename goes on waiting: the document is where the transaction has left it.
    place.coll("journal").insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    renaming.await.unwrap().unwrap();
    assert_eq!(place.stored("b").await, [doc! {"_id": 1, "x": 1}]);
    assert_eq!(place.stored("journal").await, [doc! {"_id": 1}]);
}

/// A collection of the new name, with a document that is locked, comes when the renaming has found
/// none.
#[tokio::test]
async fn a_target_that_comes_in_between_is_waited_for() {
    let place = Place::new("renamed_target").await;
    let a = place.coll("a");
    a.insert_one(&doc! {"_id": 1}).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeRename, 1, false);
    let options = ClientOptions { hook: Some(hook), ..crate::place::options() };
    let server = local_mongod::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), options).await.unwrap();
    let other: Collection<Document> = client.database(place.ours.name()).collection("a");
    let target = named(&other, "b");
    let again = (other.clone(), target.clone());
    let renaming = tokio::spawn(async move { other.rename(&target, true).await });
    gate.reached().await;
    let mut session = place.begin();
    place.coll("b").insert_one(&doc! {"_id": 2}).session(&mut session).await.unwrap();
    gate.open();
    // It waits for the transaction, and gives up.
    let refused = renaming.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    session.commit().await.unwrap();
    assert_eq!(place.stored("b").await, [doc! {"_id": 2}]);
    again.0.rename(&again.1, true).await.unwrap();
    assert_eq!(place.stored("b").await, [doc! {"_id": 1}]);
    assert_eq!(place.ours.list_collection_names().await.unwrap(), ["b"]);
}

#[tokio::test]
async fn no_document_is_locked_while_its_collection_is_renamed() {
    let place = Place::new("renamed_frozen").await;
    let a = place.coll("a");
    a.insert_one(&doc! {"_id": 1, "x": 0}).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeRename, 1, false);
    let other: Collection<Document> = client_with(hook).await.database(place.ours.name()).collection("a");
    let renaming = tokio::spawn(async move { rename(&other, "b").await });
    gate.reached().await;
    let is_conflict = |error: mongotx::Error| {
        assert_eq!((error.kind(), error.code()), (ErrorKind::Conflict, Some(112)), "{error}");
        assert!(error.to_string().contains("is being renamed"), "{error}");
    };
    let update = doc! {"$set": {"x": 1}};
    // Each conflict ends its transaction.
    let mut session = place.begin();
    is_conflict(a.update_one(doc! {"_id": 1}, update.clone()).session(&mut session).await.unwrap_err());
    let mut session = place.begin();
    is_conflict(a.update_many(doc! {}, update.clone()).session(&mut session).await.unwrap_err());
    let mut session = place.begin();
    is_conflict(a.insert_one(&doc! {"_id": 2}).session(&mut session).await.unwrap_err());
    let mut session = place.begin();
    is_conflict(a.delete_one(doc! {"x": 0}).session(&mut session).await.unwrap_err());
    let mut session = place.begin();
    let bypassing = a.update_one(doc! {"_id": 1}, update.clone()).session(&mut session);
    is_conflict(mongotx::without_validation(bypassing).await.unwrap_err());
    let mut reader = place.client.session();
    let repeatable = mongotx::TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..Default::default() };
    reader.begin_with(repeatable).unwrap();
    is_conflict(a.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap_err());
    is_conflict(rename(&a, "c").await.unwrap_err());
    // Statements that lock nothing go on.
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"y": 1}}).await.unwrap();
    assert_eq!(a.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "x": 0, "y": 1}));
    gate.open();
    renaming.await.unwrap().unwrap();
    let mut session = place.begin();
    place.coll("b").update_one(doc! {"_id": 1}, update).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert_eq!(place.stored("b").await, [doc! {"_id": 1, "x": 1, "y": 1}]);
}

/// A client died after the freeze: the indexes are there, and `mongotx doctor` finds them by their
/// names.
#[tokio::test]
async fn an_interrupted_renaming_is_reported_until_its_indexes_are_dropped() {
    let place = Place::new("renamed_left").await;
    let a = place.coll("a");
    a.insert_one(&doc! {"_id": 1}).await.unwrap();
    let indexes = sd2v::index::freeze(ObjectId::new());
    place.plain.run_command(doc! {"createIndexes": "a", "indexes": indexes.to_vec()}).await.unwrap();
    let plain = place.plain.collection::<Document>("a");
    let mut session = place.begin();
    let refused = a.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap_err();
    assert!(refused.to_string().contains("mongotx doctor"), "{refused}");
    session.rollback().await.unwrap();
    let left = sd2v::index::missing_index(&plain.list_index_names().await.unwrap());
    assert_eq!(left.len(), 2);
    assert_eq!(a.list_index_names().await.unwrap(), ["_id_"]);
    for name in left {
        plain.drop_index(name).await.unwrap();
    }
    rename(&a, "b").await.unwrap();
}

/// Each transaction counts in a collection that goes to and fro between two names, and notes that
/// in another one. Returns the errors that left a transaction open.
async fn count_until(
    stop: Arc<AtomicBool>,
    committed: Arc<AtomicI64>,
    db: String,
    name: &'static str,
) -> Vec<mongotx::Error> {
    let client = client_with(Hook::counting()).await;
    let counter: Collection<Document> = client.database(&db).collection(name);
    let journal: Collection<Document> = client.database(&db).collection("journal");
    let mut refused = Vec::new();
    while !stop.load(SeqCst) {
        let mut session = client.session();
        session.begin().unwrap();
        let noted = journal.insert_one(&doc! {"_id": ObjectId::new()}).session(&mut session).await;
        let counted = counter.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1_i64}}).session(&mut session).await;
        // The server may refuse a statement because the collection goes while it runs. That leaves
        // the transaction open, and it could be committed without the statement.
        let whole = noted.is_ok() && counted.as_ref().is_ok_and(|counted| counted.matched_count == 1);
        if session.is_open() {
            refused.extend(noted.err());
            refused.extend(counted.err());
        }
        if !whole {
            let _ = session.rollback().await;
        } else if session.commit().await.is_ok() {
            committed.fetch_add(1, SeqCst);
        }
        // Now and then the document is free.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(client.flush(Duration::from_secs(20)).await);
    refused
}

#[tokio::test]
async fn transactions_stay_whole_while_their_collection_is_renamed_again_and_again() {
    const ROUNDS: usize = 60;
    let place = Place::new("renamed_race").await;
    place.coll("a").insert_one(&doc! {"_id": 1, "n": 0_i64}).await.unwrap();
    let (stop, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let workers = ["a", "b", "a", "b"].map(|name| {
        tokio::spawn(count_until(Arc::clone(&stop), Arc::clone(&committed), place.ours.name().to_owned(), name))
    });
    let renamer = client_with(Hook::pausing(Step::BeforeFreeze, Duration::from_millis(4))).await;
    let (mut at, mut renamed) = (0, 0);
    for _ in 0..ROUNDS {
        let names = ["a", "b"];
        let collection: Collection<Document> = renamer.database(place.ours.name()).collection(names[at]);
        // A transaction may hold the one document for as long as it waits.
        match rename(&collection, names[1 - at]).await {
            Ok(()) => (at, renamed) = (1 - at, renamed + 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
    stop.store(true, SeqCst);
    let mut refused = Vec::new();
    for worker in workers {
        refused.extend(worker.await.unwrap());
    }
    let [counter] = &place.stored(["a", "b"][at]).await[..] else { panic!("the counter is lost") };
    let noted = place.stored("journal").await.len() as i64;
    let committed = committed.load(SeqCst);
    let all = (counter.get_i64("n").unwrap(), noted);
    assert_eq!(all, (committed, committed), "{counter}, other errors: {refused:?}");
    assert!(noted > 0 && renamed > 0, "{noted} commits, {renamed} times renamed");
}
