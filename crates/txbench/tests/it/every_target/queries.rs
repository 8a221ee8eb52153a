//! Finding documents, and changing those that are found.

use bson::{Bson, Document, doc};
use txbench::targets::{Change, Feature, Find, Index, Session, Update};

use crate::every_target::rig::{DOCS, Rig, all, begin, entries, increment, values};

fn ids(found: &[Document]) -> Vec<i32> {
    found.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

/// Sets `n` of each of ten documents to `10 - _id`, so that most have a history.
async fn with_history(rig: &Rig, session: &mut dyn Session) {
    begin(session).await;
    for id in 0..10 {
        session.update(DOCS, increment(id, 10 - id)).await.unwrap();
    }
    session.commit().await.unwrap();
    assert_eq!(values(rig).await, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1], "{}", rig.traits.name);
}

#[tokio::test]
async fn a_find_is_sorted_limited_and_projected() {
    for entry in entries(&[Feature::Query]) {
        let rig = Rig::with(entry, 10).await;
        let mut session = rig.session().await;
        with_history(&rig, &mut *session).await;
        for in_transaction in [false, true] {
            if in_transaction {
                begin(&mut *session).await;
            }
            let sorted = session.find(DOCS, Find::new(doc! {"n": {"$gt": 2}}).sort(doc! {"n": 1}).limit(3)).await;
            assert_eq!(ids(&sorted.unwrap()), [7, 6, 5], "{}", rig.traits.name);
            let descending = session.find(DOCS, Find::new(doc! {"group": 1}).sort(doc! {"_id": -1}).limit(2)).await;
            assert_eq!(ids(&descending.unwrap()), [9, 7], "{}", rig.traits.name);
            let range = Find::new(doc! {"_id": {"$gte": 3, "$lt": 6}}).sort(doc! {"_id": 1}).project(doc! {"n": 1});
            let expected = [doc! {"_id": 3, "n": 7}, doc! {"_id": 4, "n": 6}, doc! {"_id": 5, "n": 5}];
            assert_eq!(session.find(DOCS, range).await.unwrap(), expected, "{}", rig.traits.name);
            let some = Find::new(doc! {"_id": {"$in": [8, 2, 77]}}).project(doc! {"group": 0});
            let mut some = session.find(DOCS, some).await.unwrap();
            some.sort_by_key(|found| found.get_i32("_id").unwrap());
            assert_eq!(some, [doc! {"_id": 2, "n": 8}, doc! {"_id": 8, "n": 2}], "{}", rig.traits.name);
            let without_id = Find::new(doc! {"_id": 4}).project(doc! {"_id": 0, "n": 1});
            assert_eq!(session.find_one(DOCS, without_id).await.unwrap(), Some(doc! {"n": 6}), "{}", rig.traits.name);
            assert!(session.find(DOCS, Find::new(doc! {"n": 0})).await.unwrap().is_empty(), "{}", rig.traits.name);
        }
        session.commit().await.unwrap();
        rig.end().await;
    }
}

