//! An application's own types: what is stored, and what is read, is what the official driver makes
//! of them.

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use serde::{Deserialize, Serialize};

use super::{stored, world};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Item {
    _id: i32,
    any: Bson,
    document: Document,
    raw: RawDocumentBuf,
    rest: Vec<Bson>,
}

fn item(id: i32) -> Item {
    let long = || doc! {"$numberLong": "5"};
    Item {
        _id: id,
        any: long().into(),
        document: doc! {"x": long(), "y": [long()]},
        raw: rawdoc! {"x": {"$numberLong": "5"}, "y": {"$date": "garbage"}},
        rest: vec![long().into(), Bson::Int64(7), bson::oid::ObjectId::from_bytes([1; 12]).into()],
    }
}

#[tokio::test]
async fn structs_are_written_and_read_as_by_the_driver() {
    let (client, driver, name) = world("lossless_structs").await;
    let plain = driver.database(&name).collection::<Item>("plain");
    let ours = client.database(&name).collection::<Item>("ours");
    plain.insert_many([item(1), item(2)]).await.unwrap();
    plain.replace_one(doc! {"_id": 2}, Item { any: Bson::Null, ..item(2) }).await.unwrap();
    ours.insert_one(&item(1)).await.unwrap();
    let mut session = client.session();
    session.begin().unwrap();
    ours.insert_one(&item(2)).session(&mut session).await.unwrap();
    ours.replace_one(doc! {"_id": 2}, &Item { any: Bson::Null, ..item(2) }).session(&mut session).await.unwrap();
    let read = plain.find_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(ours.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap(), read);
    session.commit().await.unwrap();
    assert!(client.flush(crate::common::LIMIT).await);
    assert_eq!(stored(&driver, &name, "plain").await, stored(&driver, &name, "ours").await);
    let touch = || doc! {"$set": {"rest.0": 1}};
    let changed = plain.find_one_and_update(doc! {"_id": 1}, touch()).await.unwrap();
    assert_eq!(ours.find_one_and_update(doc! {"_id": 1}, touch()).await.unwrap(), changed);
    assert_eq!(stored(&driver, &name, "plain").await, stored(&driver, &name, "ours").await);
    let all = ours.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(all.iter().map(|item| item.raw.clone()).collect::<Vec<_>>(), [item(1).raw, item(2).raw]);
}
