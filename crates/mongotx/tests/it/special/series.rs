//! Time series: read everywhere, written outside transactions only; their buckets are not written
//! at all.

use bson::{DateTime, Document, doc};
use mongotx::Isolation;

use super::{all, assert_refused, assert_writes_refused};
use crate::place::Place;

const REASON: &str = "time series";

async fn place(name: &str) -> Place {
    let place = Place::with(name, doc! {"timeseries": {"timeField": "at", "metaField": "m"}}).await;
    for n in 1..=3 {
        place.coll("c").insert_one(&measured(n)).await.unwrap();
    }
    place
}

fn measured(n: i32) -> Document {
    doc! {"_id": n, "at": DateTime::from_millis(i64::from(n)), "m": n % 2, "n": n}
}

#[tokio::test]
async fn time_series_is_read_everywhere_and_written_outside_transactions() {
    let place = place("series").await;
    let coll = place.coll("c");
    let mut session = place.begin_at(Isolation::ReadCommitted);
    // In a transaction that has written elsewhere, too.
    for written in [false, true] {
        if written {
            place.coll("other").insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap();
        }
        for inside in [false, true] {
            let find = coll.find(doc! {"n": {"$gte": 2}}).sort(doc! {"n": -1});
            let (count, estimate) = (coll.count_documents(doc! {"m": 1}), coll.estimated_document_count());
            let distinct = coll.distinct("m", doc! {});
            let (found, counted, estimated, values) = match inside {
                true => (
                    find.session(&mut session).await.unwrap(),
                    count.session(&mut session).await.unwrap(),
                    estimate.session(&mut session).await.unwrap(),
                    distinct.session(&mut session).await.unwrap(),
                ),
                false => (find.await.unwrap(), count.await.unwrap(), estimate.await.unwrap(), distinct.await.unwrap()),
            };
            let found: Vec<Document> = found.try_collect().await.unwrap();
            let n = |document: &Document| document.get_i32("n").unwrap();
            assert_eq!(found.iter().map(n).collect::<Vec<_>>(), [3, 2]);
            assert_eq!((counted, estimated, values.len()), (2, 3, 2));
            let sum = [doc! {"$group": {"_id": "$m", "n": {"$sum": "$n"}}}, doc! {"$sort": {"_id": 1}}];
            let sums = all(&coll, &sum, inside.then_some(&mut session)).await;
            assert_eq!(sums, [doc! {"_id": 0, "n": 2}, doc! {"_id": 1, "n": 4}]);
        }
    }
    assert_writes_refused(&coll, doc! {"m": 1}, &mut session, REASON).await;
    session.commit().await.unwrap();
    // Outside a transaction the server has its say.
    let error = coll.update_one(doc! {"n": 1}, doc! {"$set": {"n": 2}}).await.unwrap_err();
    assert_eq!(error.code(), Some(72), "{error}");
}

#[tokio::test]
async fn nothing_is_added_to_a_time_series() {
    let place = place("series_indexes").await;
    let coll = place.coll("c");
    coll.create_index(doc! {"m": 1, "at": 1}).await.unwrap();
    coll.find(doc! {"n": 1}).await.unwrap().try_collect().await.unwrap();
    assert_eq!(coll.list_index_names().await.unwrap(), ["m_1_at_1"]);
    assert_eq!(place.stored_index_names("c").await, ["m_1_at_1"]);
    all(&place.coll("system.buckets.c"), &[], None).await;
    assert_eq!(place.stored_index_names("system.buckets.c").await, ["m_1_at_1"]);
}

#[tokio::test]
async fn buckets_of_a_time_series_are_not_written_at_all() {
    let place = place("series_buckets").await;
    let buckets = place.coll("system.buckets.c");
    let before = all(&buckets, &[], None).await;
    let mut session = place.begin_at(Isolation::ReadCommitted);
    assert_writes_refused(&buckets, doc! {}, &mut session, REASON).await;
    assert_refused(&buckets.insert_one(&doc! {"_id": 1}).await.unwrap_err(), REASON);
    assert_refused(&buckets.update_one(doc! {}, doc! {"$set": {"a": 1}}).await.unwrap_err(), REASON);
    assert_refused(&buckets.find_one_and_delete(doc! {}).await.unwrap_err(), REASON);
    assert_refused(&buckets.delete_one(doc! {}).await.unwrap_err(), REASON);
    assert_refused(&buckets.delete_many(doc! {}).await.unwrap_err(), REASON);
    session.rollback().await.unwrap();
    assert_eq!(all(&buckets, &[], None).await, before);
}

#[tokio::test]
async fn repeatable_read_locks_nothing_in_a_time_series() {
    let place = place("series_repeatable").await;
    let mut session = place.begin_at(Isolation::RepeatableRead);
    assert_refused(&place.coll("c").find_one(doc! {"n": 1}).session(&mut session).await.unwrap_err(), REASON);
    let pipeline = [doc! {"$match": {"n": 1}}];
    let error = place.coll("c").aggregate(pipeline).session(&mut session).await.err().unwrap();
    assert_refused(&error, REASON);
    session.rollback().await.unwrap();
}
