//! Bulks whose updates differ in nothing but constants: one statement in a transaction (decision
//! 0079).

use bson::{Bson, Document, doc};
use mongotx::{Client, ClientOptions, Collection, Session, Step, TransactionOptions, WriteModel};

use super::{LONG, add, numbers, place};
use crate::quiet::{self, Gate};

fn update(id: impl Into<Bson>, update: Document) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id.into()}, update: update.into(), upsert: false }
}

/// The database of the collection, as the driver sees it.
async fn plain(coll: &Collection<Document>) -> mongodb::Database {
    local_mongod::shared_standalone().await.unwrap().client().await.unwrap().database(&coll.namespace().db)
}

/// The updates of the collection that the server carries out meanwhile: how many documents each of
/// the statements has modified.
async fn profiled<T>(coll: &Collection<Document>, act: impl Future<Output = T>) -> (T, Vec<i32>) {
    let db = plain(coll).await;
    db.run_command(doc! {"profile": 2}).await.unwrap();
    let done = act.await;
    db.run_command(doc! {"profile": 0}).await.unwrap();
    let profile = db.collection::<Document>("system.profile");
    let mut found = profile.find(doc! {"op": "update"}).sort(doc! {"ts": 1}).await.unwrap();
    let (mut all, ns) = (Vec::new(), coll.namespace().to_string());
    while found.advance().await.unwrap() {
        let update: Document = found.deserialize_current().unwrap();
        if update.get_str("ns").unwrap() == ns {
            all.push(update.get_i32("nModified").unwrap());
        }
    }
    (done, all)
}

async fn contents(client: &Client, coll: &Collection<Document>) -> Vec<Document> {
    assert!(client.flush(LONG).await);
    coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap()
}

async fn begun(session: &mut Session, coll: &Collection<Document>) {
    session.begin().unwrap();
    // The first write puts the transaction into its client's record.
    coll.update_one(doc! {"_id": 6}, doc! {"$inc": {"n": 1}}).session(session).await.unwrap();
}

#[tokio::test]
async fn each_document_gets_its_own_constants() {
    let (client, coll, mut session) = place().await;
    begun(&mut session, &coll).await;
    let values: Vec<Bson> = vec![
        Bson::Null,
        "$n".into(),
        vec![Bson::from("$$ROOT"), doc! {"a.b": 1}.into()].into(),
        doc! {"a": "$n"}.into(),
        1.5.into(),
    ];
    // In another order than the server takes them.
    let order = [4, 1, 5, 3, 2];
    let all = order.map(|id: i32| {
        let value = values[id as usize - 1].clone();
        update(id, doc! {"$inc": {"n": 10 * id}, "$set": {"was": value}})
    });
    let (done, statements) = profiled(&coll, async { coll.bulk_write(all).session(&mut session).await.unwrap() }).await;
    assert_eq!((done.matched_count, done.modified_count), (5, 5));
    assert_eq!(statements, [5]);
    session.commit().await.unwrap();
    for (document, (id, value)) in contents(&client, &coll).await.iter().zip((1..).zip(&values)) {
        assert_eq!((document.get_i32("n").unwrap(), document.get("was")), (1 + 10 * id, Some(value)), "{document}");
    }
}

#[tokio::test]
async fn two_updates_and_updates_of_several_shapes_are_statements_of_their_own() {
    let (client, coll, mut session) = place().await;
    begun(&mut session, &coll).await;
    let two = async { coll.bulk_write([add(1, 1), add(2, 2)]).session(&mut session).await.unwrap() };
    let (_, statements) = profiled(&coll, two).await;
    assert_eq!(statements, [1, 1]);
    plain(&coll).await.collection::<Document>("system.profile").drop().await.unwrap();
    let three = [add(3, 1), update(4, doc! {"$set": {"n": 7}}), add(5, 1)];
    let (_, statements) = profiled(&coll, async { coll.bulk_write(three).session(&mut session).await.unwrap() }).await;
    assert_eq!(statements, [1, 1, 1]);
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 3, 2, 7, 2, 2]);
}

/// Documents that are not there, and one that the change does not fit, are found out one by one.
#[tokio::test]
async fn documents_that_the_statement_leaves_alone_end_it_in_the_order_of_the_bulk() {
    for ordered in [true, false] {
        let (client, coll, mut session) = place().await;
        coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": "two"}}).await.unwrap();
        begun(&mut session, &coll).await;
        // The server takes them by their `_id`s: 1, 2, 3, 4, 5.
        let all = [add(5, 5), add(99, 9), add(4, 4), add(2, 2), add(3, 3), add(1, 1)];
        let refused = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
        assert_eq!(refused.write_errors().iter().map(|error| error.index).collect::<Vec<_>>(), [3]);
        let done = refused.progress().unwrap();
        let expected = if ordered { 2 } else { 4 };
        assert_eq!((done.matched, done.modified), (expected, expected));
        session.commit().await.unwrap();
        let [three, one] = if ordered { [1, 1] } else { [4, 2] };
        assert_eq!(numbers(&client, &coll).await, [one, -1, three, 5, 6, 2], "{ordered}");
    }
}

