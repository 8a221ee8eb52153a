//! What nothing has changed is not asked again at the commit (decision 0068), and everything that
//! may have been changed is: by decisions and plain writes of the same client, of other clients,
//! and by the server itself.
//!
//! Each test has a server of its own: on the shared one others write all the time.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI32, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use bson::{Document, doc, oid::ObjectId};
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Metrics, Session, TransactionOptions,
    WriteModel,
};
use testkit::{Server, ServerOptions};

use crate::quiet;

const LONG: Duration = Duration::from_secs(60);

/// A client on a server of its own, with the documents `{_id: 1..=20, k: _id, n: 0}`.
struct Stage {
    server: Server,
    client: Client,
    coll: Collection<Document>,
}

impl Stage {
    async fn start() -> Self {
        let server = ServerOptions::standalone().in_memory().start().await.unwrap();
        let client = connect(&server).await;
        let coll = quiet::collection(&client, 0).await;
        coll.create_index(IndexModel::new(doc! {"k": 1})).await.unwrap();
        let all: Vec<Document> = (1..=20).map(|id| doc! {"_id": id, "k": id, "n": 0}).collect();
        coll.insert_many(&all).await.unwrap();
        assert!(client.flush(LONG).await);
        let stage = Self { server, client, coll };
        stage.look().await;
        stage
    }

    /// Lets the client look at the change stamps, by a validation.
    async fn look(&self) {
        let mut session = self.reading().await;
        session.commit().await.unwrap();
    }

