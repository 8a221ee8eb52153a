//! `write_first`: several writes outside transactions by one command, each by itself. The result
//! distinguishes a document that is held from one that is not there, and nothing that is held is
//! changed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bson::{Document, doc};
use mongotx::{
    Client, ClientOptions, Collection, IndexModel, Isolation, PartialBulkResult, Session, Step, TransactionOptions,
    WriteModel,
};

use crate::quiet::{self, Gate, commands_of};

const LIMIT: Duration = Duration::from_secs(60);
/// Documents of this `_id` that are not there.
const ABSENT: i32 = 99;

fn update(id: i32) -> WriteModel {
    let update = doc! {"$inc": {"n": 1}}.into();
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
}

fn upsert(id: i32) -> WriteModel {
    let update = doc! {"$inc": {"n": 1}}.into();
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: true }
}

fn replace(id: i32) -> WriteModel {
    WriteModel::ReplaceOne { filter: doc! {"_id": {"$eq": id}}, replacement: doc! {"n": 2}, upsert: false }
}

fn compute(id: i32) -> WriteModel {
    let update = vec![doc! {"$set": {"n": {"$add": ["$n", 1]}}}].into();
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
}

fn delete(id: i32) -> WriteModel {
    WriteModel::DeleteOne { filter: doc! {"_id": id} }
}

fn insert(id: i32) -> WriteModel {
    WriteModel::InsertOne { document: doc! {"_id": id, "n": 2} }
}

/// The documents as they are stored.
async fn stored(coll: &Collection<Document>) -> BTreeMap<i32, Document> {
    let server = local_mongod::shared_standalone().await.unwrap();
    let driver = mongodb::Client::with_uri_str(server.uri()).await.unwrap();
    let stored = driver.database(&coll.namespace().db).collection::<Document>(&coll.namespace().coll);
    let mut cursor = stored.find(doc! {}).await.unwrap();
    let mut all = BTreeMap::new();
    while cursor.advance().await.unwrap() {
        let document = cursor.deserialize_current().unwrap();
        all.insert(document.get_i32("_id").unwrap(), document);
    }
    all
}

async fn begin(client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    session
}

/// Documents 1 to 12, of which each is held in another way but those that are free.
async fn held_in_every_way(client: &Client, coll: &Collection<Document>) -> Vec<Session> {
    let (mut writer, options) = (begin(client).await, TransactionOptions::default());
    coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 50}}).session(&mut writer).await.unwrap();
    coll.delete_one(doc! {"_id": 4}).session(&mut writer).await.unwrap();
    coll.insert_one(&doc! {"_id": 6, "n": 1}).session(&mut writer).await.unwrap();
    let isolation = Some(Isolation::RepeatableRead);
    let mut reader = client.session_with(TransactionOptions { isolation, ..options });
    reader.begin().unwrap();
    coll.find_one(doc! {"_id": 8}).session(&mut reader).await.unwrap();
    vec![writer, reader]
}

const HELD: [i32; 4] = [2, 4, 6, 8];

async fn stage() -> (Client, Collection<Document>, Vec<Session>) {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 9).await;
    coll.delete_one(doc! {"_id": 6}).await.unwrap();
    let sessions = held_in_every_way(&client, &coll).await;
    (client, coll, sessions)
}

fn places(first: &PartialBulkResult) -> Vec<usize> {
    assert!(first.failed.is_none() && first.not_done.values().all(Option::is_none), "{first:?}");
    first.not_done.keys().copied().collect()
}

#[tokio::test]
async fn what_is_held_is_left_and_everything_else_is_done() {
    for write in [update, replace, compute, delete, upsert] {
        let (_client, coll, _sessions) = stage().await;
        let before = stored(&coll).await;
        let mut ids: Vec<i32> = (1..=9).collect();
        let is_upsert = matches!(write(1), WriteModel::UpdateOne { upsert: true, .. });
        ids.extend((!is_upsert).then_some(ABSENT));
        let models: Vec<WriteModel> = ids.iter().copied().map(write).collect();
        let first = coll.write_first(&models, false).await.unwrap();
        assert_eq!(first.taken, ids.len());
        assert_eq!(places(&first), HELD.map(|id| id as usize - 1));
        let done = first.result.matched_count + first.result.deleted_count;
        assert_eq!((done, first.result.modified_count + first.result.deleted_count), (5, 5), "{first:?}");
        let after = stored(&coll).await;
        for id in ids {
            assert_eq!(before.get(&id) == after.get(&id), HELD.contains(&id) || id == ABSENT, "{id}: {after:?}");
        }
    }
}

