//! Calls in the wrong order: begin twice, commit nothing, go on after an error.

use bson::doc;
use mongotx::{Error, ErrorKind, Outcome};

use crate::limits::Scene;

fn assert_closed(error: &Error) {
    assert_eq!((error.kind(), error.code()), (ErrorKind::Closed, Some(251)), "{error}");
    assert!(error.labels().is_empty(), "{error}");
}

#[tokio::test]
async fn commit_and_rollback_without_begin_are_closed() {
    let scene = Scene::set_up().await;
    let mut session = scene.client.session();
    assert_closed(&session.commit().await.unwrap_err());
    assert_closed(&session.rollback().await.unwrap_err());
    session.begin().unwrap();
    session.commit().await.unwrap();
    assert_closed(&session.commit().await.unwrap_err());
    assert!(!session.is_open() && session.id().is_none());
}

#[tokio::test]
async fn begin_twice_is_invalid_and_the_first_goes_on() {
    let scene = Scene::set_up().await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let id = session.id();
    assert_eq!(session.begin().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(session.id(), id);
    session.commit().await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
}

#[tokio::test]
async fn call_in_a_session_without_begin_is_outside_a_transaction() {
    let scene = Scene::set_up().await;
    let mut session = scene.client.session();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
}

#[tokio::test]
async fn everything_after_a_conflict_is_closed_until_begin() {
    let scene = Scene::set_up().await;
    let (mut first, mut second) = (scene.client.session(), scene.client.session());
    first.begin().unwrap();
    second.begin().unwrap();
    let add = doc! {"$inc": {"n": 1}};
    scene.a.update_one(doc! {"_id": 1}, add.clone()).session(&mut first).await.unwrap();
    scene.a.update_one(doc! {"_id": 2}, add.clone()).session(&mut second).await.unwrap();
    let id = second.id().unwrap();
    let lost = scene.a.update_one(doc! {"_id": 1}, add.clone()).session(&mut second).await.unwrap_err();
    assert_eq!((lost.kind(), lost.transaction()), (ErrorKind::Conflict, Some(id)));
    // The transaction is rolled back at once: others get at its documents.
    scene.a.update_one(doc! {"_id": 2}, doc! {"$inc": {"n": 10}}).await.unwrap();
    assert_closed(&scene.a.update_one(doc! {"_id": 3}, add.clone()).session(&mut second).await.unwrap_err());
    assert_closed(&scene.a.find_one(doc! {"_id": 3}).session(&mut second).await.unwrap_err());
    let closed = second.commit().await.unwrap_err();
    assert_closed(&closed);
    assert_eq!(closed.transaction(), Some(id));
    first.commit().await.unwrap();
    second.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, add).session(&mut second).await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 2}));
    assert_eq!(scene.seen(2).await, Some(doc! {"_id": 2, "n": 10}));
    assert_ne!(scene.client.outcome(id).await.unwrap(), Outcome::Committed);
}

#[tokio::test]
async fn refused_statement_does_not_end_the_transaction() {
    let scene = Scene::set_up().await;
    let mut session = scene.client.session();
    session.begin().unwrap();
    scene.a.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    let twice = scene.a.insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap_err();
    assert_eq!((twice.kind(), twice.code()), (ErrorKind::Invalid, Some(11000)));
    let twice = scene.a.insert_one(&doc! {"_id": 2}).session(&mut session).await.unwrap_err();
    assert_eq!((twice.kind(), twice.code()), (ErrorKind::Invalid, Some(11000)));
    let wrong = scene.a.update_one(doc! {"_id": 2}, doc! {"$push": {"n": 1}}).session(&mut session).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Invalid);
    let unheard =
        scene.a.update_one(doc! {"_id": 2}, doc! {"$frob": {"n": 1}}).session(&mut session).await.unwrap_err();
    assert!(!unheard.contains_label("TransientTransactionError"), "{unheard}");
    assert!(session.is_open());
    session.commit().await.unwrap();
    assert_eq!(scene.seen(1).await, Some(doc! {"_id": 1, "n": 1}));
    assert_eq!(scene.seen(2).await, Some(doc! {"_id": 2, "n": 0}));
    scene.assert_clean("refused statements").await;
}
