//! The first few of an order, in a transaction that has inserted documents there: as many of the
//! others' are asked again at the commit, and no more.

use std::time::Duration;

use bson::{Bson, Document, doc};
use mongotx::{Client, Collection, ErrorKind, Isolation, Session, TransactionOptions};

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