#[tokio::test]
async fn in_order_nothing_behind_what_is_held_is_done() {
    for write in [update, replace, compute, delete, upsert] {
        let (_client, coll, _sessions) = stage().await;
        for held in HELD {
            let before = stored(&coll).await;
            let models: Vec<WriteModel> = [1, held, 9].into_iter().map(write).collect();
            let first = coll.write_first(&models, true).await.unwrap();
            assert_eq!((first.taken, places(&first)), (2, vec![1]));
            let after = stored(&coll).await;
            assert_eq!((&before[&held], &before[&9]), (&after[&held], &after[&9]));
        }
    }
}

#[tokio::test]
async fn an_insert_of_an_id_that_is_held_is_left_and_a_duplicate_is_refused() {
    let (client, coll, mut sessions) = stage().await;
    let before = stored(&coll).await;
    let models: Vec<WriteModel> = [1, 2, 4, 6, 8, 20].into_iter().map(insert).collect();
    let first = coll.write_first(&models, false).await.unwrap();
    let ended: Vec<(usize, Option<i32>)> =
        first.not_done.iter().map(|(place, error)| (*place, error.as_ref().and_then(mongotx::Error::code))).collect();
    assert_eq!(ended, [(0, Some(11_000)), (1, None), (2, None), (3, None), (4, None)]);
    assert_eq!((first.taken, first.result.inserted_count, first.result.inserted_ids), (6, 1, vec![(5, 20.into())]));
    let mut after = stored(&coll).await;
    assert_eq!(after.remove(&20), Some(doc! {"_id": 20, "n": 2}));
    assert_eq!(after, before);
    let first = coll.write_first(&[insert(21), insert(6), insert(22)], true).await.unwrap();
    assert_eq!((first.taken, places(&first), first.result.inserted_count), (2, vec![1], 1));
    sessions.remove(0).rollback().await.unwrap();
    drop(client);
}

/// Committed and not finished: the version that all clients see is not yet in its place.
#[tokio::test]
async fn what_is_decided_and_not_finished_is_left() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = quiet::connect(ClientOptions { hook: Some(Arc::clone(&gate) as Arc<_>), ..quiet::options() }).await;
    let coll = quiet::collection(&client, 3).await;
    gate.shut();
    let mut session = begin(&client).await;
    coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 50}}).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 4, "n": 50}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let first = coll.write_first(&[1, 2, 3, 4].map(update), false).await.unwrap();
    assert_eq!((places(&first), first.result.matched_count), (vec![1, 3], 2));
    gate.open();
}

/// Writes without an order, too: the second one would be carried out before the first, if the first
/// is left.
#[tokio::test]
async fn writes_of_one_document_are_not_sent_together_without_an_order() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 3).await;
    let models = [update(1), update(2), update(1), update(3)];
    assert_eq!(coll.write_first(&models, false).await.unwrap().taken, 2);
    assert_eq!(coll.write_first(&models, true).await.unwrap().taken, 4);
}

