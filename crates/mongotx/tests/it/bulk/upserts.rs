//! Upserts by `_id` of a bulk: one command changes the documents that are there, and inserts those
//! that are not.

use std::{collections::BTreeMap, sync::Arc};

use bson::{Bson, Document, doc};
use futures_util::future::join_all;
use mongotx::{BulkWriteResult, Client, ClientOptions, Collection, ErrorKind, Session, Step, WriteModel};

use super::{LONG, add, numbers, place};
use crate::quiet;

fn upsert(id: i32, update: Document) -> WriteModel {
    WriteModel::UpdateOne { filter: doc! {"_id": id}, update: update.into(), upsert: true }
}

fn plus(id: i32) -> WriteModel {
    upsert(id, doc! {"$inc": {"n": 1}})
}

fn finds(client: &Client) -> u64 {
    client.metrics().commands.get("find").copied().unwrap_or(0)
}

fn ids(places: &[(usize, Bson)]) -> Vec<(usize, i32)> {
    places.iter().map(|(place, id)| (*place, id.as_i32().unwrap())).collect()
}

#[tokio::test]
async fn upserts_by_id_are_a_question_and_a_command() {
    let (client, coll, mut session) = place().await;
    session.begin().unwrap();
    coll.bulk_write([add(6, 1)]).session(&mut session).await.unwrap();
    let bulk = async {
        let all = [1, 2, 3, 11, 12, 13].map(plus);
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count), (3, 3));
        assert_eq!(ids(&done.upserted_ids), [(3, 11), (4, 12), (5, 13)]);
    };
    let sent = quiet::commands_of(&client, bulk).await;
    assert_eq!(sent, BTreeMap::from([("update".to_owned(), 1), ("find".to_owned(), 1)]));
    // Its own documents now: each takes the way of single ones.
    let done = coll.bulk_write([plus(11), plus(1)]).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.upserted_ids.len()), (2, 0));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [3, 2, 2, 1, 1, 2, 2, 1, 1]);
}

/// Upserts of both kinds in turns, with inserts, changes and removals between them.
#[tokio::test]
async fn writes_of_every_kind_are_one_command() {
    let (client, coll, mut session) = place().await;
    let insert = |id: i32| WriteModel::InsertOne { document: doc! {"_id": id, "n": 7} };
    let remove = |id: i32| WriteModel::DeleteOne { filter: doc! {"_id": id} };
    session.begin().unwrap();
    coll.bulk_write([add(6, 1)]).session(&mut session).await.unwrap();
    let bulk = async {
        let all = [plus(11), plus(1), insert(12), add(2, 5), plus(13), remove(3), plus(4), insert(14)];
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.modified_count, done.deleted_count), (3, 3, 1));
        assert_eq!((done.inserted_count, ids(&done.inserted_ids)), (2, vec![(2, 12), (7, 14)]));
        assert_eq!(ids(&done.upserted_ids), [(0, 11), (4, 13)]);
    };
    let sent = quiet::commands_of(&client, bulk).await;
    assert_eq!(sent, BTreeMap::from([("update".to_owned(), 1), ("find".to_owned(), 1)]));
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 6, 2, 1, 2, 1, 7, 1, 7]);
    session.begin().unwrap();
    coll.bulk_write([add(6, 1)]).session(&mut session).await.unwrap();
    let inserts = async {
        assert_eq!(coll.bulk_write([21, 22, 23].map(insert)).session(&mut session).await.unwrap().inserted_count, 3)
    };
    assert_eq!(quiet::commands_of(&client, inserts).await, BTreeMap::from([("update".to_owned(), 1)]));
    session.rollback().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [2, 6, 2, 1, 2, 1, 7, 1, 7]);
}

