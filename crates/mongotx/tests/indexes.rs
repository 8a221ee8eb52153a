//! Collections whose indexes would refuse a document only when its transaction is finished are refused beforehand.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind};

#[tokio::test]
async fn special_indexes_are_refused_by_name_in_a_transaction_and_not_outside() {
    let server = testkit::shared_standalone().await.unwrap();
    let client = Client::connect_with(&server.uri(), ClientOptions::default()).await.unwrap();
    let (db, driver) = (testkit::unique_db("indexes"), server.client().await.unwrap());
    for kind in ["2d", "2dsphere", "hashed", "text"] {
        let index = doc! {"key": {"a": kind}, "name": "special"};
        driver.database(&db).run_command(doc! {"createIndexes": kind, "indexes": [index]}).await.unwrap();
        let coll: Collection<Document> = client.database(&db).collection(kind);
        coll.insert_one(&doc! {"_id": 1}).await.unwrap();
        let mut session = client.session();
        session.begin().unwrap();
        let error = coll.insert_one(&doc! {"_id": 2}).session(&mut session).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(kind) && error.to_string().contains("special"), "{error}");
    }
}
