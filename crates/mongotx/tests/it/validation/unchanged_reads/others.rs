//! Plain writes and decisions of other clients, and the notices that they give of plain writes.

use std::time::{Duration, Instant};

use bson::{Document, doc, oid::ObjectId};
use local_mongod::ServerOptions;
use mongotx::{Client, ClientOptions, IndexModel, Isolation, Session};

use super::{ASKED, CONFLICT, LONG, Stage, UNASKED, begun, commit_change, connect, set};
use crate::quiet;

#[tokio::test]
async fn plain_writes_of_another_client_are_seen_until_it_is_shut_down() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    let theirs = quiet::through(&other, &stage.coll);

    let session = stage.reading().await;
    set(&theirs, doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "its first plain write");

    let session = stage.reading().await;
    set(&theirs, doc! {"_id": 2}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "one more");

    let session = stage.reading().await;
    assert_eq!(stage.commit(session).await, ASKED, "it may write at any time");

    let session = stage.reading().await;
    set(&theirs, doc! {"_id": 1}).await;
    other.shutdown().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "it has written and gone meanwhile");

    // Now it is gone.
    stage.until_unasked(async || stage.reading().await).await;

    let session = stage.reading().await;
    set(&theirs, doc! {"_id": 2}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "it is there again");
}

/// Half a minute after the last one, its client goes on with transactions or does nothing.
#[tokio::test]
async fn plain_writes_of_a_client_that_has_made_its_last_one_are_over() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    let theirs = quiet::through(&other, &stage.coll);
    set(&theirs, doc! {"_id": 1}).await;
    stage.always_asked(async || stage.reading().await).await;

    let begun = Instant::now();
    while stage.commit(stage.reading().await).await != UNASKED {
        assert!(begun.elapsed() < 2 * LONG, "everything is asked again: {:?}", stage.client.metrics());
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stage.until_unasked(async || stage.reading().await).await;

    let session = stage.reading().await;
    set(&theirs, doc! {"_id": 2}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "it writes again");
    stage.always_asked(async || stage.reading().await).await;
}

/// A notice names the collections that its client writes to.
#[tokio::test]
async fn plain_writes_of_another_client_elsewhere_are_no_matter() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    let (elsewhere, theirs) = (quiet::collection(&other, 0).await, quiet::through(&other, &stage.coll));
    elsewhere.insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
    stage
        .until_unasked(async || {
            let session = stage.reading().await;
            set(&elsewhere, doc! {"_id": 1}).await;
            session
        })
        .await;

    let session = stage.reading().await;
    set(&theirs, doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "its first plain write here");
    let session = stage.reading().await;
    set(&elsewhere, doc! {"_id": 1}).await;
    set(&theirs, doc! {"_id": 2}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "one more");
    stage.always_asked(async || stage.reading().await).await;
}

/// A notice names 16 collections at most.
#[tokio::test]
async fn plain_writes_of_another_client_in_many_collections_may_be_anywhere() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    let write_elsewhere = async || drop(quiet::collection(&other, 0).await.insert_one(&doc! {"_id": 1}).await.unwrap());
    for _ in 0..16 {
        write_elsewhere().await;
    }
    stage.until_unasked(async || stage.reading().await).await;
    write_elsewhere().await;
    stage.always_asked(async || stage.reading().await).await;
    let session = stage.reading().await;
    set(&quiet::through(&other, &stage.coll), doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT);
}

#[tokio::test]
async fn a_collection_that_another_client_drops_is_seen() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    quiet::collection(&other, 0).await.drop().await.unwrap();
    stage.until_unasked(async || stage.reading().await).await;
    let session = stage.reading().await;
    quiet::through(&other, &stage.coll).drop().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT);
}

