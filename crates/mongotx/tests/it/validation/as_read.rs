//! Documents that were read by their `_id`s and are locked afterwards, as they were read: the lock
//! makes sure of that, and the commit reads nothing again (decision 0062).

use std::time::Duration;

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions, WriteModel};

use crate::quiet;

const LONG: Duration = Duration::from_secs(60);
const LEVELS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

fn begun(client: &Client, isolation: Isolation) -> Session {
    let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

fn first() -> Document {
    doc! {"_id": 1, "n": 5, "s": "a", "t": true, "f": 1.5, "other": 0}
}

/// A client with four documents `{_id, n, s, t, f, other}`, and the same collection of another
/// one.
async fn stage() -> (Client, Collection<Document>, Collection<Document>) {
    let (client, rival) = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
    let coll = quiet::collection(&client, 0).await;
    let with_id = |id: i32| {
        let mut document = first();
        document.insert("_id", id);
        document
    };
    coll.insert_many(&[1, 2, 3, 4].map(with_id)).await.unwrap();
    assert!(client.flush(LONG).await);
    let others = quiet::through(&rival, &coll);
    (client, coll, others)
}

/// Projection of the documents that are read. `gone` is never there.
fn shown() -> Document {
    doc! {"n": 1, "s": 1, "t": 1, "f": 1, "gone": 1}
}

async fn read(coll: &Collection<Document>, ids: &[i32], session: &mut Session) -> Vec<Document> {
    let found = coll.find(doc! {"_id": {"$in": ids.to_vec()}}).projection(shown()).session(session).await.unwrap();
    found.try_collect().await.unwrap()
}

fn set(id: i32) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: doc! {"$set": {"mine": 1}}.into(), upsert: false }
}

/// The statements that lock what was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Bulk,
    /// A bulk that is one statement (decision 0079).
    OneStatement,
    Update,
    FindAndUpdate,
    Delete,
}

const WAYS: [By; 5] = [By::Bulk, By::OneStatement, By::Update, By::FindAndUpdate, By::Delete];

impl By {
    /// The documents that are read and locked.
    fn documents(self) -> &'static [i32] {
        if self == Self::OneStatement { &[1, 2, 4] } else { &[1, 2] }
    }
}

async fn write(coll: &Collection<Document>, by: By, ids: &[i32], session: &mut Session) -> mongotx::Result<()> {
    if matches!(by, By::Bulk | By::OneStatement) {
        return coll.bulk_write(ids.iter().copied().map(set)).session(session).await.map(drop);
    }
    for id in ids {
        let (filter, update) = (doc! {"_id": *id}, doc! {"$set": {"mine": 1}});
        match by {
            By::Update => drop(coll.update_one(filter, update).session(&mut *session).await?),
            By::FindAndUpdate => drop(coll.find_one_and_update(filter, update).session(&mut *session).await?),
            By::Delete | By::Bulk | By::OneStatement => drop(coll.delete_one(filter).session(&mut *session).await?),
        }
    }
    Ok(())
}

/// The answer to the commit, and the commands that it has read with: none, if nothing is left to
/// validate.
async fn commit(client: &Client, session: &mut Session) -> (mongotx::Result<()>, u64) {
    let mut done = Ok(());
    let sent = quiet::commands_of(client, async { done = session.commit().await }).await;
    (done, sent.get("find").unwrap_or(&0) + sent.get("aggregate").unwrap_or(&0))
}

#[tokio::test]
async fn what_was_read_and_locked_is_not_asked_again() {
    for (isolation, by) in LEVELS.iter().flat_map(|level| WAYS.map(|by| (*level, by))) {
        let (client, coll, _) = stage().await;
        let mut session = begun(&client, isolation);
        assert_eq!(read(&coll, by.documents(), &mut session).await.len(), by.documents().len());
        write(&coll, by, by.documents(), &mut session).await.unwrap();
        let (done, asked) = commit(&client, &mut session).await;
        done.unwrap();
        assert_eq!(asked, 0, "{isolation:?} {by:?}");
    }
}

#[tokio::test]
async fn what_was_read_and_is_not_locked_is_asked_again() {
    for by in WAYS {
        let (client, coll, others) = stage().await;
        for is_changed in [false, true] {
            let mut session = begun(&client, Isolation::Snapshot);
            read(&coll, &[by.documents(), &[3]].concat(), &mut session).await;
            write(&coll, by, by.documents(), &mut session).await.unwrap();
            if is_changed {
                others.update_one(doc! {"_id": 3}, doc! {"$inc": {"n": 1}}).await.unwrap();
            }
            let (done, asked) = commit(&client, &mut session).await;
            assert!(asked > 0, "{by:?}");
            assert_eq!(done.map_err(|error| error.kind()), if is_changed { Err(ErrorKind::Conflict) } else { Ok(()) });
            if by == By::Delete {
                break;
            }
        }
    }
}

