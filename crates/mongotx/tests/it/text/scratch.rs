//! The commands of a search, and what it leaves.

use bson::{Document, doc};
use mongotx::{ErrorKind, Isolation, Session};

use crate::text::scene::Scene;
use crate::{common::ghost, random::Random};

fn search() -> Document {
    doc! {"$text": {"$search": "apple"}, "_id": {"$gt": 4, "$lt": 400}}
}

async fn cost(scene: &Scene, session: &mut Session) -> u64 {
    let before = scene.client.metrics().commands_sent();
    scene.ours.find(search()).session(session).await.unwrap().try_collect().await.unwrap();
    scene.client.metrics().commands_sent() - before
}

#[tokio::test]
async fn a_search_is_two_commands_when_nothing_is_pending_and_six_after_an_own_write() {
    let random = &mut Random::of_seed(800);
    let scene = Scene::new(random).await;
    let mut session = scene.begin(Isolation::ReadCommitted);
    cost(&scene, &mut session).await;
    assert_eq!(cost(&scene, &mut session).await, 2);
    scene.write_own(random, &mut session).await;
    cost(&scene, &mut session).await;
    // The last of them is the look at the own record.
    assert_eq!(cost(&scene, &mut session).await, 6);
    scene.end().await;
}

#[tokio::test]
async fn a_sweep_drops_what_a_dead_client_has_left() {
    let random = &mut Random::of_seed(810);
    let scene = Scene::new(random).await;
    let world = scene.world.clone();
    let dead = ghost::die(async move || {
        let client = world.client(300).await;
        let mut session = client.session();
        session.begin().unwrap();
        let coll = world.collection(&client, "a");
        coll.update_one(doc! {"_id": 9}, doc! {"$set": {"s": "apple"}}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        std::mem::forget(session);
        id
    })
    .await;
    let raw = scene.world.raw().await.database(&scene.world.db);
    let (theirs, others) = (format!("_mongotx_text.{}.3", dead.client), "_mongotx_text.000000000000000000000000.1");
    raw.create_collection(&theirs).await.unwrap();
    raw.create_collection(others).await.unwrap();
    let client = scene.world.client(60_000).await;
    crate::common::until("swept", async || {
        client.sweep().await.unwrap();
        (!scene.scratch().await.contains(&theirs)).then_some(())
    })
    .await;
    assert_eq!(scene.scratch().await, [others]);
    raw.collection::<Document>(others).drop().await.unwrap();
    scene.end().await;
}

#[tokio::test]
async fn what_is_refused_is_refused_by_name() {
    let random = &mut Random::of_seed(820);
    let scene = Scene::new(random).await;
    let mut session = scene.begin(Isolation::ReadCommitted);
    scene.write_own(random, &mut session).await;
    let within_or = doc! {"$or": [{"$text": {"$search": "apple"}}, {"_id": 1}]};
    assert!(scene.ours.find(within_or.clone()).await.is_ok(), "safe versions only");
    let refused = [
        scene.ours.find(within_or.clone()).session(&mut session).await.map(drop).unwrap_err(),
        scene.ours.update_many(within_or, doc! {"$set": {"a": 1}}).await.map(drop).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("$text"), "{error}");
    }
    let raw = scene.world.raw().await.database(&scene.world.db);
    let index = doc! {"key": {"$**": "text"}, "name": "all"};
    raw.run_command(doc! {"createIndexes": "wild", "indexes": [index]}).await.unwrap();
    let wild = scene.world.collection(&scene.client, "wild");
    wild.insert_one(&doc! {"s": "apple"}).await.unwrap();
    let error = wild.insert_one(&doc! {"s": "apple"}).session(&mut session).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("\"all\""), "{error}");
    scene.end().await;
}

/// An update that is refused for its filter has written nothing: the same filter still works in a
/// read of the committed documents.
#[tokio::test]
async fn a_filter_that_no_update_can_ask_leaves_the_transaction_without_writes() {
    let random = &mut Random::of_seed(830);
    let scene = Scene::new(random).await;
    let mut session = scene.begin(Isolation::ReadCommitted);
    let within_or = doc! {"$or": [{"$text": {"$search": "apple"}}, {"_id": {"$gte": 0}}]};
    assert!(scene.ours.find_one(within_or.clone()).await.unwrap().is_some());
    let change = doc! {"$set": {"a": 1}};
    let refused = scene.ours.update_one(within_or.clone(), change).session(&mut session).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(scene.ours.find_one(within_or).session(&mut session).await.unwrap().is_some());
    session.commit().await.unwrap();
    scene.end().await;
}