    /// A transaction that has read the documents 1 and 2, and some by their keys.
    async fn reading(&self) -> Session {
        let mut session = begun(&self.client, Isolation::Snapshot);
        for id in [1, 2] {
            assert!(self.coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        let some = self.coll.find(doc! {"k": {"$in": [3, 4, 99]}}).session(&mut session).await.unwrap();
        assert!(!some.try_collect().await.unwrap().is_empty());
        session
    }

    /// Such a transaction is committed without asking anything again: not perhaps the first one,
    /// because the client may have begun a connection in between.
    async fn until_unasked(&self, transaction: impl AsyncFn() -> Session) {
        let begun = Instant::now();
        loop {
            match self.commit(transaction().await).await {
                UNASKED => return,
                found => assert_eq!(found, ASKED),
            }
            assert!(begun.elapsed() < LONG, "everything is asked again: {:?}", self.client.metrics());
        }
    }

    /// Such transactions are committed, and each has asked again.
    async fn always_asked(&self, transaction: impl AsyncFn() -> Session) {
        for _ in 0..5 {
            assert_eq!(self.commit(transaction().await).await, ASKED);
        }
    }

    /// Commits, and answers whether it was committed, and whether nothing was asked again.
    async fn commit(&self, mut session: Session) -> (bool, bool) {
        let before = self.client.metrics().validations_unasked;
        let committed = session.commit().await;
        if let Err(error) = &committed {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
        (committed.is_ok(), self.client.metrics().validations_unasked > before)
    }
}

const UNASKED: (bool, bool) = (true, true);
const ASKED: (bool, bool) = (true, false);
const CONFLICT: (bool, bool) = (false, false);

async fn connect(server: &Server) -> Client {
    let options = ClientOptions { count_commands: true, ..quiet::options() };
    Client::connect_with(&server.uri(), options).await.unwrap()
}

fn begun(client: &Client, isolation: Isolation) -> Session {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

async fn set(coll: &Collection<Document>, filter: Document) {
    let changed = coll.update_one(filter, doc! {"$inc": {"n": 1}}).await.unwrap();
    assert_eq!(changed.modified_count, 1);
}

/// A transaction of this client changes these documents.
async fn commit_change(client: &Client, coll: &Collection<Document>, ids: &[i32]) {
    let mut session = begun(client, Isolation::ReadCommitted);
    for id in ids {
        coll.update_one(doc! {"_id": *id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
}

#[tokio::test]
async fn what_nothing_has_changed_is_not_asked_again() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    // One that has written, and its commands.
    let (id, before) = (AtomicI32::new(50), Mutex::new(Metrics::default()));
    stage
        .until_unasked(async || {
            let mut session = stage.reading().await;
            let document = doc! {"_id": id.fetch_add(1, SeqCst), "n": 0};
            stage.coll.insert_one(&document).session(&mut session).await.unwrap();
            *before.lock().unwrap() = stage.client.metrics();
            session
        })
        .await;
    let (before, after) = (before.into_inner().unwrap(), stage.client.metrics());
    let questions = after.validation_questions - before.validation_questions;
    let finds = after.commands.get("find").unwrap_or(&0) - before.commands.get("find").unwrap_or(&0);
    assert_eq!((questions, finds), (0, 1), "one look and nothing else");
}

#[tokio::test]
async fn what_this_client_has_changed_elsewhere_is_no_matter() {
    let stage = Stage::start().await;
    let other = quiet::collection(&stage.client, 0).await;
    other.insert_one(&doc! {"_id": 1, "n": 0}).await.unwrap();
    stage
        .until_unasked(async || {
            let session = stage.reading().await;
            set(&other, doc! {"_id": 1}).await;
            commit_change(&stage.client, &other, &[1]).await;
            session
        })
        .await;
}

/// Changes of the same client, of the documents that were read or of a range that was.
#[tokio::test]
async fn what_this_client_has_changed_itself_is_seen() {
    let stage = Stage::start().await;
    let coll = &stage.coll;
    let session = stage.reading().await;
    commit_change(&stage.client, coll, &[2]).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "a transaction");

    let session = stage.reading().await;
    coll.insert_one(&doc! {"_id": 99, "k": 99}).await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "an insert");

    let session = stage.reading().await;
    coll.delete_one(doc! {"_id": 99}).await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "a deletion");

    let session = stage.reading().await;
    set(coll, doc! {"_id": 1}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "an update by _id");

    let session = stage.reading().await;
    set(coll, doc! {"k": 3}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "an update by a key");

    let session = stage.reading().await;
    coll.find_one_and_update(doc! {"k": 4}, doc! {"$inc": {"n": 1}}).await.unwrap().unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "findAndModify");

    let session = stage.reading().await;
    let stages =
        [doc! {"$match": {"_id": 1}}, doc! {"$set": {"n": 77}}, doc! {"$merge": {"into": &coll.namespace().coll}}];
    coll.aggregate(stages.to_vec()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "$merge");

    let session = stage.reading().await;
    set(coll, doc! {"_id": 20}).await;
    assert_eq!(stage.commit(session).await, ASKED, "a plain write counts for all documents");

    let session = stage.reading().await;
    coll.drop().await.unwrap();
    assert_eq!(stage.commit(session).await, CONFLICT, "drop");
}

/// Which documents share a bucket depends on their `_id`s: not all of these do.
#[tokio::test]
async fn decisions_about_other_documents_are_no_matter_to_those_read_by_id() {
    let stage = Stage::start().await;
    let id = AtomicI32::new(0);
    stage
        .until_unasked(async || {
            let session = stage.reading_two().await;
            commit_change(&stage.client, &stage.coll, &[10 + id.fetch_add(1, SeqCst) % 10]).await;
            session
        })
        .await;
}

/// Reads of `k` alone rest on `k`, and on the fields of indexes.
#[tokio::test]
async fn decisions_about_other_fields_are_no_matter() {
    let stage = Stage::start().await;
    let change = async |update: Document| {
        let mut session = begun(&stage.client, Isolation::ReadCommitted);
        for id in [1, 3] {
            stage.coll.update_one(doc! {"_id": id}, update.clone()).session(&mut session).await.unwrap();
        }
        session.commit().await.unwrap();
    };
    stage
        .until_unasked(async || {
            let session = stage.reading_keys(None).await;
            change(doc! {"$inc": {"n": 1}}).await;
            session
        })
        .await;
    let session = stage.reading().await;
    change(doc! {"$inc": {"n": 1}}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "it has read whole documents");
    let session = stage.reading_keys(None).await;
    change(doc! {"$set": {"n": 0, "k": 5}}).await;
    assert_eq!(stage.commit(session).await, CONFLICT, "what was read");
    change(doc! {"$set": {"k": 3}}).await;
    stage.always_asked_beside(async || change(doc! {"$rename": {"n": "m"}, "$set": {"k": 3}}).await).await;
    stage.always_asked_beside(async || change(doc! {"$set": {"m": 1, "k": 3}}).await).await;

    stage.coll.create_index(IndexModel::new(doc! {"k": 1, "n": 1})).await.unwrap();
    stage.always_asked_beside(async || change(doc! {"$inc": {"n": 1}}).await).await;
}

/// Updates of many, of a bulk, and those that show the document name the fields that they change.
#[tokio::test]
async fn each_statement_says_which_fields_it_changes() {
    let stage = Stage::start().await;
    let (coll, add) = (&stage.coll, doc! {"$inc": {"n": 1}});
    let of_many = async |session: &mut Session| {
        coll.update_many(doc! {"_id": {"$lte": 3}}, add.clone()).session(session).await.unwrap();
    };
    let shown = async |session: &mut Session| {
        for id in [1, 3] {
            // The long way: it locks first, and shows the document as it was.
            let update = doc! {"$push": {"list": 1}, "$inc": {"n": 1}};
            assert!(coll.find_one_and_update(doc! {"_id": id}, update).session(&mut *session).await.unwrap().is_some());
        }
    };
    let of_bulk = async |session: &mut Session| {
        let one =
            |id: i32| WriteModel::UpdateOne { filter: doc! {"_id": id}, update: add.clone().into(), upsert: false };
        coll.bulk_write(vec![one(1), one(3)]).session(session).await.unwrap();
    };
    for _ in 0..3 {
        stage
            .until_unasked(async || {
                let session = stage.reading_keys(None).await;
                stage.decide(of_many).await;
                session
            })
            .await;
        stage
            .until_unasked(async || {
                let session = stage.reading_keys(None).await;
                stage.decide(shown).await;
                session
            })
            .await;
        stage
            .until_unasked(async || {
                let session = stage.reading_keys(None).await;
                stage.decide(of_bulk).await;
                session
            })
            .await;
    }
}

/// Which documents a scan may miss depends on the index.
#[tokio::test]
async fn an_index_that_another_client_makes_is_seen() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    stage.until_unasked(async || stage.reading_keys(None).await).await;
    let session = stage.reading_keys(None).await;
    quiet::through(&other, &stage.coll).create_index(IndexModel::new(doc! {"k": 1, "n": 1})).await.unwrap();
    assert_eq!(stage.commit(session).await, ASKED);
    stage.always_asked(async || stage.reading_keys(None).await).await;
}

/// What comes or goes, or is changed in a way that does not name its fields, has to do with all.
#[tokio::test]
async fn decisions_that_are_not_about_fields_are_asked_for() {
    let stage = Stage::start().await;
    let coll = &stage.coll;
    stage.until_unasked(async || stage.reading_keys(None).await).await;
    let replace = async |session: &mut Session| {
        coll.replace_one(doc! {"_id": 1}, &doc! {"k": 1, "n": 7}).session(session).await.unwrap();
    };
    stage.always_asked_beside(async || stage.decide(replace).await).await;
    let run_stages = async |session: &mut Session| {
        coll.update_one(doc! {"_id": 1}, vec![doc! {"$set": {"n": 8}}]).session(session).await.unwrap();
    };
    stage.always_asked_beside(async || stage.decide(run_stages).await).await;
    // After an update of another field.
    let id = AtomicI32::new(1_000);
    let update_and_insert = async |session: &mut Session| {
        coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut *session).await.unwrap();
        let document = doc! {"_id": id.fetch_add(1, SeqCst), "k": 1_000};
        coll.insert_one(&document).session(session).await.unwrap();
    };
    stage.always_asked_beside(async || stage.decide(update_and_insert).await).await;

