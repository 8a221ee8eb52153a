//! Queries of a collection in which many documents are pending: the first few of an order, and
//! counts, look for all writers first (decision 0065).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bson::{Document, doc};
use mongotx::{Client, ClientOptions, Collection, IndexModel, Session, Step};

use crate::quiet::{self, Gate};

const LONG: Duration = Duration::from_secs(60);
/// Documents of the collection, in three groups of the same size.
const ALL: i32 = 360;
/// Number of those documents that an open transaction holds.
const HELD: i32 = 180;

/// The collection `{_id, g: _id % 3, k: _id}` in the order of an index, and its first documents
/// held by a transaction that would bring them to the end of the order.
struct Crowd {
    rival: Client,
    coll: Collection<Document>,
    open: Session,
}

impl Crowd {
    async fn new() -> Self {
        let rival = quiet::connect(quiet::options()).await;
        let coll = quiet::collection(&rival, 0).await;
        coll.create_index(IndexModel::new(doc! {"g": 1, "k": -1})).await.unwrap();
        let all: Vec<Document> = (1..=ALL).map(|id| doc! {"_id": id, "g": id % 3, "k": id}).collect();
        coll.insert_many(&all).await.unwrap();
        let mut open = rival.session();
        open.begin().unwrap();
        let up = doc! {"$inc": {"k": 10_000}};
        let held = coll.update_many(doc! {"_id": {"$lte": HELD}}, up).session(&mut open).await.unwrap();
        assert_eq!(held.modified_count as i32, HELD);
        Self { rival, coll, open }
    }

    /// Another client's collection, which has looked it up.
    async fn reader(&self) -> (Client, Collection<Document>) {
        let client = quiet::connect(quiet::options()).await;
        let coll = quiet::through(&client, &self.coll);
        first(&coll, 2).await;
        (client, coll)
    }

    /// Commands that a client sends for each of these queries. What it knows of the collection ages
    /// after ten seconds: if that may be, it begins again.
    async fn commands_for<Q: AsyncFn(&Collection<Document>)>(&self, queries: &[Q]) -> Vec<BTreeMap<String, u64>> {
        loop {
            let (client, coll) = self.reader().await;
            let (begun, mut sent) = (Instant::now(), Vec::new());
            for query in queries {
                sent.push(quiet::commands_of(&client, query(&coll)).await);
            }
            if begun.elapsed() < Duration::from_secs(5) {
                return sent;
            }
        }
    }

    async fn end(mut self) {
        self.open.rollback().await.unwrap();
        assert!(self.rival.flush(LONG).await);
    }
}

/// `_id`s of the first three of a group.
async fn first(coll: &Collection<Document>, group: i32) -> Vec<i32> {
    let found = coll.find(doc! {"g": group}).sort(doc! {"k": -1}).limit(3).await.unwrap();
    found.try_collect().await.unwrap().iter().map(|one| one.get_i32("_id").unwrap()).collect()
}

/// Number of documents that match, by the command of the drivers' `countDocuments`.
async fn sum(coll: &Collection<Document>, filter: Document) -> i32 {
    let stages = [doc! {"$match": filter}, doc! {"$group": {"_id": 1, "n": {"$sum": 1}}}];
    let counted = coll.aggregate(stages).await.unwrap().try_collect().await.unwrap();
    counted.first().map_or(0, |counted| counted.get_i32("n").unwrap())
}

#[tokio::test]
async fn what_open_transactions_hold_is_passed_by_without_a_look_at_it() {
    let crowd = Crowd::new().await;
    let few = async |coll: &Collection<Document>| assert_eq!(first(coll, 1).await, [358, 355, 352]);
    // The writers, the answer, and what has become of the only writer.
    let writers_and_answer = BTreeMap::from([("aggregate".to_owned(), 2), ("find".to_owned(), 1)]);
    assert_eq!(crowd.commands_for(&[few]).await, std::slice::from_ref(&writers_and_answer));
    let of_all = async |coll: &Collection<Document>| {
        let found = coll.find(doc! {}).sort(doc! {"k": -1}).limit(1).await.unwrap().try_collect().await.unwrap();
        assert_eq!(found[0].get_i32("_id").unwrap(), ALL);
    };
    assert_eq!(crowd.commands_for(&[of_all]).await, [writers_and_answer], "everything matters");
    let by_id = async |coll: &Collection<Document>| {
        assert_eq!(coll.count_documents(doc! {"_id": 300}).await.unwrap(), 1);
    };
    let one = BTreeMap::from([("aggregate".to_owned(), 1)]);
    assert_eq!(crowd.commands_for(&[by_id]).await, [one], "there is one document to look at");
    let (_, coll) = crowd.reader().await;
    assert_eq!(coll.count_documents(doc! {"g": 1, "k": {"$lt": 10_000}}).await.unwrap(), 120);
    assert_eq!(sum(&coll, doc! {"g": 1, "k": {"$lt": 10_000}}).await, 120);
    let own = quiet::through(&crowd.rival, &crowd.coll);
    assert_eq!(first(&own, 1).await, [358, 355, 352], "outside the transaction that holds them");
    crowd.end().await;
}