#[tokio::test]
async fn what_has_to_be_carried_out_alone_is_not_taken() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 3).await;
    let by = |filter: Document| WriteModel::DeleteOne { filter };
    let many = WriteModel::DeleteMany { filter: doc! {"_id": 3} };
    let reserved = WriteModel::InsertOne { document: doc! {"_id": 9, "_slot": 1} };
    for odd in
        [by(doc! {"n": 1}), by(doc! {"_id": 3, "n": 1}), by(doc! {"_id": {"$gt": 2}}), by(doc! {}), many, reserved]
    {
        let sent = commands_of(&client, async {
            let first = coll.write_first(&[odd.clone(), delete(2)], false).await.unwrap();
            assert_eq!((first.taken, first.not_done.len()), (0, 0), "{odd:?}");
        });
        assert!(!sent.await.contains_key("delete"), "{odd:?}");
        let first = coll.write_first(&[delete(98), delete(99), odd.clone()], true).await.unwrap();
        assert_eq!(first.taken, 2, "{odd:?}");
    }
    // Pending values count in a unique index.
    coll.update_many(doc! {}, vec![doc! {"$set": {"n": "$_id"}}]).await.unwrap();
    coll.create_index(IndexModel::new(doc! {"n": 1}).unique(true)).await.unwrap();
    assert_eq!(coll.write_first(&[insert(11), insert(12)], true).await.unwrap().taken, 0);
    // Updates are a transaction of their own then, in which each is refused or done by itself.
    let set = |id: i32, upsert: bool| {
        let update = doc! {"$set": {"n": 1}}.into();
        WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert }
    };
    let first = coll.write_first(&[set(11, false), set(12, false), delete(1)], true).await.unwrap();
    assert_eq!((first.taken, first.result.matched_count, first.not_done.len()), (2, 0, 0));
    for (ordered, taken) in [(true, 1), (false, 2)] {
        // Document 1 has the value.
        let first = coll.write_first(&[set(11, true), set(12, true)], ordered).await.unwrap();
        let codes: Vec<Option<i32>> = first.not_done.values().map(|error| error.as_ref()?.code()).collect();
        assert_eq!((first.taken, codes), (taken, vec![Some(11_000); taken]));
    }
    assert_eq!(coll.write_first(&[delete(1), delete(2)], true).await.unwrap().result.deleted_count, 2);
}

/// Carries out all of the writes, the first ones together as often as that can be, and answers how
/// many commands of several that were.
async fn carry_out(coll: &Collection<Document>, all: &[WriteModel]) -> usize {
    let (mut done, mut together) = (0, 0);
    while done < all.len() {
        let first = coll.write_first(&all[done..], true).await.unwrap();
        assert!(first.failed.is_none() && first.not_done.is_empty(), "{first:?}");
        match first.taken {
            0 => {
                coll.bulk_write(all[done..=done].to_vec()).await.unwrap();
                done += 1;
            }
            taken => {
                together += 1;
                done += taken;
            }
        }
    }
    together
}

fn set_key(id: i32, k: i32) -> WriteModel {
    let update = doc! {"$set": {"k": k}}.into();
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
}

async fn keys_of(coll: &Collection<Document>) -> Vec<i32> {
    stored(coll).await.values().map(|stored| stored.get_i32("k").unwrap()).collect()
}

/// A client whose transactions hold few documents carries out all the same what one after the other
/// would be carried out.
#[tokio::test]
async fn no_more_go_together_than_a_transaction_may_hold() {
    let client = quiet::connect(ClientOptions { max_documents: 3, ..quiet::options() }).await;
    let coll = quiet::collection(&client, 0).await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    for id in 1..=8 {
        coll.insert_one(&doc! {"_id": id, "k": id}).await.unwrap();
    }
    let all: Vec<WriteModel> = (1..=8).map(|id| set_key(id, 100 + id)).collect();
    assert!(carry_out(&coll, &all).await > 1);
    assert!(client.flush(LIMIT).await);
    assert_eq!(keys_of(&coll).await, (101..=108).collect::<Vec<_>>());
}

/// Such a write needs a look at its document, and others would be locked as long.
#[tokio::test]
async fn keys_that_depend_on_their_documents_are_changed_alone() {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    for id in 1..=4 {
        coll.insert_one(&doc! {"_id": id, "k": 10 * id}).await.unwrap();
    }
    let add = |id: i32| {
        let update = doc! {"$inc": {"k": 1}}.into();
        WriteModel::UpdateOne { filter: doc! {"_id": id}, update, upsert: false }
    };
    assert_eq!(carry_out(&coll, &[add(1), add(2), add(3)]).await, 0);
    // Those before it go together still.
    assert_eq!(carry_out(&coll, &[set_key(1, 1), set_key(2, 2), add(3), add(4)]).await, 1);
    assert!(client.flush(LIMIT).await);
    assert_eq!(keys_of(&coll).await, [1, 2, 32, 41]);
}