/// A statement in the middle is refused, matches nothing, or is a duplicate: what stands before it
/// is done, once, and what was inserted and changed behind it is taken back, or done by itself.
#[tokio::test]
async fn writes_of_every_kind_end_at_the_one_that_is_not_done() {
    let insert = |id: i32| WriteModel::InsertOne { document: doc! {"_id": id, "n": 7} };
    let no_match = || WriteModel::UpdateOne {
        filter: doc! {"_id": 2, "n": 99},
        update: doc! {"$inc": {"n": 1}}.into(),
        upsert: false,
    };
    let refused = || upsert(2, doc! {"$bit": {"n": {"and": "x"}}});
    for (odd, code) in [(no_match(), None), (insert(5), Some(11_000)), (refused(), Some(2))] {
        for ordered in [true, false] {
            let (client, coll, mut session) = place().await;
            session.begin().unwrap();
            let all = [plus(11), plus(1), odd.clone(), insert(12), plus(3), plus(13)];
            let done = coll.bulk_write(all).ordered(ordered).session(&mut session).await;
            let places: Vec<(usize, i32)> = match &done {
                Ok(_) => Vec::new(),
                Err(error) => error.write_errors().iter().map(|error| (error.index, error.code)).collect(),
            };
            assert_eq!(places, code.map(|code| (2, code)).into_iter().collect::<Vec<_>>(), "{done:?}");
            let stops = code.is_some() && ordered;
            // Nothing of what stands behind it is held.
            if stops {
                let other = quiet::connect(quiet::options()).await;
                let theirs = quiet::through(&other, &coll);
                theirs.update_one(doc! {"_id": 3}, doc! {"$inc": {"n": 10}}).await.unwrap();
                theirs.insert_one(&doc! {"_id": 12, "n": 20}).await.unwrap();
            }
            session.commit().await.unwrap();
            let expected: &[i32] = if stops { &[2, 1, 11, 1, 1, 1, 1, 20] } else { &[2, 1, 2, 1, 1, 1, 1, 7, 1] };
            assert_eq!(numbers(&client, &coll).await, expected, "{ordered} {code:?}");
        }
    }
}

#[tokio::test]
async fn what_is_upserted_is_gone_after_a_rollback() {
    let (client, coll, mut session) = place().await;
    session.begin().unwrap();
    coll.bulk_write([11, 12, 1, 2].map(plus)).session(&mut session).await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).session(&mut session).await.unwrap(), 8);
    session.rollback().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1; 6]);
}

/// Documents as the server itself makes them of filter and update.
#[tokio::test]
async fn upserted_documents_are_those_of_single_upserts() {
    let (client, coll, mut session) = place().await;
    let update =
        |filter: Document, update: Document| WriteModel::UpdateOne { filter, update: update.into(), upsert: true };
    let pipeline = vec![doc! {"$set": {"sum": {"$add": ["$_id", 1]}}}];
    let models = |from: i32| {
        [
            update(doc! {"_id": from, "k": 5}, doc! {"$setOnInsert": {"b": 1, "a": 2}, "$push": {"list": 3}}),
            WriteModel::UpdateOne { filter: doc! {"_id": from + 1}, update: pipeline.clone().into(), upsert: true },
            WriteModel::ReplaceOne {
                filter: doc! {"_id": from + 2},
                replacement: doc! {"b": {"c": 1}, "a": 2},
                upsert: true,
            },
            update(doc! {"_id": from + 3}, doc! {"$set": {"x.y": 1}, "$currentDate": {"at": {"$type": "date"}}}),
        ]
    };
    session.begin().unwrap();
    coll.bulk_write([add(6, 1)]).session(&mut session).await.unwrap();
    let bulk = async { coll.bulk_write(models(20)).session(&mut session).await.unwrap() };
    let sent = quiet::commands_of(&client, async { assert_eq!(bulk.await.upserted_ids.len(), 4) }).await;
    assert_eq!(sent.get("find"), Some(&1), "{sent:?}");
    for one in models(30) {
        coll.bulk_write([one]).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
    let made = async |from: i32| {
        let range = doc! {"_id": {"$gte": from, "$lt": from + 4}};
        let found = coll.find(range).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
        // Their fields in order, with the values that do not depend on `_id` and time.
        let shape = |one: Document| {
            let value = |(name, value): (String, Bson)| match name.as_str() {
                "_id" | "at" => (name, Bson::Null),
                "sum" => (name, (value.as_i32().unwrap() - from).into()),
                _ => (name, value),
            };
            one.into_iter().map(value).collect::<Vec<_>>()
        };
        found.into_iter().map(shape).collect::<Vec<_>>()
    };
    let together = made(20).await;
    assert_eq!(together, made(30).await);
    let names: Vec<&str> = together[0].iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["_id", "k", "a", "b", "list"]);
}