/// The server refuses one of the documents in the middle of the statement, and does not tell what
/// it has done to others: one that stands behind it in the bulk was locked before.
#[tokio::test]
async fn document_that_is_refused_in_the_middle_leaves_nothing_behind() {
    for ordered in [true, false] {
        let (client, coll, mut session) = place().await;
        let other = quiet::connect(quiet::options()).await;
        let theirs = quiet::through(&other, &coll);
        // Both versions of it are more than a document may have.
        coll.update_one(doc! {"_id": 4}, doc! {"$set": {"pad": "x".repeat(9 << 20)}}).await.unwrap();
        begun(&mut session, &coll).await;
        let all = [add(5, 5), add(4, 4), add(1, 1), add(2, 2)];
        let refused = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
        assert_eq!(refused.write_errors().iter().map(|error| error.index).collect::<Vec<_>>(), [1]);
        let done = refused.progress().unwrap();
        let expected = if ordered { 1 } else { 3 };
        assert_eq!((done.matched, done.modified), (expected, expected));
        if ordered {
            theirs.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 10}}).await.unwrap();
        }
        session.commit().await.unwrap();
        let [one, two] = if ordered { [11, 1] } else { [2, 3] };
        assert_eq!(numbers(&client, &coll).await, [one, two, 1, 1, 6, 2], "{ordered}");
    }
}

/// Of several documents that are refused, all that stand before the first are carried out by one
/// command.
#[tokio::test]
async fn refused_statement_is_sent_once_more_as_statements_of_their_own() {
    let (client, coll, mut session) = place().await;
    coll.update_one(doc! {"_id": 6}, doc! {"$set": {"pad": "x".repeat(9 << 20)}}).await.unwrap();
    session.begin().unwrap();
    coll.insert_one(&doc! {"_id": 7, "n": 7}).session(&mut session).await.unwrap();
    let refused = async {
        let all = [add(5, 5), add(4, 4), add(3, 3), add(2, 2), add(1, 1), add(6, 6)];
        coll.bulk_write(all).session(&mut session).await.unwrap_err();
    };
    let sent = quiet::commands_of(&client, refused).await;
    // The one statement, giving back, statements of their own, and the last one alone: in one
    // statement, and in two.
    assert_eq!(sent.get("update"), Some(&5), "{sent:?}");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 3, 4, 5, 6, 1, 7]);
}

/// A rival holds the document that stands second in the bulk and last for the server: it can have
/// what the bulk wants after it, so they do not wait for each other.
#[tokio::test]
async fn what_was_locked_behind_a_document_that_is_held_is_given_back() {
    let (client, coll, mut session) = place().await;
    let other = quiet::connect(quiet::options()).await;
    let theirs = quiet::through(&other, &coll);
    let mut rival = other.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    rival.begin().unwrap();
    theirs.update_one(doc! {"_id": 5}, doc! {"$inc": {"n": 10}}).session(&mut rival).await.unwrap();
    session.begin().unwrap();
    let bulk = async {
        let all = [add(3, 3), add(5, 5), add(1, 1), add(2, 2)];
        coll.bulk_write(all).session(&mut session).await.unwrap()
    };
    let rivals = async {
        quiet::until_waiting(&client, 1).await;
        theirs.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 10}}).session(&mut rival).await.unwrap();
        rival.commit().await.unwrap();
    };
    let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rivals) }).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (4, 4));
    session.commit().await.unwrap();
    assert!(other.flush(LONG).await);
    assert_eq!(numbers(&client, &coll).await, [12, 3, 4, 1, 16, 1]);
}

/// Two committed transactions of the client have left documents of the bulk, and a third one has
/// removed a document.
#[tokio::test]
async fn one_statement_takes_over_what_several_transactions_have_left() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    let coll = quiet::collection(&client, 6).await;
    gate.shut();
    let mut session = client.session();
    for ids in [[1, 2], [3, 4]] {
        session.begin().unwrap();
        for id in ids {
            coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 10}}).session(&mut session).await.unwrap();
        }
        session.commit().await.unwrap();
    }
    session.begin().unwrap();
    coll.delete_one(doc! {"_id": 5}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    begun(&mut session, &coll).await;
    let all = [add(4, 4), add(2, 2), add(1, 1), add(3, 3)];
    let bulk = async { coll.bulk_write(all).session(&mut session).await.unwrap() };
    let (done, statements) = profiled(&coll, bulk).await;
    assert_eq!((done.matched_count, done.modified_count), (4, 4));
    assert_eq!(statements, [4]);
    gate.open();
    // Rolled back, they are as the transactions before have left them.
    session.rollback().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [11, 11, 11, 11, 1]);
    begun(&mut session, &coll).await;
    let all = [add(5, 1), add(4, 4), add(2, 2), add(1, 1)];
    let done = coll.bulk_write(all).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (3, 3), "one is gone");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [12, 13, 11, 15, 2]);
}

/// An `_id` that equals one of another type. Texts that a collation calls equal go one by one.
#[tokio::test]
async fn equal_ids_find_their_constants() {
    let (client, coll, mut session) = place().await;
    coll.delete_many(doc! {}).await.unwrap();
    let stored: Vec<Document> = [Bson::Double(1.0), Bson::Int64(2), 3.into()].map(|id| doc! {"_id": id, "n": 0}).into();
    coll.insert_many(&stored).await.unwrap();
    assert!(client.flush(LONG).await);
    session.begin().unwrap();
    let bulk = async { coll.bulk_write([add(3, 3), add(1, 1), add(2, 2)]).session(&mut session).await.unwrap() };
    let (done, statements) = profiled(&coll, bulk).await;
    assert_eq!((done.matched_count, done.modified_count), (3, 3));
    assert_eq!(statements, [3]);
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1, 2, 3]);

    let db = plain(&coll).await;
    let folded =
        mongodb::options::Collation::builder().locale("en").strength(mongodb::options::CollationStrength::Secondary);
    db.create_collection("folded").collation(folded.build()).await.unwrap();
    let coll: Collection<Document> = client.database(&coll.namespace().db).collection("folded");
    coll.insert_many(&["A", "B", "C"].map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
    session.begin().unwrap();
    let all = [("c", 3), ("a", 1), ("B", 2)].map(|(id, n)| update(id, doc! {"$inc": {"n": n}}));
    let done = coll.bulk_write(all).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (3, 3));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1, 2, 3]);
}
