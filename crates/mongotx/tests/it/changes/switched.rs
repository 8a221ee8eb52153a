//! Collections whose change streams are switched on while others write; dropped and renamed ones.

use std::time::Duration;

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, ErrorKind, Step};

use super::{Watched, copied::Copy};
use crate::common::hooks::Hook;

const IMAGES: &str = "changeStreamPreAndPostImages";

fn on() -> Document {
    doc! {"enabled": true}
}

#[tokio::test]
async fn a_collection_that_is_created_with_images_is_watched_with_them() {
    let place = Watched::with("switched_created", crate::quiet::options()).await;
    let start = place.now().await;
    place.ours.create_collection("a").option(IMAGES, on()).await.unwrap();
    let a = place.coll("a");
    a.insert_one(&doc! {"_id": 1, "v": 1}).await.unwrap();
    a.update_one(doc! {"_id": 1}, doc! {"$inc": {"v": 1}}).await.unwrap();
    a.delete_one(doc! {"_id": 1}).await.unwrap();
    place.coll("b").insert_one(&doc! {"_id": 1}).await.unwrap();
    assert_eq!(place.kinds_since(start).await, ["insert 1", "update 1", "delete 1"]);
    let events = place.since(start).await;
    let image = |at: usize, name: &str| events[at].document.get_document(name).ok().cloned();
    assert_eq!(image(0, "fullDocumentBeforeChange"), None);
    assert_eq!(image(1, "fullDocumentBeforeChange"), Some(doc! {"_id": 1, "v": 1}));
    assert_eq!(image(1, "postImage"), Some(doc! {"_id": 1, "v": 2}));
    assert_eq!(image(2, "fullDocumentBeforeChange"), Some(doc! {"_id": 1, "v": 2}));
    let listed = place.ours.list_collections().await.unwrap();
    assert_eq!(listed.iter().find(|one| one.name == "a").unwrap().options, doc! {IMAGES: on()});
}

/// Every write from the answer of the switch on has its event, by whichever client. Before it, some
/// may have.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn from_the_switch_on_every_write_has_an_event() {
    let place = Watched::with("switched_on", crate::quiet::at_read_committed()).await;
    let start = place.now().await;
    let other = place.another().await;
    place.coll("a").insert_one(&doc! {"_id": 0, "v": 0}).await.unwrap();
    // Both know it as it is, and one has a transaction open that has written there.
    let theirs = other.database(place.plain.name()).collection::<Document>("a");
    theirs.update_one(doc! {"_id": 0}, doc! {"$inc": {"v": 1}}).await.unwrap();
    let mut session = other.session();
    session.begin().unwrap();
    theirs.insert_one(&doc! {"_id": 1, "v": 0}).session(&mut session).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let committed = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        session.commit().await.unwrap();
        drop(stop);
    });
    place.ours.modify_collection("a").option(IMAGES, on()).await.unwrap();
    committed.await.unwrap();
    assert!(stopped.await.is_err());
    let before = place.client.changes().now().await.unwrap();
    theirs.update_one(doc! {"_id": 0}, doc! {"$inc": {"v": 1}}).await.unwrap();
    place.coll("a").delete_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(place.kinds_since(before).await, ["update 0", "delete 1"]);
    let _ = start;
    // Switching it on once more waits for no transaction, and switching it off ends it.
    place.ours.modify_collection("a").option(IMAGES, on()).await.unwrap();
    place.ours.modify_collection("a").option(IMAGES, doc! {"enabled": false}).await.unwrap();
    let before = place.now().await;
    place.coll("a").delete_one(doc! {"_id": 0}).await.unwrap();
    assert!(place.since(before).await.is_empty());
}