#[tokio::test]
async fn one_document_that_is_named_twice_is_upserted_and_then_changed() {
    for others in [vec![], vec![12]] {
        let (client, coll, mut session) = place().await;
        session.begin().unwrap();
        let all = others.iter().copied().chain([11, 11]).map(plus);
        let done = coll.bulk_write(all).session(&mut session).await.unwrap();
        assert_eq!((done.matched_count, done.upserted_ids.len()), (1, 1 + others.len()));
        session.commit().await.unwrap();
        let expected: &[i32] = if others.is_empty() { &[1, 1, 1, 1, 1, 1, 2] } else { &[1, 1, 1, 1, 1, 1, 2, 1] };
        assert_eq!(numbers(&client, &coll).await, expected);
    }
}

/// Documents that the bulk has inserted since its query are changed and not inserted again, and are
/// still the transaction's when the bulk stops.
#[tokio::test]
async fn documents_that_the_bulk_itself_inserts_are_changed() {
    let insert = |id: i32| WriteModel::InsertOne { document: doc! {"_id": id, "n": 5} };
    let (client, coll, mut session) = place().await;
    session.begin().unwrap();
    let done = coll.bulk_write([insert(11), plus(11), plus(12), plus(13)]).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.upserted_ids.len()), (1, 2));
    let refused = upsert(14, doc! {"$bit": {"b": {"and": "x"}}});
    let replace = WriteModel::ReplaceOne { filter: doc! {"_id": 15}, replacement: doc! {"n": 7}, upsert: true };
    let all = [insert(15), refused, replace];
    let error = coll.bulk_write(all).session(&mut session).await.unwrap_err();
    assert_eq!(error.write_errors()[0].index, 1, "{error}");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1, 1, 1, 1, 1, 1, 6, 1, 1, 5]);
}

/// A filter that nothing matches says nothing of the document that is inserted.
#[tokio::test]
async fn an_id_that_the_update_gives_counts_where_the_filter_cannot_match() {
    let (client, coll, mut session) = place().await;
    let other = |id: i32| WriteModel::UpdateOne {
        filter: doc! {"_id": id, "k": {"$all": []}},
        update: doc! {"$setOnInsert": {"_id": 99, "n": 1}}.into(),
        upsert: true,
    };
    session.begin().unwrap();
    let error = coll.bulk_write([other(11), other(12), plus(13)]).session(&mut session).await.unwrap_err();
    let refused: Vec<(usize, i32)> = error.write_errors().iter().map(|error| (error.index, error.code)).collect();
    assert_eq!(refused, [(1, 11000)], "{error}");
    session.commit().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1; 7]);
}

/// Each of these upserts is refused; a command of all that are left is not sent again for each.
#[tokio::test]
async fn upserts_that_are_refused_one_after_the_other_are_not_sent_again_and_again() {
    let (client, coll, mut session) = place().await;
    session.begin().unwrap();
    coll.bulk_write([add(6, 1)]).session(&mut session).await.unwrap();
    let refused = (11..41).map(|id| upsert(id, doc! {"$bit": {"b": {"and": "x"}}}));
    let alone = async {
        let error = coll.bulk_write(refused.clone().take(1)).session(&mut session).await.unwrap_err();
        assert_eq!(error.write_errors().len(), 1);
    };
    let of_one: u64 = quiet::commands_of(&client, alone).await.values().sum();
    let together = async {
        let error = coll.bulk_write(refused).ordered(false).session(&mut session).await.unwrap_err();
        assert_eq!(error.write_errors().len(), 30);
    };
    let of_all: u64 = quiet::commands_of(&client, together).await.values().sum();
    assert_eq!(of_all, 30 * of_one + 1 + 4, "a question, and four commands of several");
    session.rollback().await.unwrap();
}

/// A client that stops between its query and the locks, and another one.
struct Between {
    gate: Arc<quiet::Gate>,
    client: Client,
    coll: Collection<Document>,
    others: Collection<Document>,
}