/// By a unique index a query is about one document. What is known of the collection is older than
/// its end, and the notice of that is over.
#[tokio::test]
async fn what_comes_beside_a_document_that_was_unique_is_seen() {
    let stage = Stage::start().await;
    let (loader, other) = (connect(&stage.server).await, connect(&stage.server).await);
    let coll = quiet::collection(&loader, 0).await;
    coll.create_index(IndexModel::new(doc! {"u": 1}).unique(true)).await.unwrap();
    coll.insert_one(&doc! {"_id": 1, "u": 1}).await.unwrap();
    loader.shutdown().await.unwrap();
    // A client that has never written there: before its first write it looks the collection up
    // anew.
    let coll = quiet::through(&stage.client, &coll);
    let read_unique = async || {
        let mut session = begun(&stage.client, Isolation::Snapshot);
        let found = coll.find(doc! {"u": 1}).session(&mut session).await.unwrap();
        assert_eq!(found.try_collect().await.unwrap().len(), 1);
        session
    };
    let read_other = async |mut session: Session| {
        assert!(stage.coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap().is_some());
        session
    };
    stage.until_unasked(async || read_other(read_unique().await).await).await;
    quiet::through(&other, &coll).drop_index("u_1").await.unwrap();
    other.shutdown().await.unwrap();
    stage.look().await;
    let session = read_unique().await;
    let mut beside = begun(&stage.client, Isolation::ReadCommitted);
    coll.insert_one(&doc! {"_id": 2, "u": 1}).session(&mut beside).await.unwrap();
    stage.coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut beside).await.unwrap();
    beside.commit().await.unwrap();
    let session = read_other(session).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "one before, the other one afterwards");
}

/// A command that may change any collection.
#[tokio::test]
async fn a_database_that_another_client_drops_may_be_any() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    stage.until_unasked(async || stage.reading().await).await;
    other.database(&local_mongod::unique_db("gone")).drop().await.unwrap();
    stage.always_asked(async || stage.reading().await).await;
}

/// A filter that looks like one that is sent for the server's error.
#[tokio::test]
async fn the_first_of_an_order_that_is_taken_outside_a_transaction_is_seen() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    let coll = quiet::collection(&stage.client, 0).await;
    let ids = [ObjectId::new(), ObjectId::new()];
    for id in ids {
        coll.insert_one(&doc! {"_id": id, "n": 0}).await.unwrap();
    }
    let reading = async || {
        let mut session = begun(&stage.client, Isolation::Snapshot);
        for id in ids {
            assert!(coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        session
    };
    stage.until_unasked(&reading).await;
    for client in [&stage.client, &other] {
        let through = quiet::through(client, &coll);
        let session = reading().await;
        let first = through.find_one_and_update(doc! {"n": 0}, doc! {"$set": {"n": 1}}).sort(doc! {"_id": 1});
        assert!(first.await.unwrap().is_some());
        assert_eq!(stage.commit(session).await, CONFLICT, "an update");
        let session = reading().await;
        let both = doc! {"$and": [{"_id": ids[1]}, {"n": {"$gte": 0}}]};
        set(&through, both).await;
        assert_eq!(stage.commit(session).await, CONFLICT, "a filter of two");
        coll.update_one(doc! {"_id": ids[0]}, doc! {"$set": {"n": 0}}).await.unwrap();
    }
}

/// The application's collections may be in the database of the records.
#[tokio::test]
async fn beside_the_records_what_nothing_has_changed_is_not_asked_again() {
    let server = ServerOptions::standalone().in_memory().start().await.unwrap();
    let db = local_mongod::unique_db("both");
    let connect = async || {
        let options = ClientOptions { count_commands: true, tx_database: db.clone(), ..quiet::options() };
        Client::connect_with(&server.uri(), options).await.unwrap()
    };
    let (client, other) = (connect().await, connect().await);
    let coll = client.database(&db).collection::<Document>("docs");
    coll.insert_many(&(1..=20).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect::<Vec<_>>()).await.unwrap();
    let stage = Stage { server, client, coll };
    stage.look().await;
    stage.until_unasked(async || stage.reading().await).await;

    let session = stage.reading().await;
    set(&stage.coll, doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "its own plain write");
    let session = stage.reading().await;
    set(&quiet::through(&other, &stage.coll), doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "another client's");
}

/// A client that comes, writes and goes while a transaction runs.
#[tokio::test]
async fn plain_writes_of_a_client_that_comes_and_goes_are_seen() {
    let stage = Stage::start().await;
    let session = stage.reading().await;
    let other = connect(&stage.server).await;
    set(&quiet::through(&other, &stage.coll), doc! {"_id": 1}).await;
    other.shutdown().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT);
}

#[tokio::test]
async fn where_another_client_has_decided_everything_is_asked_until_it_has_gone() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    let theirs = quiet::through(&other, &stage.coll);

    let session = stage.reading().await;
    commit_change(&other, &theirs, &[1]).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "while it ran");
    let session = stage.reading().await;
    assert_eq!(stage.commit(session).await, ASKED, "it may have left something");

    let session = stage.reading().await;
    commit_change(&other, &theirs, &[2]).await;
    other.shutdown().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "it has gone meanwhile");
    // Now it is gone.
    stage.until_unasked(async || stage.reading().await).await;
}
