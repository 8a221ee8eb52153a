//! Updates and deletes of what a search finds.

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::{ErrorKind, Isolation, Session, Step};

use crate::text::scene::{LEASE_MS, Scene};
use crate::{common::hooks::Gate, random::Random};

async fn same(scene: &Scene, session: Option<&mut Session>) {
    let by_id = doc! {"_id": 1};
    let wanted: Vec<Document> =
        scene.plain.find(doc! {}).sort(by_id.clone()).await.unwrap().try_collect().await.unwrap();
    let find = scene.ours.find(doc! {}).sort(by_id);
    let find = if let Some(session) = session { find.session(session) } else { find };
    assert_eq!(find.await.unwrap().try_collect().await.unwrap(), wanted);
}

fn search(words: &str) -> Document {
    doc! {"$text": {"$search": words}, "_id": {"$gt": 4}}
}

#[tokio::test]
async fn writes_change_what_the_plain_driver_changes() {
    for (seed, isolation) in [(700, Isolation::ReadCommitted), (701, Isolation::RepeatableRead)] {
        let random = &mut Random::of_seed(seed);
        let mut scene = Scene::new(random).await;
        scene.roll_rival_back().await;
        scene.commit_unfinished(random).await;
        let mut session = scene.begin(isolation);
        for words in ["apple", "tea -pie", "\"green tea\" run"] {
            let update = doc! {"$inc": {"k": 10}, "$set": {"s": "apple tea"}};
            let ours = scene.ours.update_many(search(words), update.clone()).session(&mut session).await.unwrap();
            let plain = scene.plain.update_many(search(words), update).await.unwrap();
            assert!(plain.matched_count > 0, "{words}");
            assert_eq!((ours.matched_count, ours.modified_count), (plain.matched_count, plain.modified_count));
            let best = doc! {"score": {"$meta": "textScore"}, "_id": 1};
            let ours = scene.ours.find_one_and_delete(search(words)).sort(best.clone()).session(&mut session);
            let ours = ours.await.unwrap();
            // The plain command cannot sort by score.
            let plain = scene.plain.find_one(search(words)).sort(best).await.unwrap().unwrap();
            scene.plain.delete_one(doc! {"_id": plain.get("_id").unwrap().clone()}).await.unwrap();
            assert_eq!(ours, Some(plain));
            same(&scene, Some(&mut session)).await;
        }
        session.commit().await.unwrap();
        let ours = scene.ours.delete_many(search("apple")).await.unwrap();
        assert_eq!(ours, scene.plain.delete_many(search("apple")).await.unwrap().deleted_count);
        let upsert = scene.ours.update_one(search("nothing"), doc! {"$set": {"_id": 900, "s": "new"}}).upsert(true);
        assert!(upsert.await.unwrap().upserted_id.is_some());
        scene.plain.insert_one(doc! {"_id": 900, "s": "new"}).await.unwrap();
        assert_eq!(scene.ours.delete_one(search("nothing")).await.unwrap(), 0);
        same(&scene, None).await;
        scene.end().await;
    }
}

#[tokio::test]
async fn what_no_longer_has_the_words_when_it_is_locked_is_left_alone() {
    let random = &mut Random::of_seed(710);
    let scene = Scene::new(random).await;
    for (many, ids) in [(false, 30..31), (true, 31..35)] {
        let among = doc! {"_id": {"$in": ids.clone().collect::<Vec<i32>>()}};
        let now = async |word: &str| {
            scene.stored.update_many(among.clone(), doc! {"$set": {"s": word}}).await.unwrap();
        };
        now("zebra").await;
        let (gate, hook) = Gate::at(Step::BeforeLock, 1, false);
        let client = scene.world.client_with(LEASE_MS, hook).await;
        let coll = scene.world.collection(&client, "a");
        let update = doc! {"$set": {"found": many}};
        let writing = tokio::spawn(async move {
            match many {
                true => coll.update_many(search("zebra"), update).await.unwrap(),
                false => coll.update_one(search("zebra"), update).await.unwrap(),
            }
        });
        gate.reached().await;
        now("horse").await;
        gate.open();
        assert_eq!(writing.await.unwrap().matched_count, 0);
        let sent = client.metrics().commands_sent();
        assert!(sent < 60, "{sent} commands: one look at each document is enough");
        assert_eq!(scene.stored.count_documents(doc! {"found": {"$exists": true}}).await.unwrap(), 0);
    }
    scene.end().await;
}

#[tokio::test]
async fn what_a_rival_holds_is_a_conflict() {
    let random = &mut Random::of_seed(720);
    let scene = Scene::new(random).await;
    let mut session = scene.begin(Isolation::ReadCommitted);
    let found = scene.plain.find_one(doc! {"_id": 0}).await.unwrap().unwrap();
    let words = format!("{} apple tea pie blueberry run", found.get_str("s").unwrap());
    let filter = doc! {"$text": {"$search": words}, "_id": 0};
    let held = scene.ours.update_one(filter, doc! {"$set": {"a": 1}}).session(&mut session).await;
    match held {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
        Ok(done) => panic!("{found} was not found: {done:?}"),
    }
    scene.end().await;
}