/// A transaction that has locked before the switch, and whose client looks up nothing any more,
/// cannot commit behind it without an event.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_switch_waits_for_what_is_locked() {
    let options = ClientOptions { write_wait: Duration::from_millis(500), ..crate::quiet::at_read_committed() };
    let place = Watched::with("switched_locked", options).await;
    place.coll("a").insert_one(&doc! {"_id": 0}).await.unwrap();
    let other = place.another().await;
    let mut session = other.session();
    session.begin().unwrap();
    let theirs = other.database(place.plain.name()).collection::<Document>("a");
    theirs.update_one(doc! {"_id": 0}, doc! {"$set": {"v": 1}}).session(&mut session).await.unwrap();
    let refused = place.ours.modify_collection("a").option(IMAGES, on()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.conflict().map(|one| one.rival)), (ErrorKind::Conflict, session.id()));
    session.commit().await.unwrap();
    place.ours.modify_collection("a").option(IMAGES, on()).await.unwrap();
}

#[tokio::test]
async fn what_could_have_no_events_is_not_switched_on() {
    let place = Watched::with("switched_refused", crate::quiet::options()).await;
    let capped = place.ours.create_collection("c").option("capped", true).option("size", 4096);
    let refused = capped.option(IMAGES, on()).await.unwrap_err();
    assert_eq!((refused.code(), refused.to_string().contains("capped")), (Some(72), true), "{refused}");
    place.ours.create_collection("c").option("capped", true).option("size", 4096).await.unwrap();
    let refused = place.ours.modify_collection("c").option(IMAGES, on()).await.unwrap_err();
    assert_eq!(refused.code(), Some(72), "{refused}");
}

#[tokio::test]
async fn drops_and_renames_have_events_between_the_changes() {
    let place = Watched::new("switched_ends").await;
    let (a, start) = (place.coll("a"), place.now().await);
    for name in ["a", "b"] {
        place.coll(name).insert_one(&doc! {"_id": 1}).await.unwrap();
    }
    a.rename(&place.named("b"), true).await.unwrap();
    place.coll("b").insert_one(&doc! {"_id": 2}).await.unwrap();
    place.coll("b").drop().await.unwrap();
    // There is none any more.
    place.coll("b").drop().await.unwrap();
    a.insert_one(&doc! {"_id": 3}).await.unwrap();
    place.ours.drop().await.unwrap();
    let kinds = place.kinds_since(start).await;
    let expected = ["insert 1", "insert 1", "drop", "rename", "insert 2", "drop", "insert 3", "drop", "dropDatabase"];
    assert_eq!(kinds, expected);
    let events = place.since(start).await;
    assert_eq!(events[3].document.get_document("to").unwrap().get_str("coll").unwrap(), "b");
    let refused = a.rename(&place.named("b"), false).await.unwrap_err();
    assert_eq!(refused.code(), Some(26));
    assert_eq!(place.since(start).await.len(), events.len());
}

/// A watcher that begins, and then reads the collection, misses nothing, also not what is just
/// about to be decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_copy_that_is_begun_in_between_is_complete() {
    let place = Watched::new("switched_between").await;
    let hook = Hook::pausing(Step::BeforeDecision, Duration::from_millis(5));
    let options = ClientOptions { hook: Some(hook), ..place.options.clone() };
    let client = Client::connect_with(&place.uri, options).await.unwrap();
    let db = place.plain.name().to_owned();
    let writer = tokio::spawn(async move {
        let a = client.database(&db).collection::<Document>("a");
        for id in 0..80 {
            a.insert_one(&doc! {"_id": id}).await.unwrap();
        }
    });
    while !writer.is_finished() {
        let position = place.now().await;
        let read: Vec<Document> = place.coll("a").find(doc! {}).await.unwrap().try_collect().await.unwrap();
        // The events after the first one behind the position show whether that was left out.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let events = place.since(position).await;
        let copied = Copy::of(&events).documents(&place.named("a"));
        let mut ids: Vec<i32> = read.iter().chain(&copied).map(|one| one.get_i32("_id").unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.iter().copied().eq(0..i32::try_from(ids.len()).unwrap()), "{ids:?}");
    }
    writer.await.unwrap();
}
