//! Stored data that clients of each format have left when they died, as bytes
//! (`left_by_format_N.bson`): the client of today reads it, finishes what was committed and undoes
//! the rest.
//!
//! A new format begins with such a file of the one before: [`write_what_is_left`] makes it with the
//! library as it stands.

use std::path::{Path, PathBuf};

use bson::{Bson, DateTime, Document, doc};
use mongotx::{IndexModel, Isolation, Step, TransactionOptions, TxId};

use crate::common::{
    ghost::{self, die},
    hooks::Gate,
    verify::is_clean,
    world::World,
};

const LEASE_MS: u64 = 300;
/// The database of the dump. The records name it, so it is the same in the file and in the test.
const DATABASE: &str = "left_by_format";
/// Names of the application's collections.
const LEFT: [&str; 3] = ["a", "b", "unique"];

fn file(format: i32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/formats/left_by_format_{format}.bson"))
}

async fn empty_world() -> World {
    let server = local_mongod::shared_standalone().await.unwrap();
    let world = World { db: DATABASE.to_owned(), ..World::new(&server.uri(), DATABASE) };
    world.drop().await;
    world
}

/// The work of each client of the file before it died.
async fn leave(world: &World) {
    let client = world.client(60_000).await;
    for name in LEFT {
        let documents: Vec<Document> = (1..=5).map(|id| doc! {"_id": id, "n": id, "k": id}).collect();
        world.collection(&client, name).insert_many(&documents).await.unwrap();
    }
    let unique = IndexModel::new(doc! {"k": 1}).unique(true);
    world.collection(&client, "unique").create_index(unique).await.unwrap();
    client.shutdown().await.unwrap();
    ghost::undecided(world).await;
    ghost::unfinished(world).await;
    reading(world).await;
    exchanging(world).await;
}

/// Dies with a read lock on `b4`.
async fn reading(world: &World) -> TxId {
    let world = world.clone();
    die(async move || {
        let client = world.client(LEASE_MS).await;
        let isolation = Some(Isolation::RepeatableRead);
        let mut session = client.session_with(TransactionOptions { isolation, ..TransactionOptions::default() });
        session.begin().unwrap();
        world.collection(&client, "b").find_one(doc! {"_id": 4}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        std::mem::forget(session);
        id
    })
    .await
}

/// Dies committed and before it has finished anything: two documents exchange a unique value, a
/// third is new.
async fn exchanging(world: &World) -> TxId {
    let world = world.clone();
    die(async move || {
        let (_gate, hook) = Gate::at(Step::BeforeFinish, 1, true);
        let client = world.client_with(LEASE_MS, hook).await;
        let unique = world.collection(&client, "unique");
        let mut session = client.session();
        session.begin().unwrap();
        for (id, k) in [(1, 9), (2, 1), (1, 2)] {
            unique.update_one(doc! {"_id": id}, doc! {"$set": {"k": k}}).session(&mut session).await.unwrap();
        }
        unique.insert_one(&doc! {"_id": 6, "n": 6, "k": 6}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        session.commit().await.unwrap();
        id
    })
    .await
}

/// Makes the file of the format that this library writes. Run by hand, before the format changes:
/// `FORMAT=1 cargo test -p mongotx --test it -- --ignored write_what_is_left`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes a file of the repository"]
async fn write_what_is_left() {
    let format = std::env::var("FORMAT").unwrap().parse().unwrap();
    let world = empty_world().await;
    leave(&world).await;
    let raw = world.raw().await;
    let mut left = Document::new();
    for (db, name) in LEFT.map(|name| (world.db.clone(), name)).into_iter().chain([(world.tx_db(), "txs")]) {
        let listed = raw.database(&db).run_command(doc! {"listIndexes": name}).await.unwrap();
        let mut indexes = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap().clone();
        indexes.retain(|index| index.as_document().unwrap().get_str("name").unwrap() != "_id_");
        let documents = world.stored(&db, name).await;
        left.insert(name, doc! {"indexes": indexes, "documents": documents});
    }
    println!("{left:#?}");
    std::fs::write(file(format), left.to_vec().unwrap()).unwrap();
    world.drop().await;
}

/// Moves the record's dates to where they would be if its client had died an hour ago, by the clock
/// of today: its lease is over, and the server does not remove the record yet.
fn make_silent(record: &mut Bson) {
    let Bson::Document(record) = record else { panic!("{record} is no record") };
    let now = DateTime::now();
    record.insert("beat", DateTime::from_millis(now.timestamp_millis() - 3_600_000));
    if record.contains_key("closedAt") {
        record.insert("closedAt", now);
    }
}

/// Puts the content of a file in place.
async fn restore(world: &World, format: i32) {
    let left = Document::from_reader(&mut &std::fs::read(file(format)).unwrap()[..]).unwrap();
    let raw = world.raw().await;
    for (name, collection) in &left {
        let collection = collection.as_document().unwrap();
        let db = if name == "txs" { world.tx_db() } else { world.db.clone() };
        let db = raw.database(&db);
        let indexes = collection.get_array("indexes").unwrap().clone();
        if !indexes.is_empty() {
            db.run_command(doc! {"createIndexes": name, "indexes": indexes}).await.unwrap();
        }
        let mut documents = collection.get_array("documents").unwrap().clone();
        if name == "txs" {
            documents.iter_mut().for_each(make_silent);
        }
        db.run_command(doc! {"insert": name, "documents": documents}).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_by_format_1_is_read_and_finished() {
    assert_finished(1).await;
}

async fn assert_finished(format: i32) {
    let world = empty_world().await;
    restore(&world, format).await;
    let client = world.client(10_000).await;
    let numbers = |documents: &[Document]| -> Vec<(i32, i32)> {
        let field = |document: &Document, name: &str| document.get_i32(name).unwrap();
        documents.iter().map(|document| (field(document, "_id"), field(document, "k"))).collect()
    };
    // Everything as it was committed, before anything is finished.
    let seen = async |name: &str, field: &str| -> Vec<(i32, i32)> {
        let found = world.collection(&client, name).find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
        let found = found.try_collect().await.unwrap();
        found.iter().map(|document| (document.get_i32("_id").unwrap(), document.get_i32(field).unwrap())).collect()
    };
    let (a, b) = ([(1, 1), (2, 7), (4, 4), (5, 5)], [(1, 1), (2, 7), (3, 3), (4, 4), (5, 5)]);
    let unique = [(1, 2), (2, 1), (3, 3), (4, 4), (5, 5), (6, 6)];
    assert_eq!(seen("a", "n").await, a);
    assert_eq!(seen("b", "n").await, b);
    assert_eq!(seen("unique", "k").await, unique);

    let swept = client.sweep().await.unwrap();
    assert_eq!(swept.retired, 4, "{swept:?}");
    for name in LEFT {
        assert!(world.stored(&world.db, name).await.iter().all(is_clean), "{name}");
    }
    assert_eq!(seen("a", "n").await, a);
    assert_eq!(seen("b", "n").await, b);
    assert_eq!(numbers(&world.stored(&world.db, "unique").await), unique);
    let taken = world.collection(&client, "unique").insert_one(&doc! {"_id": 7, "k": 6}).await.unwrap_err();
    assert_eq!(taken.code(), Some(11000), "the stored form of the unique index holds: {taken}");
    assert!(client.clients().await.unwrap().iter().all(|record| record.closed || !record.expired));
    world.drop().await;
}