/// The first query that meets what is committed.
enum First {
    Few,
    Count,
    Sum,
}

/// Committed, and not finished: changed so that it is the first, inserted, and removed. The first
/// reader meets it.
async fn see_what_is_not_finished(first_asked: First) {
    let crowd = Crowd::new().await;
    let gate = Gate::before(&[Step::BeforeFinish]);
    let writer = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    let written = quiet::through(&writer, &crowd.coll);
    gate.shut();
    let (_, coll) = crowd.reader().await;
    let few = async || first(&coll, 1).await;
    let range = doc! {"g": 1, "k": {"$gte": 358, "$lt": 10_000}};
    let count = async || coll.count_documents(range.clone()).await.unwrap();
    let mut session = writer.session();
    session.begin().unwrap();
    let up = doc! {"$set": {"k": 5_000}};
    assert_eq!(written.update_one(doc! {"_id": 301}, up).session(&mut session).await.unwrap().modified_count, 1);
    written.insert_one(&doc! {"_id": 1_000, "g": 1, "k": 4_000}).session(&mut session).await.unwrap();
    assert_eq!(written.delete_one(doc! {"_id": 358}).session(&mut session).await.unwrap(), 1);
    assert_eq!((few().await, count().await), (vec![358, 355, 352], 1));
    session.commit().await.unwrap();
    match first_asked {
        First::Few => {}
        First::Count => assert_eq!(count().await, 2),
        First::Sum => assert_eq!(sum(&coll, range.clone()).await, 2),
    }
    assert_eq!((few().await, count().await, sum(&coll, range.clone()).await), (vec![301, 1_000, 355], 2, 2));
    assert_eq!(first(&written, 1).await, [301, 1_000, 355]);
    gate.open();
    assert!(writer.flush(LONG).await);
    crowd.end().await;
}

#[tokio::test]
async fn the_first_few_of_a_crowd_show_what_is_committed_and_not_finished() {
    see_what_is_not_finished(First::Few).await;
}

#[tokio::test]
async fn counts_of_a_crowd_show_what_is_committed_and_not_finished() {
    see_what_is_not_finished(First::Count).await;
}

#[tokio::test]
async fn sums_of_a_crowd_show_what_is_committed_and_not_finished() {
    see_what_is_not_finished(First::Sum).await;
}

/// A decided writer elsewhere does not matter to the query: the query looks for those that do.
#[tokio::test]
async fn who_is_decided_elsewhere_is_no_obstacle() {
    let crowd = Crowd::new().await;
    let gate = Gate::before(&[Step::BeforeFinish]);
    let writer = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    let written = quiet::through(&writer, &crowd.coll);
    gate.shut();
    let mut session = writer.session();
    session.begin().unwrap();
    written.update_one(doc! {"_id": 300}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    let few = async |coll: &Collection<Document>| assert_eq!(first(coll, 1).await, [358, 355, 352]);
    let both_looks = BTreeMap::from([("aggregate".to_owned(), 3), ("find".to_owned(), 3)]);
    let narrow = BTreeMap::from([("aggregate".to_owned(), 1), ("find".to_owned(), 2)]);
    // (The reader's own first query has made a look in vain, too.)
    assert_eq!(crowd.commands_for(&[few, few, few]).await, [narrow.clone(), both_looks, narrow]);
    gate.open();
    assert!(writer.flush(LONG).await);
    crowd.end().await;
}
