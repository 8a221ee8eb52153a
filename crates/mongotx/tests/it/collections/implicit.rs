//! Collections that the first write of a transaction makes: they stay when it is rolled back.

use bson::{Document, doc};
use mongotx::{ErrorKind, IndexModel, Session};

use crate::place::Place;

/// Each way to write into a collection that is not there: the document, with its `_id`, is 1.
async fn write(place: &Place, way: &str, session: &mut Session) {
    let coll = place.coll(way);
    match way {
        "insert" => drop(coll.insert_one(&doc! {"_id": 1, "a": 1}).session(session).await.unwrap()),
        "insert_many" => drop(coll.insert_many(&[doc! {"_id": 1, "a": 1}]).session(session).await.unwrap()),
        "upsert" => {
            let upsert = coll.update_one(doc! {"_id": 1}, doc! {"$set": {"a": 1}}).upsert(true);
            assert!(upsert.session(session).await.unwrap().upserted_id.is_some());
        }
        "replace" => {
            let upsert = coll.replace_one(doc! {"_id": 1}, &doc! {"a": 1}).upsert(true);
            assert!(upsert.session(session).await.unwrap().upserted_id.is_some());
        }
        "modify" => {
            let upsert = coll.find_one_and_update(doc! {"_id": 1}, doc! {"$set": {"a": 1}}).upsert(true);
            assert_eq!(upsert.session(session).await.unwrap(), None);
        }
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn the_first_write_of_a_transaction_makes_the_collection() {
    for way in ["insert", "insert_many", "upsert", "replace", "modify"] {
        for (commit, indexed) in [(false, false), (true, false), (false, true), (true, true)] {
            let place = Place::new("implicit").await;
            let coll = place.coll(way);
            let mut session = place.begin();
            assert_eq!(coll.find_one(doc! {"_id": 1}).session(&mut session).await.unwrap(), None);
            write(&place, way, &mut session).await;
            if indexed {
                coll.create_index(doc! {"a": 1, "b": 1}).await.unwrap();
            }
            let found = coll.find_one(doc! {"a": 1}).session(&mut session).await.unwrap();
            assert_eq!(found, Some(doc! {"_id": 1, "a": 1}), "{way}");
            assert_eq!(coll.find_one(doc! {"a": 1}).await.unwrap(), None, "{way}: not to others");
            if commit { session.commit().await } else { session.rollback().await }.unwrap();
            let expected = if commit { vec![doc! {"_id": 1, "a": 1}] } else { Vec::new() };
            assert_eq!(place.stored(way).await, expected, "{way}");
            assert_eq!(place.ours.list_collection_names().await.unwrap(), [way], "it stays");
            let indexes = coll.list_index_names().await.unwrap();
            assert_eq!(indexes, if indexed { vec!["_id_", "a_1_b_1"] } else { vec!["_id_"] });
        }
    }
}

/// A unique index waits for what is pending, the caller's own transaction included; other indexes
/// do not.
#[tokio::test]
async fn a_unique_index_waits_for_the_transaction_that_made_the_collection() {
    let place = Place::new("implicit_unique").await;
    let mut session = place.begin();
    write(&place, "insert", &mut session).await;
    let coll = place.coll("insert");
    let waiting = tokio::spawn({
        let coll = coll.clone();
        async move { coll.create_index(IndexModel::new(doc! {"a": 1}).unique(true)).await }
    });
    // The mirrored index comes first, and then the wait.
    let mirror = "_mongotx_unsafe.a_1".to_owned();
    for _ in 0..1_000 {
        if place.plain.collection::<Document>("insert").list_index_names().await.unwrap().contains(&mirror) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(coll.list_index_names().await.unwrap(), ["_id_"]);
    session.commit().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!(coll.list_index_names().await.unwrap(), ["_id_", "a_1"]);
    assert_eq!(coll.insert_one(&doc! {"a": 1}).await.unwrap_err().code(), Some(11000));
}

#[tokio::test]
async fn two_transactions_make_the_same_collection() {
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let place = Place::new("implicit_two").await;
        let rival = Place::new("implicit_rival").await;
        let (mut one, mut other) = (place.begin(), rival.begin());
        let (ours, theirs) = (place.coll("c"), rival.client.database(place.ours.name()).collection::<Document>("c"));
        let (done, also_done) = futures_util::future::join(
            async { ours.insert_many(&[doc! {"_id": 1}, doc! {"_id": 2}]).session(&mut one).await },
            async { theirs.insert_one(&doc! {"_id": 3}).session(&mut other).await },
        )
        .await;
        assert_eq!((done.unwrap().len(), also_done.unwrap()), (2, 3.into()));
        // They are rivals as in any other collection.
        let error = theirs.insert_one(&doc! {"_id": 1}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
        if first { one.commit().await } else { one.rollback().await }.unwrap();
        if second { other.commit().await } else { other.rollback().await }.unwrap();
        assert!(rival.client.flush(std::time::Duration::from_secs(20)).await);
        let mut expected = Vec::new();
        expected.extend(first.then(|| [doc! {"_id": 1}, doc! {"_id": 2}]).into_iter().flatten());
        expected.extend(second.then(|| doc! {"_id": 3}));
        assert_eq!(place.stored("c").await, expected);
    }
}
