//! Documents that a `Document` cannot hold and a server does: text that is not UTF-8, a field that
//! is there twice. Raw documents hold them and are read untouched; elsewhere the error names the
//! field, on that document only.

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use mongotx::{Client, Collection, ErrorKind, Isolation, ReturnDocument, TransactionOptions};

use super::{stored, world};

/// With a text that is not UTF-8 in an array in a document.
fn not_utf8(id: i32) -> RawDocumentBuf {
    let mut bytes = rawdoc! {"_id": id, "a": {"b": [1, "*****"]}, "z": 1}.into_bytes();
    let place = bytes.windows(5).position(|five| five == b"*****").unwrap();
    bytes[place + 1..place + 3].copy_from_slice(&[0xff, 0xc0]);
    RawDocumentBuf::from_bytes(bytes).unwrap()
}

fn twice(id: i32) -> RawDocumentBuf {
    rawdoc! {"_id": id, "a": {"x": 1, "y": 2, "x": 3}, "z": 1}
}

#[tokio::test]
async fn raw_documents_are_read_untouched() {
    let (client, driver, name) = world("lossless_unreadable").await;
    let plain = driver.database(&name).collection::<RawDocumentBuf>("c");
    plain.insert_many([not_utf8(1), twice(2), rawdoc! {"_id": 3}]).await.unwrap();
    let before = stored(&driver, &name, "c").await;
    let coll: Collection<RawDocumentBuf> = client.database(&name).collection("c");
    let all = async || coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(all().await, before);
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_many(doc! {}, doc! {"$set": {"z": 2}}).session(&mut session).await.unwrap();
    // Locked by another client, and outside.
    assert_eq!(all().await, before);
    for document in &before {
        let id = doc! {"_id": document.get_i32("_id").unwrap()};
        assert_eq!(coll.find_one(id).await.unwrap().as_ref(), Some(document));
    }
    let few = coll.find(doc! {"_id": {"$in": [1, 2]}}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(few, before[..2]);
    let mine = coll.find(doc! {}).sort(doc! {"_id": 1}).session(&mut session).await.unwrap();
    let mine = mine.try_collect().await.unwrap();
    let one = coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert!(client.flush(crate::common::LIMIT).await);
    plain.update_many(doc! {}, doc! {"$set": {"z": 2}}).await.unwrap();
    let after = stored(&driver, &name, "c").await;
    assert_eq!((mine, one.as_ref()), (after.clone(), after.first()));
    // The text is as it was.
    assert_eq!(after[0].get_document("a").unwrap(), before[0].get_document("a").unwrap());
}

#[tokio::test]
async fn the_error_names_the_field_of_that_document_only() {
    let (client, driver, name) = world("lossless_error").await;
    let plain = driver.database(&name).collection::<RawDocumentBuf>("c");
    plain.insert_many([rawdoc! {"_id": 0}, not_utf8(1), rawdoc! {"_id": 2}]).await.unwrap();
    let coll: Collection<Document> = client.database(&name).collection("c");
    let mut cursor = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
    assert_eq!(cursor.next().await.unwrap(), Some(doc! {"_id": 0}));
    let refused = cursor.next().await.unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(22)));
    assert!(refused.message().contains("\"a.b.1\"") && refused.message().contains("{_id: 1}"), "{refused}");
    assert_eq!(cursor.next().await.unwrap(), Some(doc! {"_id": 2}));
    assert_eq!(cursor.next().await.unwrap(), None);
    let refused = coll.find_one(doc! {"_id": 1}).await.unwrap_err();
    assert!(refused.message().contains("\"a.b.1\""), "{refused}");
}