    let session = stage.reading_keys(None).await;
    stage
        .decide(async |session: &mut Session| {
            assert_eq!(coll.delete_one(doc! {"k": 4}).session(session).await.unwrap(), 1);
        })
        .await;
    assert_eq!(stage.commit(session).await, CONFLICT, "a deletion");
    let session = stage.reading_keys(None).await;
    stage
        .decide(async |session: &mut Session| {
            let update = doc! {"$set": {"n": 1}, "$setOnInsert": {"k": 99}};
            let made = coll.update_one(doc! {"_id": 99}, update).upsert(true).session(session).await.unwrap();
            assert!(made.upserted_id.is_some());
        })
        .await;
    assert_eq!(stage.commit(session).await, CONFLICT, "an upsert");
}

/// Which documents match may depend on anything in them.
#[tokio::test]
async fn counts_by_chance_rest_on_whole_documents() {
    let stage = Stage::start().await;
    let by_chance = doc! {"n": 0, "$expr": {"$lt": [{"$rand": {}}, 2]}};
    let mut session = begun(&stage.client, Isolation::Snapshot);
    assert_eq!(stage.coll.count_documents(by_chance).session(&mut session).await.unwrap(), 20);
    commit_change(&stage.client, &stage.coll, &[1]).await;
    assert_eq!(stage.commit(session).await, CONFLICT);
}

