//! `find_by_id_raw`: the document that `find_one` finds by the same `_id`, whatever the `_id` is,
//! and whichever transaction holds the document.

use std::sync::Arc;

use bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, doc, oid::ObjectId};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Step};

use crate::quiet::{self, Gate, commands_of};

async fn stage() -> (Client, Collection<Document>) {
    let client = quiet::connect(quiet::options()).await;
    let coll = quiet::collection(&client, 0).await;
    (client, coll)
}

/// Reads the document with this `_id` in both ways, whose answers must agree.
async fn read(coll: &Collection<Document>, id: impl Into<Bson>) -> Option<Document> {
    let id = id.into();
    let mut values = RawArrayBuf::new();
    values.push(bson::RawBson::try_from(id.clone()).unwrap());
    let raw = values.into_iter().next().unwrap().unwrap();
    let found: Option<RawDocumentBuf> = coll.find_by_id_raw(raw).await.unwrap();
    let found = found.map(|found| Document::try_from(&*found).unwrap());
    assert_eq!(found, coll.find_one(doc! {"_id": {"$eq": id.clone()}}).await.unwrap(), "{id}");
    found
}

#[tokio::test]
async fn every_kind_of_id_names_its_document() {
    let (_client, coll) = stage().await;
    let pattern = bson::Regex { pattern: "a".try_into().unwrap(), options: "".try_into().unwrap() };
    let ids: [Bson; 7] = [
        1.into(),
        "a".into(),
        ObjectId::new().into(),
        doc! {"a": 1}.into(),
        doc! {"$gt": 0}.into(),
        2.5.into(),
        Bson::DateTime(bson::DateTime::from_millis(5)),
    ];
    for (n, id) in ids.iter().enumerate().filter(|(_, id)| **id != Bson::from(doc! {"$gt": 0})) {
        coll.insert_one(&doc! {"_id": id.clone(), "n": n as i32}).await.unwrap();
    }
    for id in &ids[..4] {
        assert_eq!(read(&coll, id.clone()).await.unwrap().get("_id"), Some(id));
    }
    // An equal number of another type; and what would be a condition is a value.
    assert!(read(&coll, 1.0).await.is_some());
    assert_eq!(read(&coll, ids[4].clone()).await, None);
    assert_eq!(read(&coll, pattern).await, None);
    assert_eq!(read(&coll, 2).await, None);
}

#[tokio::test]
async fn text_that_equals_another_under_the_collation_finds_it() {
    let (client, coll) = stage().await;
    let name = &coll.namespace().coll;
    let db = client.database(&coll.namespace().db);
    coll.drop().await.unwrap();
    db.create_collection(name).option("collation", doc! {"locale": "en", "strength": 2}).await.unwrap();
    coll.insert_one(&doc! {"_id": "Ada"}).await.unwrap();
    assert_eq!(read(&coll, "ada").await, Some(doc! {"_id": "Ada"}));
}

#[tokio::test]
async fn a_document_without_lock_is_one_command() {
    let (client, coll) = stage().await;
    coll.insert_one(&doc! {"_id": 1}).await.unwrap();
    coll.find_one(doc! {"_id": 1}).await.unwrap();
    let sent = commands_of(&client, async {
        assert!(coll.find_by_id_raw(bson::RawBsonRef::Int32(1)).await.unwrap().is_some());
    });
    assert_eq!(sent.await.into_iter().collect::<Vec<_>>(), [("find".to_owned(), 1)]);
}

#[tokio::test]
async fn who_holds_a_document_shows_nothing_before_his_commit_and_everything_afterwards() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = quiet::connect(ClientOptions { hook: Some(gate.clone() as Arc<_>), ..quiet::options() }).await;
    let coll = quiet::collection(&client, 3).await;
    let rival = quiet::connect(quiet::options()).await;
    let others = quiet::through(&rival, &coll);
    let before = read(&coll, 1).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 77}}).session(&mut session).await.unwrap();
    coll.delete_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
    coll.insert_one(&doc! {"_id": 9}).session(&mut session).await.unwrap();
    for coll in [&coll, &others] {
        assert_eq!(read(coll, 1).await, Some(before.clone()));
        assert!(read(coll, 2).await.is_some());
        assert_eq!(read(coll, 9).await, None);
    }
    gate.shut();
    session.commit().await.unwrap();
    for coll in [&coll, &others] {
        assert_eq!(read(coll, 1).await.unwrap().get_i32("n").unwrap(), 77);
        assert_eq!(read(coll, 2).await, None);
        assert_eq!(read(coll, 9).await, Some(doc! {"_id": 9}));
    }
    gate.open();
}

/// Read locks are not the application's; a document in no state that MongoTx leaves is an error.
#[tokio::test]
async fn what_is_mongotx_s_own_is_not_shown() {
    let (client, coll) = stage().await;
    coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    let options =
        mongotx::TransactionOptions { isolation: Some(mongotx::Isolation::RepeatableRead), ..Default::default() };
    let mut reader = client.session_with(options);
    reader.begin().unwrap();
    coll.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap();
    assert_eq!(read(&coll, 1).await, Some(doc! {"_id": 1, "n": 1}));
    reader.commit().await.unwrap();
    let plain = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let stored = plain.database(&coll.namespace().db).collection::<Document>(&coll.namespace().coll);
    stored.insert_one(doc! {"_id": 5, "_insert": 1}).await.unwrap();
    let refused = coll.find_by_id_raw(bson::RawBsonRef::Int32(5)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corruption);
}

#[tokio::test]
async fn views_are_read_as_what_they_show() {
    let (client, coll) = stage().await;
    coll.insert_one(&doc! {"_id": 1, "n": 1}).await.unwrap();
    let db = client.database(&coll.namespace().db);
    let plain = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let view = doc! {"create": "shown", "viewOn": &coll.namespace().coll, "pipeline": [{"$set": {"n": 2}}]};
    plain.database(&coll.namespace().db).run_command(view).await.unwrap();
    assert_eq!(read(&db.collection("shown"), 1).await, Some(doc! {"_id": 1, "n": 2}));
}