#[tokio::test]
async fn what_cannot_be_written_as_it_is_is_refused() {
    let (client, driver, name) = world("lossless_refused").await;
    let coll: Collection<RawDocumentBuf> = client.database(&name).collection("c");
    let mut session = client.session();
    session.begin().unwrap();
    for (document, field) in [(not_utf8(1), "\"a.b.1\""), (twice(1), "\"a.x\"")] {
        let outside = coll.insert_one(&document).await.unwrap_err();
        let inside = coll.insert_many(&[rawdoc! {"_id": 2}, document.clone()]).session(&mut session).await.unwrap_err();
        let replacing = coll.replace_one(doc! {}, &document).upsert(true).await.unwrap_err();
        let modifying = coll.find_one_and_replace(doc! {}, &document).upsert(true).await.unwrap_err();
        for refused in [outside, inside, replacing, modifying] {
            assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(22)));
            assert!(refused.message().contains(field), "{refused}");
        }
    }
    session.commit().await.unwrap();
    assert_eq!(stored(&driver, &name, "c").await, [] as [RawDocumentBuf; 0]);
}

fn options(isolation: Isolation) -> TransactionOptions {
    TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() }
}

/// The value of `z` in each document that is stored, and that none of them is locked.
async fn stored_numbers(client: &Client, driver: &mongodb::Client, name: &str) -> Vec<i32> {
    assert!(client.flush(crate::common::LIMIT).await);
    let stored = stored(driver, name, "c").await;
    assert!(stored.iter().all(|document| document.get("_xTxId").unwrap().is_none()));
    stored.iter().map(|document| document.get_i32("z").unwrap()).collect()
}

#[tokio::test]
async fn unreadable_document_that_was_read_is_changed_once() {
    let (client, driver, name) = world("lossless_once").await;
    let plain = driver.database(&name).collection::<RawDocumentBuf>("c");
    plain.insert_many([not_utf8(1), not_utf8(2)]).await.unwrap();
    let coll: Collection<RawDocumentBuf> = client.database(&name).collection("c");
    let mut session = client.session_with(options(Isolation::Snapshot));
    session.begin().unwrap();
    assert!(coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap().is_some());
    let done = coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"z": 1}}).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (1, 1));
    session.commit().await.unwrap();
    assert_eq!(stored_numbers(&client, &driver, &name).await, [2, 1]);
}

#[tokio::test]
async fn unreadable_document_that_is_to_be_shown_is_refused_and_stays_as_it_is() {
    let (client, driver, name) = world("lossless_shown").await;
    let plain = driver.database(&name).collection::<RawDocumentBuf>("c");
    plain.insert_many([not_utf8(1), not_utf8(2)]).await.unwrap();
    let coll: Collection<RawDocumentBuf> = client.database(&name).collection("c");
    for filter in [doc! {"_id": 1}, doc! {"z": 1}] {
        for isolation in [Isolation::ReadCommitted, Isolation::Snapshot] {
            let mut session = client.session_with(options(isolation));
            session.begin().unwrap();
            let refused = coll.find_one_and_delete(filter.clone()).session(&mut session).await.unwrap_err();
            assert_eq!(refused.code(), Some(22), "{refused}");
            assert!(refused.message().contains("\"a.b.1\""), "{refused}");
            // Whether or not it goes on, nothing of the statement is left.
            drop(session.commit().await);
            // What is shown can be read.
            session.begin().unwrap();
            let update = coll.find_one_and_update(filter.clone(), doc! {"$inc": {"z": 1}});
            let update = update.projection(doc! {"z": 1}).return_document(ReturnDocument::After);
            let shown = update.session(&mut session).await.unwrap().unwrap();
            assert_eq!(shown.get_i32("z").unwrap(), 2);
            session.rollback().await.unwrap();
        }
    }
    assert_eq!(stored_numbers(&client, &driver, &name).await, [1, 1]);
}

#[tokio::test]
async fn unreadable_document_that_was_changed_outside_a_transaction_is_reported_as_indeterminate() {
    let (client, driver, name) = world("lossless_outside").await;
    let plain = driver.database(&name).collection::<RawDocumentBuf>("c");
    plain.insert_one(not_utf8(1)).await.unwrap();
    let coll: Collection<RawDocumentBuf> = client.database(&name).collection("c");
    let done = coll.find_one_and_update(doc! {"_id": 1}, doc! {"$inc": {"z": 1}}).await.unwrap_err();
    assert_eq!(done.kind(), ErrorKind::Indeterminate, "{done}");
    assert!(done.message().contains("\"value.a.b.1\""), "{done}");
    assert_eq!(stored_numbers(&client, &driver, &name).await, [2]);
}
