//! At serializable, who has read some fields of a document does not wait for a rival that is about to change others of them.

use bson::{Document, doc};
use mongotx::{Client, Collection, ErrorKind, IndexModel, Isolation, Session, TransactionOptions};

use crate::quiet;

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

/// Reads `n` of two documents, the first by this filter, and writes the third while a rival holds the first. What the commit
/// answers, and the commands that it sent.
async fn commit_beside(by: Document, change: Option<Document>) -> (mongotx::Result<()>, u64) {
    let (client, rival, coll) = stage().await;
    let mut reader = begun(&client);
    for filter in [by, doc! {"_id": 2}] {
        let read = coll.find_one(filter).projection(doc! {"n": 1}).session(&mut reader).await.unwrap();
        assert_eq!(read.unwrap().get_i32("n").unwrap(), 0);
    }
    coll.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 1}}).session(&mut reader).await.unwrap();
    let mut writer = begun(&rival);
    if let Some(change) = change {
        let others = quiet::through(&rival, &coll);
        others.update_one(doc! {"_id": 1}, change).session(&mut writer).await.unwrap();
    }
    let before = client.metrics().commands_sent();
    let committed = reader.commit().await;
    let sent = client.metrics().commands_sent() - before;
    writer.rollback().await.unwrap();
    (committed, sent)
}

#[tokio::test]
async fn rival_that_changes_another_field_costs_nothing() {
    for by in [doc! {"_id": 1}, doc! {"k": 10}] {
        let (alone, sent_alone) = commit_beside(by.clone(), None).await;
        alone.unwrap();
        let (beside, sent) = commit_beside(by.clone(), Some(doc! {"$set": {"m": 5}})).await;
        beside.unwrap_or_else(|error| panic!("{by}: {error}"));
        assert_eq!(sent, sent_alone, "{by}");
    }
}

#[tokio::test]
async fn rival_that_changes_what_was_read_is_in_the_way() {
    for by in [doc! {"_id": 1}, doc! {"k": 10}] {
        for change in [doc! {"$set": {"n": 5}}, doc! {"$unset": {"n": ""}}] {
            let (refused, _) = commit_beside(by.clone(), Some(change.clone())).await;
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict, "{by} {change}");
        }
    }
    let (refused, _) = commit_beside(doc! {"k": 10}, Some(doc! {"$set": {"k": 11}})).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
}

/// A document that a rival has locked is shown by one command, whatever fields of it are asked for.
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