/// Which the first of an answer are depends on how the server finds them, and the query does not
/// say that there are no more.
#[tokio::test]
async fn answers_that_are_cut_off_rest_on_all_fields() {
    let stage = Stage::start().await;
    for limit in [1, 3] {
        let reading = async || stage.reading_keys(Some(limit)).await;
        stage.until_unasked(reading).await;
        for _ in 0..3 {
            let session = reading().await;
            commit_change(&stage.client, &stage.coll, &[1, 3]).await;
            assert_eq!(stage.commit(session).await, ASKED);
        }
    }
}

impl Stage {
    /// A transaction that has read `k` of the document 1, and of the first few with some keys, or
    /// of all.
    async fn reading_keys(&self, limit: Option<u64>) -> Session {
        let mut session = begun(&self.client, Isolation::Snapshot);
        let key = doc! {"k": 1};
        let one = self.coll.find_one(doc! {"_id": 1}).projection(key.clone()).session(&mut session).await.unwrap();
        assert!(one.is_some());
        let some = self.coll.find(doc! {"k": {"$in": [3, 4, 99]}}).projection(key).limit(limit.unwrap_or(0));
        some.session(&mut session).await.unwrap().try_collect().await.unwrap();
        session
    }

    /// Commits a transaction of the same client that runs this.
    async fn decide(&self, run: impl AsyncFnOnce(&mut Session)) {
        let mut session = begun(&self.client, Isolation::ReadCommitted);
        run(&mut session).await;
        session.commit().await.unwrap();
    }

    /// Such transactions are committed, beside a change that leaves what they have read as it is,
    /// and each has asked again.
    async fn always_asked_beside(&self, change: impl AsyncFn()) {
        for _ in 0..3 {
            let session = self.reading_keys(None).await;
            change().await;
            assert_eq!(self.commit(session).await, ASKED);
        }
    }

    async fn reading_two(&self) -> Session {
        let mut session = begun(&self.client, Isolation::Snapshot);
        for id in [1, 2] {
            assert!(self.coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        session
    }
}

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

/// A command that may change any collection.
#[tokio::test]
async fn a_database_that_another_client_drops_may_be_any() {
    let stage = Stage::start().await;
    let other = connect(&stage.server).await;
    stage.until_unasked(async || stage.reading().await).await;
    other.database(&testkit::unique_db("gone")).drop().await.unwrap();
    stage.always_asked(async || stage.reading().await).await;
}

/// A filter that looks like the one of a question for the server's error.
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
    let db = testkit::unique_db("both");
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

#[tokio::test]
async fn what_the_server_removes_by_itself_is_asked_for() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    stage.coll.create_index(IndexModel::new(doc! {"at": 1}).expire_after(LONG)).await.unwrap();
    stage.always_asked(async || stage.reading().await).await;
}

/// The first in an order was not looked for among what is committed and not finished.
#[tokio::test]
async fn the_first_that_a_write_has_met_is_asked_for() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    let transaction = async || {
        let mut session = begun(&stage.client, Isolation::Snapshot);
        let first = stage.coll.find_one_and_update(doc! {"n": 0}, doc! {"$set": {"n": 9}}).sort(doc! {"k": 1});
        assert!(first.session(&mut session).await.unwrap().is_some());
        session
    };
    stage.always_asked(transaction).await;
}

#[tokio::test]
async fn a_serializable_transaction_asks_everything() {
    let stage = Stage::start().await;
    stage.until_unasked(async || stage.reading().await).await;
    let transaction = async || {
        let mut session = begun(&stage.client, Isolation::Serializable);
        for id in [1, 2] {
            assert!(stage.coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap().is_some());
        }
        session
    };
    stage.always_asked(transaction).await;
}

/// Nobody learns what became of it, and it may still arrive.
#[tokio::test]
async fn a_plain_write_that_is_given_up_may_arrive_at_any_time() {
    let stage = Stage::start().await;
    // Now it has a notice, for which the one that is given up need not wait.
    set(&stage.coll, doc! {"_id": 20}).await;
    stage.until_unasked(async || stage.reading().await).await;
    let write = stage.coll.update_one(doc! {"_id": 20}, doc! {"$inc": {"n": 1}});
    stage.server.pause().unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(200), write).await;
    stage.server.resume().unwrap();
    assert!(given_up.is_err());
    stage.always_asked(async || stage.reading().await).await;
}