/// Every way in which a rival makes what was read another.
fn changes() -> Vec<Document> {
    vec![
        doc! {"$inc": {"n": 1}},
        doc! {"$set": {"n": 5_i64}},
        doc! {"$set": {"n": 5.0}},
        doc! {"$set": {"f": Bson::Decimal128("1.5".parse().unwrap())}},
        doc! {"$set": {"s": "b"}},
        doc! {"$set": {"s": Bson::Symbol("a".to_owned())}},
        doc! {"$set": {"s": ["a"]}},
        doc! {"$set": {"t": 1}},
        doc! {"$unset": {"t": ""}},
        doc! {"$set": {"gone": Bson::Null}},
    ]
}

#[tokio::test]
async fn what_a_rival_has_changed_since_it_was_read_is_a_conflict() {
    let (client, coll, others) = stage().await;
    let all = WAYS.iter().flat_map(|by| changes().into_iter().map(|change| (*by, change)));
    for ((by, change), id) in all.zip([1, 2].into_iter().cycle()) {
        let mut session = begun(&client, Isolation::Snapshot);
        read(&coll, by.documents(), &mut session).await;
        others.update_one(doc! {"_id": id}, change.clone()).await.unwrap();
        let written = write(&coll, by, by.documents(), &mut session).await;
        let done = if written.is_ok() { session.commit().await } else { written };
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Conflict, "{by:?} {change}");
        drop(session);
        let mut as_before = first();
        as_before.insert("_id", id);
        others.replace_one(doc! {"_id": id}, &as_before).await.unwrap();
    }
}

#[tokio::test]
async fn a_document_that_is_gone_or_another_one_is_a_conflict() {
    for by in WAYS {
        let (client, coll, others) = stage().await;
        let mut session = begun(&client, Isolation::Snapshot);
        read(&coll, by.documents(), &mut session).await;
        others.delete_one(doc! {"_id": 2}).await.unwrap();
        if by != By::Delete {
            others.insert_one(&doc! {"_id": 2, "n": 6}).await.unwrap();
        }
        let written = write(&coll, by, by.documents(), &mut session).await;
        let done = if written.is_ok() { session.commit().await } else { written };
        assert_eq!(done.unwrap_err().kind(), ErrorKind::Conflict, "{by:?}");
    }
}

#[tokio::test]
async fn a_rivals_change_of_what_was_not_read_is_kept() {
    for by in [By::Bulk, By::OneStatement, By::Update, By::FindAndUpdate] {
        let (client, coll, others) = stage().await;
        let mut session = begun(&client, Isolation::Snapshot);
        read(&coll, by.documents(), &mut session).await;
        others.update_one(doc! {"_id": 2}, doc! {"$set": {"other": 7}}).await.unwrap();
        write(&coll, by, by.documents(), &mut session).await.unwrap();
        let (done, asked) = commit(&client, &mut session).await;
        done.unwrap();
        assert_eq!(asked, 0, "{by:?}");
        let now = coll.find_one(doc! {"_id": 2}).await.unwrap().unwrap();
        assert_eq!((now.get_i32("other").unwrap(), now.get_i32("mine").unwrap()), (7, 1), "{by:?}");
    }
}

/// Removals of a bulk, and changes that take two statements, demand nothing.
#[tokio::test]
async fn what_no_statement_of_a_bulk_demands_is_asked_again() {
    let push =
        WriteModel::UpdateOne { filter: doc! {"_id": 2}, update: doc! {"$push": {"list": 1}}.into(), upsert: false };
    for other in [WriteModel::DeleteOne { filter: doc! {"_id": 2} }, push] {
        for is_changed in [false, true] {
            let (client, coll, others) = stage().await;
            let mut session = begun(&client, Isolation::Snapshot);
            read(&coll, &[1, 2], &mut session).await;
            if is_changed {
                others.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 1}}).await.unwrap();
            }
            coll.bulk_write([set(1), other.clone()]).session(&mut session).await.unwrap();
            let (done, asked) = commit(&client, &mut session).await;
            assert!(asked > 0, "{other:?}");
            assert_eq!(done.map_err(|error| error.kind()), if is_changed { Err(ErrorKind::Conflict) } else { Ok(()) });
        }
    }
}

