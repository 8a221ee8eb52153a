//! The server's own collections and databases, and the records of clients: read, and not written in
//! transactions.

use bson::{Document, doc};
use mongotx::{ErrorKind, Isolation};

use super::{all, assert_refused, assert_writes_refused};
use crate::place::Place;

#[tokio::test]
async fn collections_of_the_server_are_read_and_not_written_in_transactions() {
    let place = Place::with("system", doc! {"viewOn": "base", "pipeline": []}).await;
    place.coll("system.js").insert_one(&doc! {"_id": 1, "value": 1}).await.unwrap();
    place.plain.run_command(doc! {"profile": 0}).await.unwrap();
    let mut session = place.begin_at(Isolation::ReadCommitted);
    for (name, documents) in [("system.js", 1), ("system.views", 1), ("system.profile", 0)] {
        let coll = place.coll(name);
        assert_eq!(all(&coll, &[doc! {"$match": {}}], Some(&mut session)).await.len(), documents, "{name}");
        assert_eq!(coll.count_documents(doc! {}).await.unwrap(), documents as u64);
        assert_eq!(coll.find(doc! {"x": 1}).session(&mut session).await.unwrap().try_collect().await.unwrap().len(), 0);
        assert_writes_refused(&coll, doc! {}, &mut session, "belongs to the server").await;
    }
    session.commit().await.unwrap();
    assert_eq!(place.stored_index_names("system.js").await, ["_id_"]);
    // Outside a transaction the server has its say, and has a reason of its own.
    for name in ["system.views", "system.profile"] {
        assert_eq!(place.coll(name).insert_one(&doc! {"_id": 1}).await.unwrap_err().code(), Some(73));
    }
    let mut session = place.begin_at(Isolation::RepeatableRead);
    let error = place.coll("system.js").find_one(doc! {}).session(&mut session).await.unwrap_err();
    assert_refused(&error, "belongs to the server");
}

#[tokio::test]
async fn databases_of_the_server_are_not_written_in_transactions() {
    let place = Place::new("server_databases").await;
    for db in ["admin", "config", "local"] {
        let coll = place.client.database(db).collection::<Document>(place.ours.name());
        let mut session = place.begin_at(Isolation::ReadCommitted);
        assert_writes_refused(&coll, doc! {}, &mut session, db).await;
        session.rollback().await.unwrap();
        coll.insert_one(&doc! {"_id": 1}).await.unwrap();
        let mut session = place.begin_at(Isolation::ReadCommitted);
        assert_eq!(coll.find_one(doc! {"_id": {"$gt": 0}}).session(&mut session).await.unwrap(), Some(doc! {"_id": 1}));
        assert_writes_refused(&coll, doc! {}, &mut session, db).await;
        session.rollback().await.unwrap();
        assert_eq!(coll.delete_one(doc! {}).await.unwrap(), 1);
        assert_eq!(coll.list_index_names().await.unwrap(), ["_id_"], "nothing is added");
        coll.drop().await.unwrap();
    }
}

#[tokio::test]
async fn records_of_clients_are_read_and_not_written() {
    let place = Place::new("records").await;
    place.coll("c").insert_many(&[doc! {"_id": 1}]).await.unwrap();
    let records = place.client.database("mongotx").collection::<Document>("txs");
    let mut session = place.begin_at(Isolation::ReadCommitted);
    assert!(records.count_documents(doc! {}).session(&mut session).await.unwrap() > 0);
    assert_writes_refused(&records, doc! {}, &mut session, "records of clients").await;
    assert_refused(&records.insert_one(&doc! {"_id": 1}).await.unwrap_err(), "records of clients");
    assert_refused(&records.delete_one(doc! {"_id": 1}).await.unwrap_err(), "records of clients");
    let update = records.update_one(doc! {"_id": 1}, doc! {"$set": {"fenced": true}}).upsert(true);
    assert_refused(&update.await.unwrap_err(), "records of clients");
    assert_eq!(records.aggregate([doc! {"$out": "txs"}]).await.err().unwrap().kind(), ErrorKind::Unsupported);
    let merge = doc! {"$merge": {"into": {"db": "mongotx", "coll": "events"}}};
    for output in [doc! {"$out": {"db": "mongotx", "coll": "writes"}}, merge] {
        assert_refused(&place.coll("c").aggregate([output]).await.err().unwrap(), "records of clients or gateways");
    }
    let stored = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let names = stored.database("mongotx").collection::<Document>("txs").list_index_names().await.unwrap();
    assert!(!names.iter().any(|name| name == "_mongotx_pending"), "{names:?}");
}
