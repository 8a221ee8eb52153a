//! Documents that a `Document` cannot hold and a server does: text that is not UTF-8, a field that
//! is there twice. Raw documents hold them and are read untouched; elsewhere the error names the
//! field, on that document only.

use bson::{Document, RawDocumentBuf, doc, rawdoc};
use mongotx::{Collection, ErrorKind};

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