/// Values that an expression cannot distinguish from others are read again at the commit.
#[tokio::test]
async fn values_that_the_lock_cannot_compare_are_asked_again() {
    let values = [doc! {"a": 1}.into(), Bson::from(vec![1, 2]), Bson::Null, 0.0.into()];
    for (value, is_changed) in values.iter().flat_map(|value| [(value, false), (value, true)]) {
        let (client, coll, others) = stage().await;
        coll.update_many(doc! {}, doc! {"$set": {"s": value.clone()}}).await.unwrap();
        assert!(client.flush(LONG).await);
        let mut session = begun(&client, Isolation::Snapshot);
        read(&coll, &[1, 2], &mut session).await;
        if is_changed {
            others.update_one(doc! {"_id": 2}, doc! {"$set": {"s": -0.0}}).await.unwrap();
        }
        write(&coll, By::Bulk, &[1, 2], &mut session).await.unwrap();
        let (done, asked) = commit(&client, &mut session).await;
        assert!(asked > 0, "{value}");
        assert_eq!(done.map_err(|error| error.kind()), if is_changed { Err(ErrorKind::Conflict) } else { Ok(()) });
    }
}

/// Under a collation that ignores case, an expression takes `a` and `A` for the same.
#[tokio::test]
async fn texts_of_a_collection_with_a_collation_are_asked_again() {
    let (client, rival) = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
    let db = client.database(&local_mongod::unique_db("as-read"));
    db.create_collection("docs").option("collation", doc! {"locale": "en", "strength": 2}).await.unwrap();
    let coll = db.collection::<Document>("docs");
    coll.insert_many(&[first(), doc! {"_id": 2, "s": "a"}]).await.unwrap();
    let mut session = begun(&client, Isolation::Snapshot);
    read(&coll, &[1, 2], &mut session).await;
    quiet::through(&rival, &coll).update_one(doc! {"_id": 2}, doc! {"$set": {"s": "A"}}).await.unwrap();
    write(&coll, By::Bulk, &[1, 2], &mut session).await.unwrap();
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
}

/// A committed transaction has left the documents locked: what was read of them is its version,
/// and so is what the lock compares.
#[tokio::test]
async fn documents_that_are_taken_over_are_compared_in_the_version_that_was_read() {
    for by in [By::Bulk, By::OneStatement, By::Update] {
        let gate = quiet::Gate::before(&[mongotx::Step::BeforeFinish]);
        let options = mongotx::ClientOptions { hook: Some(gate.clone()), ..quiet::options() };
        let client = quiet::connect(options).await;
        let coll = quiet::collection(&client, 0).await;
        coll.insert_many(&[first(), doc! {"_id": 2, "n": 5}, doc! {"_id": 4}]).await.unwrap();
        assert!(client.flush(LONG).await);
        gate.shut();
        let mut before = begun(&client, Isolation::Snapshot);
        coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut before).await.unwrap();
        before.commit().await.unwrap();
        let mut session = begun(&client, Isolation::Snapshot);
        let found = read(&coll, by.documents(), &mut session).await;
        assert!(found.contains(&doc! {"_id": 1, "n": 6, "s": "a", "t": true, "f": 1.5}), "{found:?}");
        write(&coll, by, by.documents(), &mut session).await.unwrap();
        gate.open();
        session.commit().await.unwrap();
        let now = coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap();
        assert_eq!((now.get_i32("n").unwrap(), now.get_i32("mine").unwrap()), (6, 1), "{by:?}");
    }
}

/// Reads both counters and writes them back, one more and one less.
async fn move_one(coll: &Collection<Document>, session: &mut Session) -> mongotx::Result<()> {
    let found = coll.find(doc! {"_id": {"$in": [1, 2]}}).projection(doc! {"n": 1}).session(&mut *session).await?;
    let found = found.try_collect().await?;
    let put = |id: i32, step: i32| {
        let read = found.iter().find(|one| one.get_i32("_id").is_ok_and(|one| one == id));
        let n = read.and_then(|one| one.get_i32("n").ok()).unwrap() + step;
        let update = doc! {"$set": {"n": n}}.into();
        WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
    };
    coll.bulk_write([put(1, 1), put(2, -1)]).session(&mut *session).await?;
    session.commit().await
}

async fn until_committed(client: &Client, coll: &Collection<Document>) {
    loop {
        match move_one(coll, &mut begun(client, Isolation::Snapshot)).await {
            Ok(()) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}

/// Clients that read two counters and write them back, one each more and less: the sum stays, and
/// no addition is lost.
#[tokio::test]
async fn counters_that_are_read_and_written_back_lose_nothing() {
    const EACH: i32 = 25;
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 2).await;
    let work = |client: Client| {
        let coll = quiet::through(&client, &coll);
        async move {
            for _ in 0..EACH {
                until_committed(&client, &coll).await;
            }
        }
    };
    let others = [quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await];
    join_all([client.clone(), client.clone(), others[0].clone(), others[1].clone()].map(work)).await;
    let n = async |id: i32| coll.find_one(doc! {"_id": id}).await.unwrap().unwrap().get_i32("n").unwrap();
    assert_eq!((n(1).await, n(2).await), (1 + 4 * EACH, 1 - 4 * EACH));
}
