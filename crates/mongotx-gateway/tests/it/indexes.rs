//! Commands about indexes that are interrupted leave no part of one.

use std::time::Duration;

use bson::{Document, doc};
use mongotx_gateway::{Gateway, Limits};

use crate::common::{
    commands::{code, is_ok},
    options,
    raw::Raw,
    soon,
};

/// A unique index waits for another client that works on the collection, for longer than the
/// command has time.
#[tokio::test]
async fn unique_index_whose_command_is_interrupted_is_not_heeded() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let options = options(&server.uri(), Limits::default());
    let db = local_mongod::unique_db("interrupted");
    let other = mongotx::Client::connect_with(&server.uri(), options.client.clone()).await.unwrap();
    let mut session = other.session();
    session.begin().unwrap();
    let known = other.database(&db).collection::<Document>("users");
    known.insert_one(&doc! {"_id": 0}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();

    let gateway = Gateway::start(options).await.unwrap();
    let mut client = Raw::connect(gateway.address().unwrap()).await;
    let index = doc! {"key": {"email": 1}, "name": "email", "unique": true, "sparse": true};
    let create = doc! {"createIndexes": "users", "indexes": [index], "maxTimeMS": 500, "$db": &db};
    let reply = client.ask(create).await.unwrap();
    assert_eq!(code(&reply), 50, "{reply}");
    let stored = server.client().await.unwrap().database(&db).collection::<Document>("users");
    soon(async {
        while stored.list_index_names().await.unwrap().iter().any(|name| name.contains("email")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    for id in [1, 2] {
        let insert = doc! {"insert": "users", "documents": [{"_id": id, "email": "x"}], "$db": &db};
        let reply = client.ask(insert).await.unwrap();
        assert!(is_ok(&reply), "{reply}");
    }
}