#[tokio::test]
async fn the_first_that_matches_is_updated_or_removed_and_answered() {
    for entry in entries(&[Feature::Query, Feature::Insert]) {
        let rig = Rig::with(entry, 10).await;
        let mut session = rig.session().await;
        with_history(&rig, &mut *session).await;
        begin(&mut *session).await;
        let least = Find::new(doc! {"group": 0}).sort(doc! {"n": 1});
        let update = Change::Update(doc! {"$inc": {"n": 100}});
        let changed = session.find_and_modify(DOCS, least.clone(), update).await.unwrap();
        assert_eq!(changed, Some(doc! {"_id": 8, "n": 102, "group": 0}), "{}", rig.traits.name);
        let removed = session.find_and_modify(DOCS, least.project(doc! {"n": 1}), Change::Remove).await.unwrap();
        assert_eq!(removed, Some(doc! {"_id": 6, "n": 4}), "{}", rig.traits.name);
        let nothing = session.find_and_modify(DOCS, Find::new(doc! {"_id": 6}), Change::Remove).await.unwrap();
        assert_eq!(nothing, None, "{}", rig.traits.name);
        session.commit().await.unwrap();
        assert_eq!(values(&rig).await, [10, 9, 8, 7, 6, 5, 3, 102, 1], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn several_updates_in_one_operation_count_those_that_matched() {
    for entry in entries(&[Feature::Query]) {
        let rig = Rig::with(entry, 4).await;
        let mut session = rig.session().await;
        let other = Update { filter: doc! {"_id": 2, "n": 99}, update: doc! {"$inc": {"n": 1}} };
        for expected in [[1, 2, 0, 3], [2, 4, 0, 6]] {
            begin(&mut *session).await;
            let updates = vec![increment(0, 1), increment(1, 1), increment(1, 1), increment(77, 1), other.clone()];
            assert_eq!(session.update_each(DOCS, updates).await.unwrap(), 3, "{}", rig.traits.name);
            assert_eq!(session.update_each(DOCS, vec![increment(3, 3)]).await.unwrap(), 1, "{}", rig.traits.name);
            session.commit().await.unwrap();
            assert_eq!(values(&rig).await, expected, "{}", rig.traits.name);
        }
        assert!(!session.update(DOCS, increment(77, 1)).await.unwrap(), "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn what_no_longer_matches_is_not_found() {
    for entry in entries(&[Feature::Query, Feature::Insert]) {
        let rig = Rig::empty(entry, &[Index { key: doc! {"state": 1, "_id": 1}, unique: false }]).await;
        let documents = (0..20).map(|id| doc! {"_id": id, "state": "new"}).collect();
        rig.target.load(DOCS, documents).await.unwrap();
        let mut session = rig.session().await;
        let oldest = Find::new(doc! {"state": "new"}).sort(doc! {"_id": 1});
        for id in 0..20 {
            begin(&mut *session).await;
            let found = session.find_one(DOCS, oldest.clone()).await.unwrap();
            assert_eq!(ids(found.as_slice()), [id], "{}", rig.traits.name);
            let by_id = doc! {"_id": id};
            if id % 2 == 0 {
                let update = doc! {"$set": {"state": "old"}};
                assert!(session.update(DOCS, Update { filter: by_id, update }).await.unwrap(), "{}", rig.traits.name);
            } else {
                assert!(session.delete(DOCS, by_id).await.unwrap(), "{}", rig.traits.name);
            }
            session.commit().await.unwrap();
        }
        assert_eq!(session.find_one(DOCS, oldest).await.unwrap(), None, "{}", rig.traits.name);
        assert_eq!(all(&rig).await.len(), 10, "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn near_answers_in_the_order_of_distance() {
    for entry in entries(&[Feature::Near]) {
        let rig = Rig::empty(entry, &[Index { key: doc! {"at": "2dsphere"}, unique: false }]).await;
        let point = |x: f64| Bson::from(doc! {"type": "Point", "coordinates": [x, 0.0]});
        let documents = (0..30).map(|id| doc! {"_id": id, "at": point(f64::from(id) / 100.0)}).collect();
        rig.target.load(DOCS, documents).await.unwrap();
        let mut session = rig.session().await;
        let near = |metres: i32| {
            doc! {"at": {"$near": {"$geometry": point(0.1), "$maxDistance": metres}}}
        };
        assert_eq!(ids(&session.find(DOCS, Find::new(near(1_200))).await.unwrap())[..1], [10], "{}", rig.traits.name);
        begin(&mut *session).await;
        // The nearest moves away, and one from far comes nearest.
        for (id, x) in [(10, 0.3), (25, 0.101)] {
            let update = doc! {"$set": {"at": point(x)}};
            assert!(session.update(DOCS, Update { filter: doc! {"_id": id}, update }).await.unwrap());
        }
        let own = session.find(DOCS, Find::new(near(5_000)).limit(2)).await.unwrap();
        assert_eq!(ids(&own)[..1], [25], "{}", rig.traits.name);
        session.commit().await.unwrap();
        let found = ids(&session.find(DOCS, Find::new(near(1_300))).await.unwrap());
        assert_eq!(found[..1], [25], "{}", rig.traits.name);
        let mut others = found[1..].to_vec();
        others.sort_unstable();
        assert_eq!(others, [9, 11], "{}", rig.traits.name);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_pipeline_sees_what_is_committed() {
    for entry in entries(&[Feature::Aggregate]) {
        let rig = Rig::with(entry, 10).await;
        let mut session = rig.session().await;
        with_history(&rig, &mut *session).await;
        let pipeline = vec![doc! {"$group": {"_id": "$group", "sum": {"$sum": "$n"}}}, doc! {"$sort": {"_id": 1}}];
        for in_transaction in [false, true] {
            if in_transaction {
                begin(&mut *session).await;
            }
            let sums = session.aggregate(DOCS, pipeline.clone()).await.unwrap();
            assert_eq!(sums, [doc! {"_id": 0, "sum": 30}, doc! {"_id": 1, "sum": 25}], "{}", rig.traits.name);
        }
        session.commit().await.unwrap();
        rig.end().await;
    }
}
