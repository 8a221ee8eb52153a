//! The first few of an order, in a transaction that has inserted documents there: as many of the
//! others' are read again at the commit, and no more.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{Client, Collection, ErrorKind, IndexModel, Isolation, Session, TransactionOptions};

use crate::quiet;

const LONG: Duration = Duration::from_secs(60);
/// Documents of the collection: more than one batch of the server.
const ALL: i32 = 400;

/// Two clients of a collection with the documents `{_id, n: 0}`.
async fn stage(id: fn(i32) -> Bson) -> (Client, Collection<Document>, Collection<Document>) {
    let (client, rival) = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
    let coll = quiet::collection(&client, 0).await;
    let all: Vec<Document> = (1..=ALL).map(|n| doc! {"_id": id(n), "n": 0}).collect();
    coll.insert_many(&all).await.unwrap();
    assert!(client.flush(LONG).await);
    let others = quiet::through(&rival, &coll);
    (client, coll, others)
}

fn text(n: i32) -> Bson {
    format!("u{n:04}").into()
}

fn embedded(n: i32) -> Bson {
    doc! {"part": format!("u{n:04}")}.into()
}

fn begun(client: &Client) -> Session {
    let options = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

/// The `_id`s of the first three.
async fn first_three(coll: &Collection<Document>, session: &mut Session) -> Vec<Bson> {
    let found = coll.find(doc! {"n": {"$gte": 0}}).sort(doc! {"_id": 1}).limit(3).session(session).await.unwrap();
    found.try_collect().await.unwrap().iter().map(|one| one.get("_id").unwrap().clone()).collect()
}

async fn change(coll: &Collection<Document>, id: Bson) {
    let changed = coll.update_one(doc! {"_id": id}, doc! {"$set": {"n": 1}}).await.unwrap();
    assert_eq!(changed.modified_count, 1);
}

#[tokio::test]
async fn what_comes_behind_the_first_few_is_neither_read_nor_in_the_way() {
    for id in [Bson::Int32, text, embedded] {
        let (client, coll, others) = stage(id).await;
        let mut session = begun(&client);
        coll.insert_one(&doc! {"_id": id(0), "n": 0}).session(&mut session).await.unwrap();
        let commands = quiet::commands_of(&client, async {
            assert_eq!(first_three(&coll, &mut session).await, [id(0), id(1), id(2)]);
            change(&others, id(ALL)).await;
            session.commit().await.unwrap();
        });
        assert_eq!(commands.await.get("getMore"), None, "{}: the whole range was read", id(0));
    }
}

#[tokio::test]
async fn the_first_few_of_others_must_stay_as_they_are() {
    for id in [Bson::Int32, text, embedded] {
        let (client, coll, others) = stage(id).await;
        let mut session = begun(&client);
        coll.insert_one(&doc! {"_id": id(0), "n": 0}).session(&mut session).await.unwrap();
        assert_eq!(first_three(&coll, &mut session).await, [id(0), id(1), id(2)]);
        change(&others, id(2)).await;
        assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict, "{}", id(0));
    }
}

/// Without an order, and where all stand at the same place of it, it depends on how the server
/// finds them which are the first few, and it finds them otherwise without the own documents. Those
/// with the largest `_id`s were stored first.
async fn without_order(id: fn(i32) -> Bson) -> (Client, Collection<Document>, Collection<Document>) {
    let (client, coll, others) = stage(id).await;
    coll.delete_many(doc! {}).await.unwrap();
    let all: Vec<Document> = (1..=ALL).rev().map(|n| doc! {"_id": id(n), "n": 0, "k": 5}).collect();
    coll.insert_many(&all).await.unwrap();
    assert!(client.flush(LONG).await);
    (client, coll, others)
}

async fn any_three(coll: &Collection<Document>, sort: Document, session: &mut Session) -> Vec<Bson> {
    let found = coll.find(doc! {"n": 0}).sort(sort).limit(3).session(session).await.unwrap();
    found.try_collect().await.unwrap().iter().map(|one| one.get("_id").unwrap().clone()).collect()
}

#[tokio::test]
async fn what_was_shown_in_no_certain_order_must_stay_as_it_is() {
    for (id, sort) in [(Bson::Int32 as fn(i32) -> Bson, doc! {}), (text, doc! {}), (text, doc! {"k": -1})] {
        for place in [0, 1, 2] {
            let (client, coll, others) = without_order(id).await;
            let mut session = begun(&client);
            coll.insert_one(&doc! {"_id": id(0), "n": 0, "k": 9}).session(&mut session).await.unwrap();
            let shown = any_three(&coll, sort.clone(), &mut session).await;
            assert_eq!(shown.len(), 3);
            if shown[place] == id(0) {
                continue;
            }
            change(&others, shown[place].clone()).await;
            let committed = session.commit().await;
            assert_eq!(committed.unwrap_err().kind(), ErrorKind::Conflict, "{sort}: {shown:?}, {place}");
        }
    }
}

#[tokio::test]
async fn what_was_shown_in_no_certain_order_is_found_again() {
    for (id, sort) in [(Bson::Int32 as fn(i32) -> Bson, doc! {}), (text, doc! {}), (text, doc! {"k": -1})] {
        let (client, coll, _) = without_order(id).await;
        let mut session = begun(&client);
        coll.insert_one(&doc! {"_id": id(0), "n": 0, "k": 1}).session(&mut session).await.unwrap();
        assert_eq!(any_three(&coll, sort, &mut session).await.len(), 3);
        session.commit().await.unwrap();
    }
}

/// With what the filter demands, the order is that of a unique index.
#[tokio::test]
async fn an_order_by_a_unique_key_is_certain() {
    let (client, coll, others) = stage(Bson::Int32).await;
    coll.update_many(doc! {}, vec![doc! {"$set": {"g": 1, "u": "$_id"}}]).await.unwrap();
    assert!(client.flush(LONG).await);
    coll.create_index(IndexModel::new(doc! {"g": 1, "u": 1}).unique(true)).await.unwrap();
    let mut session = begun(&client);
    coll.insert_one(&doc! {"_id": 1_000, "n": 0, "g": 1, "u": 1_000}).session(&mut session).await.unwrap();
    let found = coll.find(doc! {"g": 1}).sort(doc! {"u": -1}).limit(3).session(&mut session).await.unwrap();
    assert_eq!(found.try_collect().await.unwrap().len(), 3);
    change(&others, 5.into()).await;
    session.commit().await.unwrap();
}

/// Then another document's `_id` may be equal to that of an own one.
#[tokio::test]
async fn under_a_collation_an_equal_id_of_another_document_is_not_left_out() {
    let (client, coll, others) = stage(text).await;
    let mut session = begun(&client);
    coll.insert_one(&doc! {"_id": "U0001", "n": 0}).session(&mut session).await.unwrap();
    let found = coll.find(doc! {"n": {"$gte": 0}}).sort(doc! {"_id": 1}).limit(2);
    let found = found.collation(doc! {"locale": "en", "strength": 2}).session(&mut session).await.unwrap();
    assert_eq!(found.try_collect().await.unwrap().len(), 2);
    change(&others, text(1)).await;
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
}
