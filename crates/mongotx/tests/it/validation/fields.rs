//! At serializable, a transaction that has read some fields of a document does not wait for a rival
//! that is about to change others.

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, IndexModel, Isolation, Session, TransactionOptions};

use crate::quiet;

/// Questions, and aggregations if there were some.
type Asked = (u64, Option<u64>);

fn begun(client: &Client) -> Session {
    let options = TransactionOptions { isolation: Some(Isolation::Serializable), ..TransactionOptions::default() };
    let mut session = client.session_with(options);
    session.begin().unwrap();
    session
}

/// Two clients, and a collection of three documents `{_id, k, n, m}` with a unique index on `k`.
async fn stage() -> (Client, Client, Collection<Document>) {
    let (reader, rival) = (quiet::connect(quiet::options()).await, quiet::connect(quiet::options()).await);
    let coll = quiet::collection(&reader, 0).await;
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    let documents: Vec<Document> = (1..4).map(|id| doc! {"_id": id, "k": id * 10, "n": 0, "m": 0}).collect();
    coll.insert_many(&documents).await.unwrap();
    (reader, rival, coll)
}

/// Reads everything but `m` of two documents, the first by this filter, and writes the third while
/// a rival holds the first. Returns the answer to the commit, the number of its joint reads, and
/// that of its aggregations: a read that is sent by itself is one. (How many looks there are is a
/// matter of time.)
async fn commit_beside(by: Document, shown: Document, change: Option<Document>) -> (mongotx::Result<()>, Asked) {
    let (client, rival, coll) = stage().await;
    let mut reader = begun(&client);
    for filter in [by, doc! {"_id": 2}] {
        let is_there = filter.get("_id") != Some(&77.into());
        let read = coll.find_one(filter).projection(shown.clone()).session(&mut reader).await.unwrap();
        assert_eq!(read.is_some_and(|read| read.get_i32("n").is_ok_and(|n| n == 0)), is_there);
    }
    coll.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 1}}).session(&mut reader).await.unwrap();
    let mut writer = begun(&rival);
    if let Some(change) = change {
        let others = quiet::through(&rival, &coll);
        others.update_one(doc! {"_id": 1}, change).session(&mut writer).await.unwrap();
    }
    let mut committed = Ok(());
    let commit = async { committed = reader.commit().await };
    let (sent, questions) = quiet::questions_of(&client, quiet::commands_of(&client, commit)).await;
    writer.rollback().await.unwrap();
    (committed, (questions, sent.get("aggregate").copied()))
}

#[tokio::test]
async fn rival_that_changes_another_field_costs_nothing() {
    for by in [doc! {"_id": 1}, doc! {"k": 10}] {
        for shown in SHOWN.map(|shown| shown()) {
            let (alone, asked_alone) = commit_beside(by.clone(), shown.clone(), None).await;
            alone.unwrap();
            let (beside, asked) = commit_beside(by.clone(), shown.clone(), Some(doc! {"$set": {"m": 5}})).await;
            beside.unwrap_or_else(|error| panic!("{by} {shown}: {error}"));
            assert_eq!(asked, asked_alone, "{by} {shown}");
        }
    }
}

/// Projections of everything but `m`, in two forms.
const SHOWN: [fn() -> Document; 2] = [|| doc! {"n": 1, "k": 1}, || doc! {"m": 0}];

#[tokio::test]
async fn an_id_that_is_not_there_costs_no_more_than_one_that_is() {
    let (there, asked_there) = commit_beside(doc! {"_id": 1}, doc! {"n": 1}, None).await;
    let (absent, asked) = commit_beside(doc! {"_id": 77}, doc! {"n": 1}, None).await;
    there.and(absent).unwrap();
    assert_eq!(asked, asked_there);
}

#[tokio::test]
async fn rival_that_changes_what_was_read_is_in_the_way() {
    for by in [doc! {"_id": 1}, doc! {"k": 10}] {
        let changes = [doc! {"$set": {"n": 5}}, doc! {"$unset": {"n": ""}}, doc! {"$set": {"k": 11}}];
        for (shown, change) in SHOWN.iter().flat_map(|shown| changes.iter().map(move |change| (shown(), change))) {
            let (refused, _) = commit_beside(by.clone(), shown.clone(), Some(change.clone())).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict, "{by} {shown} {change}");
        }
    }
}

/// A document that a rival has locked is shown by one command, whatever fields of it the query
/// shows.
#[tokio::test]
async fn fields_of_a_document_that_a_rival_holds_are_one_command() {
    let (client, rival, coll) = stage().await;
    let others = quiet::through(&rival, &coll);
    let mut writer = begun(&rival);
    others.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 5}}).session(&mut writer).await.unwrap();
    for shown in [doc! {"n": 1}, doc! {"m": 0, "k": 0}] {
        let finds = || client.metrics().commands.get("find").copied().unwrap_or(0);
        let before = finds();
        let read = coll.find_one(doc! {"_id": 1}).projection(shown.clone()).await.unwrap();
        assert_eq!(read, Some(doc! {"_id": 1, "n": 0}), "{shown}");
        assert_eq!(finds() - before, 1, "{shown}");
    }
    writer.rollback().await.unwrap();
}

/// A transaction that has found documents and changed one of them reads no more at the commit than
/// one that has changed another.
#[tokio::test]
async fn what_the_reader_holds_itself_costs_nothing() {
    for isolation in [Isolation::Snapshot, Isolation::Serializable] {
        let mut asked = Vec::new();
        for id in [1, 2] {
            let (client, rival, coll) = stage().await;
            // It may do so at any time, so nothing is taken for unchanged.
            let changed = quiet::through(&rival, &coll).update_one(doc! {"_id": 2}, doc! {"$set": {"n": 5}}).await;
            assert_eq!(changed.unwrap().modified_count, 1);
            for is_warm in [false, true] {
                let mut reader = client.session();
                let options = TransactionOptions { isolation: Some(isolation), ..TransactionOptions::default() };
                reader.begin_with(options).unwrap();
                let found = coll.find(doc! {"n": 0}).session(&mut reader).await.unwrap();
                assert_eq!(found.try_collect().await.unwrap().len(), 2);
                coll.update_one(doc! {"_id": id}, doc! {"$inc": {"m": 1}}).session(&mut reader).await.unwrap();
                let commit = async { reader.commit().await.unwrap() };
                let (sent, questions) = quiet::questions_of(&client, quiet::commands_of(&client, commit)).await;
                if is_warm {
                    // A read that is sent by itself is an aggregation.
                    asked.push((questions, sent.get("aggregate").copied()));
                }
                assert!(client.flush(std::time::Duration::from_secs(60)).await);
            }
        }
        // (How many looks there are is a matter of time.)
        assert_eq!(asked, [(1, None), (1, None)], "{isolation:?}");
    }
}