impl Between {
    /// The scene with the documents 1 to `count`.
    async fn new(count: i32) -> Self {
        let gate = quiet::Gate::before(&[Step::BeforeLock]);
        let client = quiet::connect(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
        let coll = quiet::collection(&client, count).await;
        let others = quiet::through(&quiet::connect(quiet::options()).await, &coll);
        Self { gate, client, coll, others }
    }

    /// Upserts these in a transaction, and writes as another client behind its query for them. Also
    /// returns the numbers that are there in the end.
    async fn upsert(&self, all: [i32; 3], others: impl Future<Output = ()>) -> (BulkWriteResult, Vec<i32>) {
        let mut session = self.client.session();
        session.begin().unwrap();
        self.gate.shut();
        let before = finds(&self.client);
        let rival = async {
            self.gate.until_held().await;
            assert_eq!(finds(&self.client) - before, 1, "they were asked about");
            others.await;
            self.gate.open();
        };
        let bulk = async { self.coll.bulk_write(all.map(plus)).session(&mut session).await.unwrap() };
        let (done, ()) = tokio::time::timeout(LONG, async { tokio::join!(bulk, rival) }).await.unwrap();
        session.commit().await.unwrap();
        (done, numbers(&self.client, &self.coll).await)
    }
}

#[tokio::test]
async fn a_document_that_comes_after_the_question_is_changed() {
    let between = Between::new(1).await;
    let insert = async { drop(between.others.insert_one(&doc! {"_id": 12, "n": 10}).await.unwrap()) };
    let (done, numbers) = between.upsert([11, 12, 13], insert).await;
    assert_eq!((done.matched_count, ids(&done.upserted_ids)), (1, vec![(0, 11), (2, 13)]));
    assert_eq!(numbers, [1, 1, 11, 1]);
}

#[tokio::test]
async fn a_document_that_goes_after_the_question_is_inserted() {
    let between = Between::new(3).await;
    let remove = async { assert_eq!(between.others.delete_one(doc! {"_id": 2}).await.unwrap(), 1) };
    let (done, numbers) = between.upsert([1, 2, 3], remove).await;
    assert_eq!((done.matched_count, ids(&done.upserted_ids)), (2, vec![(1, 2)]));
    assert_eq!(numbers, [2, 1, 2]);
}

/// Documents that several clients upsert by bulks.
const SHARED: usize = 16;
/// Number of bulks of each client.
const ROUNDS: usize = 16;
/// Attempts at one bulk, rivals being in the way of the others.
const ATTEMPTS: usize = 1_000;

/// The increments of one client that were committed.
#[derive(Default)]
struct Counted {
    added: i64,
    /// Increments that were removed with their documents.
    removed: i64,
}

/// Upserts some of the documents, after it has removed one of them in every other round.
async fn upsert_some(
    coll: &Collection<Document>,
    session: &mut Session,
    number: usize,
    round: usize,
) -> mongotx::Result<Counted> {
    let id = |place: usize| ((number * 7 + round * 5 + place * 3) % SHARED) as i32;
    let mut counted = Counted::default();
    if round % 2 == 1 {
        let removed = coll.find_one_and_delete(doc! {"_id": id(0)}).session(session).await?;
        counted.removed = removed.map_or(0, |removed| removed.get_i32("n").unwrap().into());
    }
    let done = coll.bulk_write((0..6).map(|place| plus(id(place)))).session(session).await?;
    assert_eq!(done.matched_count + done.upserted_ids.len() as u64, 6);
    counted.added = 6;
    Ok(counted)
}

/// One client's bulks, of which every third is rolled back.
async fn upsert_beside_others(client: Client, coll: Collection<Document>, number: usize) -> Counted {
    let (mut session, mut all) = (client.session(), Counted::default());
    for round in 0..ROUNDS {
        let mut attempts = 0;
        loop {
            attempts += 1;
            assert!(attempts < ATTEMPTS, "client {number}, round {round}");
            session.begin().unwrap();
            let done = upsert_some(&coll, &mut session, number, round).await;
            let done = match done {
                Ok(_) if round % 3 == 2 => session.rollback().await.map(|_| Counted::default()),
                Ok(counted) => session.commit().await.map(|_| counted),
                Err(error) => Err(error),
            };
            match done {
                Ok(counted) => {
                    all.added += counted.added;
                    all.removed += counted.removed;
                    break;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
            }
            session.rollback().await.ok();
            // So that not all of them begin again at once.
            tokio::time::sleep(std::time::Duration::from_millis((number * 3 + attempts % 7) as u64)).await;
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_upsert_the_same_documents_lose_and_double_nothing() {
    let (client, coll, _) = place().await;
    coll.delete_many(doc! {}).await.unwrap();
    assert!(client.flush(LONG).await);
    let mut others = Vec::new();
    for number in 0..6 {
        let client = quiet::connect(quiet::options()).await;
        let coll = quiet::through(&client, &coll);
        others.push(tokio::spawn(upsert_beside_others(client, coll, number)));
    }
    let counted = tokio::time::timeout(LONG * 5, join_all(others)).await.expect("they end");
    let expected: i64 = counted.into_iter().map(|one| one.unwrap()).map(|one| one.added - one.removed).sum();
    let found: i64 = numbers(&client, &coll).await.into_iter().map(i64::from).sum();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_upsert_that_is_refused_is_named_by_its_place() {
    for ordered in [true, false] {
        let (client, coll, mut session) = place().await;
        session.begin().unwrap();
        let refused = upsert(12, doc! {"$setOnInsert": {"a": 1}, "$bit": {"b": {"and": "x"}}});
        let all = [plus(11), refused, plus(13), plus(1), plus(2)];
        let error = coll.bulk_write(all).ordered(ordered).session(&mut session).await.unwrap_err();
        let places: Vec<usize> = error.write_errors().iter().map(|error| error.index).collect();
        assert_eq!(places, [1], "{error}");
        session.rollback().await.unwrap();
        assert_eq!(numbers(&client, &coll).await, [1; 6]);
    }
}

/// Documents with unique values are inserted one by one, and a value that is there is refused.
#[tokio::test]
async fn unique_values_are_asked_about_for_each_upsert() {
    let (client, coll, mut session) = place().await;
    coll.create_index(
        mongotx::IndexModel::new(doc! {"u": 1}).unique(true).partial_filter(doc! {"u": {"$exists": true}}),
    )
    .await
    .unwrap();
    session.begin().unwrap();
    let with = |id: i32, value: i32| upsert(id, doc! {"$set": {"u": value, "n": 1}});
    let done = coll.bulk_write([with(11, 1), with(12, 2)]).session(&mut session).await.unwrap();
    assert_eq!(done.upserted_ids.len(), 2);
    session.commit().await.unwrap();
    session.begin().unwrap();
    let error = coll.bulk_write([with(13, 3), with(14, 2)]).session(&mut session).await.unwrap_err();
    assert_eq!(error.write_errors().iter().map(|error| error.index).collect::<Vec<_>>(), [1], "{error}");
    session.rollback().await.unwrap();
    assert_eq!(numbers(&client, &coll).await, [1; 8]);
}

/// The server takes no values from such a filter, so nothing tells it whose document it makes.
#[tokio::test]
async fn an_upsert_by_a_pipeline_that_nothing_can_match_is_inserted_and_owned() {
    let (client, coll, mut session) = place().await;
    let none = doc! {"$or": [{"tags": {"$all": []}}, {"cats": {"$all": []}}]};
    for (n, ends) in [(70, true), (71, false)] {
        let before = coll.count_documents(doc! {}).await.unwrap();
        session.begin().unwrap();
        let filter = doc! {"$and": [{"tenant": 5}, none.clone()]};
        let upsert = coll.update_one(filter, vec![doc! {"$set": {"n": n}}]).upsert(true);
        let done = upsert.session(&mut session).await.unwrap();
        assert!(done.upserted_id.is_some());
        assert_eq!(coll.count_documents(doc! {}).await.unwrap(), before, "nobody else sees it");
        match ends {
            true => session.commit().await.unwrap(),
            false => session.rollback().await.unwrap(),
        }
        assert!(client.flush(std::time::Duration::from_secs(60)).await);
        assert_eq!(coll.count_documents(doc! {}).await.unwrap(), before + u64::from(ends));
    }
    let made = coll.find_one(doc! {"n": 70}).await.unwrap().unwrap();
    assert!(made.get("_id").is_some() && coll.find_one(doc! {"n": 71}).await.unwrap().is_none());
}
