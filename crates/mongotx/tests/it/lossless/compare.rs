//! The same commands, sent to the server as they are and through the library.

use bson::{Bson, Document, RawDocumentBuf, doc, rawdoc};
use local_mongod::lookalikes::{commands, content, telling, values};
use mongotx::{Client, Isolation, TransactionOptions};

use super::{
    asked::{Kind, ask},
    stored, world,
};
use crate::common::LIMIT;

/// The server's own answer, in the library's words.
async fn plainly(db: &mongodb::Database, command: &Document) -> Document {
    let mut answer = match db.run_command(command.clone()).await {
        Ok(reply) => content(&reply),
        Err(error) => match error.kind.as_ref() {
            mongodb::error::ErrorKind::Command(refused) => doc! {"code": refused.code},
            other => panic!("{command}: {other:?}"),
        },
    };
    // The library reports what was refused, and no counts beside it.
    if answer.contains_key("refused") {
        answer.remove("nModified");
    }
    answer
}

fn check(command: &Document, expected: &Document, got: &Document) {
    let (plain, ours) = (expected.to_vec().unwrap(), got.to_vec().unwrap());
    assert!(plain == ours, "{command}\nplain:   {expected}\nMongoTx: {got}");
}

/// In a database of this name with `p` behind it for the server's own commands, and with `o` for
/// ours.
pub(super) async fn check_outside<T: Kind>(client: &Client, driver: &mongodb::Client, name: &str, value: &Bson) {
    let (plain, ours) = (format!("{name}p"), format!("{name}o"));
    let coll = client.database(&ours).collection::<T>("c");
    for command in commands(value) {
        let expected = plainly(&driver.database(&plain), &command).await;
        let got = ask(&coll, None, &command).await;
        check(&command, &expected, &got);
        // Some writes are transactions of their own.
        assert!(client.flush(LIMIT).await);
        assert_eq!(stored(driver, &plain, "c").await, stored(driver, &ours, "c").await, "{command}");
    }
}

/// Compares in three transactions: the first inserts, then one meets documents that are committed,
/// and one those that it has written itself.
pub(super) async fn check_inside<T: Kind>(
    client: &Client,
    driver: &mongodb::Client,
    name: &str,
    value: &Bson,
    isolation: Isolation,
) {
    let (plain, ours) = (format!("{name}p"), format!("{name}o"));
    let coll = client.database(&ours).collection::<T>("c");
    let mut session =
        client.session_with(TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() });
    for (place, command) in commands(value).into_iter().enumerate() {
        if [2, 9].contains(&place) {
            session.commit().await.unwrap();
        }
        if [0, 2, 9].contains(&place) {
            session.begin().unwrap();
        }
        let expected = plainly(&driver.database(&plain), &command).await;
        let got = ask(&coll, Some(&mut session), &command).await;
        check(&command, &expected, &got);
    }
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!(stored(driver, &plain, "c").await, stored(driver, &ours, "c").await, "{value}");
}

async fn outside<T: Kind>(test: &str) {
    let (client, driver, name) = world(test).await;
    for (n, value) in telling().iter().enumerate() {
        check_outside::<T>(&client, &driver, &format!("{name}_{n}"), value).await;
    }
}

async fn inside<T: Kind>(test: &str, isolation: Isolation) {
    let (client, driver, name) = world(test).await;
    for (n, value) in telling().iter().enumerate() {
        check_inside::<T>(&client, &driver, &format!("{name}_{n}"), value, isolation).await;
    }
}

#[tokio::test]
async fn documents_outside_transactions() {
    outside::<Document>("lossless_documents").await;
}

#[tokio::test]
async fn raw_documents_outside_transactions() {
    outside::<RawDocumentBuf>("lossless_raw").await;
}

#[tokio::test]
async fn documents_in_transactions() {
    inside::<Document>("lossless_in", Isolation::ReadCommitted).await;
}

#[tokio::test]
async fn raw_documents_in_transactions_at_repeatable_read() {
    inside::<RawDocumentBuf>("lossless_rr", Isolation::RepeatableRead).await;
}

/// Stored documents are read as they are, even where another program stored them and the driver
/// cannot read them into documents.
#[tokio::test]
async fn stored_documents_stay_readable() {
    let (client, driver, name) = world("lossless_stored").await;
    let plain = driver.database(&name).collection::<RawDocumentBuf>("c");
    let stored: Vec<Document> = values()
        .into_iter()
        .enumerate()
        .map(|(n, value)| doc! {"_id": n as i32, "a": value.clone(), "l": [value]})
        .collect();
    let raw: Vec<RawDocumentBuf> = stored.iter().map(|one| RawDocumentBuf::try_from(one).unwrap()).collect();
    plain.insert_many(&raw).await.unwrap();
    let coll = client.database(&name).collection::<Document>("c");
    let any = client.database(&name).collection::<Bson>("c");
    for whole in &stored {
        let id = doc! {"_id": whole.get_i32("_id").unwrap()};
        assert_eq!(coll.find_one(id.clone()).await.unwrap().as_ref(), Some(whole));
        assert_eq!(any.find_one(id).await.unwrap(), Some(Bson::Document(whole.clone())));
    }
    let read = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(read, stored);
}

/// A document that the server refuses for its `_id` does not stand in the way of the rest.
#[tokio::test]
async fn refused_ids_are_not_held() {
    let (client, driver, name) = world("lossless_ids").await;
    let coll = client.database(&name).collection::<Document>("c");
    let mut session = client.session();
    session.begin().unwrap();
    coll.insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap();
    for (id, code) in [(doc! {"$numberLong": "5"}.into(), 52), (Bson::Undefined, 53), (Bson::Array(Vec::new()), 53)] {
        let one = coll.insert_one(&doc! {"_id": id.clone()}).session(&mut session).await.unwrap_err();
        let several = [doc! {"_id": 2}, doc! {"_id": id.clone()}];
        let several = coll.insert_many(&several).ordered(false).session(&mut session).await.unwrap_err();
        assert_eq!((one.code(), several.write_errors().last().unwrap().code), (Some(code), code), "{id}");
    }
    let by_filter = coll.update_one(doc! {"_id": {"$eq": {"$oid": 1}}}, doc! {"$set": {"a": 1}}).upsert(true);
    assert_eq!(by_filter.session(&mut session).await.unwrap_err().code(), Some(52));
    session.commit().await.unwrap();
    assert!(client.flush(LIMIT).await);
    assert_eq!(stored(&driver, &name, "c").await, [rawdoc! {"_id": 1}, rawdoc! {"_id": 2}]);
}
