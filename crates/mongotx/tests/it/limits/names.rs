//! Reserved names are refused wherever they could be written or read, with an error that names
//! them.

use bson::{Bson, Document, doc};
use mongotx::{Error, ErrorKind, Session};

use crate::common::verify::RESERVED;
use crate::limits::Scene;

fn assert_names(error: &Error, field: &str, what: &str) {
    assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
    assert!(error.to_string().contains(field), "{what}: {error}");
}

fn filters(field: &str) -> Vec<Document> {
    vec![
        doc! {field: 1},
        doc! {format!("{field}.x"): 1},
        doc! {"$or": [{"n": 1}, {field: {"$exists": true}}]},
        doc! {"$expr": {"$eq": [format!("${field}"), 1]}},
    ]
}

fn updates(field: &str) -> Vec<Document> {
    vec![
        doc! {"$set": {field: 1}},
        doc! {"$unset": {field: ""}},
        doc! {"$set": {format!("{field}.x"): 1}},
        doc! {"$rename": {"n": field}},
        doc! {"$rename": {field: "n"}},
    ]
}

/// Checks each write in a transaction, and outside one.
#[tokio::test]
async fn reserved_names_are_refused_everywhere() {
    let scene = Scene::set_up().await;
    for inside in [false, true] {
        let mut session = scene.client.session();
        if inside {
            session.begin().unwrap();
            scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        }
        let mut session = inside.then_some(session);
        for field in RESERVED {
            documents(&scene, field, session.as_mut()).await;
            changes(&scene, field, session.as_mut()).await;
            queries(&scene, field, session.as_mut()).await;
        }
        if let Some(mut session) = session {
            session.commit().await.unwrap();
        }
    }
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
    assert_eq!(scene.a.count_documents(doc! {}).await.unwrap(), 4);
    scene.assert_clean("reserved names").await;
}

macro_rules! refused {
    ($session:expr, $field:expr, $what:expr, $call:expr) => {{
        let call = $call;
        let done = match $session.as_deref_mut() {
            Some(session) => call.session(session).await.map(drop),
            None => call.await.map(drop),
        };
        assert_names(&done.expect_err($what), $field, $what);
    }};
}

async fn documents(scene: &Scene, field: &str, mut session: Option<&mut Session>) {
    let document = doc! {"_id": 9, field: 1};
    refused!(session, field, "insert_one", scene.a.insert_one(&document));
    refused!(session, field, "replace_one", scene.a.replace_one(doc! {"_id": 1}, &document));
    refused!(session, field, "find_one_and_replace", scene.a.find_one_and_replace(doc! {"_id": 1}, &document));
}

async fn changes(scene: &Scene, field: &str, mut session: Option<&mut Session>) {
    for update in updates(field) {
        refused!(session, field, "update_one", scene.a.update_one(doc! {"_id": 1}, update.clone()));
        refused!(session, field, "update_many", scene.a.update_many(doc! {}, update.clone()));
        refused!(session, field, "find_one_and_update", scene.a.find_one_and_update(doc! {"_id": 1}, update));
    }
    let pipeline = vec![doc! {"$set": {field: Bson::Null}}];
    refused!(session, field, "pipeline", scene.a.update_one(doc! {"_id": 1}, pipeline));
}

async fn queries(scene: &Scene, field: &str, mut session: Option<&mut Session>) {
    for filter in filters(field) {
        refused!(session, field, "find", scene.a.find(filter.clone()));
        refused!(session, field, "count", scene.a.count_documents(filter.clone()));
        refused!(session, field, "distinct", scene.a.distinct("n", filter.clone()));
        refused!(session, field, "update by it", scene.a.update_one(filter.clone(), doc! {"$set": {"n": 1}}));
        refused!(session, field, "delete_one", scene.a.delete_one(filter.clone()));
        refused!(session, field, "delete_many", scene.a.delete_many(filter));
    }
    refused!(session, field, "sort", scene.a.find(doc! {}).sort(doc! {field: 1}));
    refused!(session, field, "projection", scene.a.find(doc! {}).projection(doc! {field: 1}));
    refused!(session, field, "distinct field", scene.a.distinct(field, doc! {}));
    refused!(session, field, "distinct path", scene.a.distinct(&format!("{field}.x"), doc! {}));
}