/// A connection that is begun while a transaction runs may lead to another server process.
#[tokio::test]
async fn after_a_restart_of_the_server_everything_is_asked() {
    let server = ServerOptions::standalone().start().await.unwrap();
    let client = connect(&server).await;
    let coll = quiet::collection(&client, 0).await;
    let all: Vec<Document> = (1..=2).map(|id| doc! {"_id": id, "n": 0}).collect();
    coll.insert_many(&all).await.unwrap();
    let read = async |session: &mut Session| {
        for id in [1, 2] {
            coll.find_one(doc! {"_id": id}).session(&mut *session).await.unwrap();
        }
    };
    let mut session = begun(&client, Isolation::Snapshot);
    read(&mut session).await;
    session.commit().await.unwrap();

    let mut session = begun(&client, Isolation::Snapshot);
    read(&mut session).await;
    server.kill().unwrap();
    server.restart().await.unwrap();
    let begun = Instant::now();
    while coll.find_one(doc! {"_id": 1}).await.is_err() {
        assert!(begun.elapsed() < LONG, "the server does not come back");
    }
    let before = client.metrics().validations_unasked;
    let _ = session.commit().await;
    assert_eq!(client.metrics().validations_unasked, before);
}

/// Audits that are committed while the same client writes, and those of them that ask nothing.
const AUDITS: u64 = 150;
const UNASKED_AUDITS: u64 = 10;
/// Documents of which a plain writer raises first one and then the other.
const AHEAD: i32 = 1;
const BEHIND: i32 = 2;
/// Accounts between which money is moved.
const FROM: i32 = 3;
const TO: i32 = 4;

/// A moment in which audits get through.
async fn breathe(nth: u64) {
    tokio::time::sleep(Duration::from_millis(nth % 20)).await;
}

async fn raise_in_turn(coll: &Collection<Document>, stop: &AtomicBool) {
    for nth in 0.. {
        for id in [AHEAD, BEHIND] {
            coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).await.unwrap();
        }
        if stop.load(SeqCst) {
            return;
        }
        breathe(nth).await;
    }
}

async fn move_money(client: &Client, coll: &Collection<Document>, stop: &AtomicBool) {
    for nth in 0.. {
        let mut session = begun(client, Isolation::ReadCommitted);
        for (id, by) in [(FROM, -1), (TO, 1)] {
            let moved = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": by}}).session(&mut session).await;
            moved.unwrap();
        }
        session.commit().await.unwrap();
        if stop.load(SeqCst) {
            return;
        }
        breathe(nth).await;
    }
}

/// What a transaction has read, if it was committed: the numbers in these documents, in this order.
async fn audit(client: &Client, coll: &Collection<Document>, ids: [i32; 2], by_key: bool) -> Option<[i32; 2]> {
    let (mut session, mut found) = (begun(client, Isolation::Snapshot), [0; 2]);
    for (id, found) in ids.into_iter().zip(&mut found) {
        let filter = if by_key {
            doc! {"k": id}
        } else {
            doc! {"_id": id}
        };
        let document = coll.find_one(filter).session(&mut session).await.ok()??;
        *found = document.get_i32("n").unwrap();
    }
    session.commit().await.ok().map(|()| found)
}

/// Nothing of this is to be seen in two moments, however many of the audits are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audits_beside_writes_of_the_same_client_are_of_one_moment() {
    let (stage, stop) = (Stage::start().await, AtomicBool::new(false));
    let (client, raised, money) = (&stage.client, &stage.coll, quiet::collection(&stage.client, 0).await);
    for id in [FROM, TO] {
        money.insert_one(&doc! {"_id": id, "k": id, "n": 0}).await.unwrap();
    }
    let (before, begun) = (client.metrics().validations_unasked, Instant::now());
    let audits = async {
        let (mut committed, mut nth) = (0, 0);
        let is_enough =
            |committed| committed >= AUDITS && client.metrics().validations_unasked >= before + UNASKED_AUDITS;
        while !is_enough(committed) {
            assert!(begun.elapsed() < 3 * LONG, "{committed} are committed: {:?}", client.metrics());
            nth += 1;
            let by_key = nth % 2 == 0;
            if let Some([ahead, behind]) = audit(client, raised, [AHEAD, BEHIND], by_key).await {
                assert!((0..=1).contains(&(ahead - behind)), "{ahead} and {behind} were never there together");
                committed += 1;
            }
            if let Some([from, to]) = audit(client, &money, [FROM, TO], by_key).await {
                assert_eq!(from + to, 0, "{from} and {to} were never there together");
                committed += 1;
            }
        }
        stop.store(true, SeqCst);
    };
    tokio::join!(audits, raise_in_turn(raised, &stop), move_money(client, &money, &stop));
}
