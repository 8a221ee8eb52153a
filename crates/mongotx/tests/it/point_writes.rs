//! `insert_one_raw`, `update_by_id_raw` and `delete_by_id_raw`: they do what `insert_one`,
//! `update_one` (`replace_one`) and `delete_one` do to the same document, whatever the `_id` is,
//! and whichever transaction holds the document.

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, RawBson, RawDocumentBuf, doc, rawdoc};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, IndexModel, Step, UpdateResult};

use crate::quiet::{self, Gate, commands_of};

/// A write of one document.
#[derive(Clone, Debug)]
enum Write {
    Insert(Document),
    Update(Bson, Document),
    Delete(Bson),
}

use Write::{Delete, Insert, Update};

/// The outcome of a write: as far as that can be the same of two collections.
#[derive(Debug, PartialEq)]
enum WriteAnswer {
    Inserted(Option<Bson>),
    Updated(UpdateResult),
    Deleted(u64),
    Refused(ErrorKind, Option<i32>, String),
}

impl Write {
    async fn run(&self, coll: &Collection<Document>, is_raw: bool) -> WriteAnswer {
        let raw = |document: &Document| RawDocumentBuf::try_from(document).unwrap();
        let done = match self {
            Insert(document) if is_raw => coll.insert_one_raw(&raw(document)).await.map(WriteAnswer::Inserted_),
            Insert(document) => coll.insert_one(document).await.map(WriteAnswer::Inserted_),
            Update(id, update) if is_raw => {
                let id = RawBson::try_from(id.clone()).unwrap();
                coll.update_by_id_raw(id.as_raw_bson_ref(), &raw(update)).await.map(WriteAnswer::Updated)
            }
            Update(id, update) => {
                let filter = doc! {"_id": {"$eq": id.clone()}};
                match update.keys().next().is_some_and(|first| first.starts_with('$')) {
                    true => coll.update_one(filter, update.clone()).await.map(WriteAnswer::Updated),
                    false => coll.replace_one(filter, update).await.map(WriteAnswer::Updated),
                }
            }
            Delete(id) if is_raw => {
                let id = RawBson::try_from(id.clone()).unwrap();
                coll.delete_by_id_raw(id.as_raw_bson_ref()).await.map(WriteAnswer::Deleted)
            }
            Delete(id) => coll.delete_one(doc! {"_id": {"$eq": id.clone()}}).await.map(WriteAnswer::Deleted),
        };
        done.unwrap_or_else(|error| {
            // The holder of the document is another one each time.
            let message = error.message().split(", is held by").next().unwrap_or_default();
            let message = message.replace(&coll.namespace().to_string(), "db.coll");
            WriteAnswer::Refused(error.kind(), error.code(), message)
        })
    }
}

impl WriteAnswer {
    /// An `_id` that the library has made is another one each time.
    #[allow(non_snake_case, reason = "stands for a variant")]
    fn Inserted_(id: Bson) -> Self {
        Self::Inserted(Some(id).filter(|id| !matches!(id, Bson::ObjectId(_))))
    }
}

fn update(id: impl Into<Bson>, update: Document) -> Write {
    Update(id.into(), update)
}

/// All that is tried on the document `{_id: 1}`, in whatever state it is.
fn writes() -> Vec<Write> {
    vec![
        Insert(doc! {"_id": 1, "n": 5}),
        update(1, doc! {"$inc": {"n": 1}}),
        update(1.0, doc! {"$set": {"a.b": {"$x": 1}}, "$unset": {"n": 1}}),
        update(1, doc! {"n": 7, "m": {"_unsafe": 1}}),
        Delete(1.into()),
        Delete(1_i64.into()),
    ]
}

async fn stage(options: ClientOptions) -> (Client, Collection<Document>) {
    let client = quiet::connect(options).await;
    let coll = quiet::collection(&client, 2).await;
    (client, coll)
}

async fn all(coll: &Collection<Document>) -> Vec<Document> {
    let found: Vec<Document> = coll.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap().try_collect().await.unwrap();
    found.into_iter().filter(|one| !matches!(one.get("_id"), Some(Bson::ObjectId(_)))).collect()
}

/// Does the same write in both ways, each in a collection that is alike, and compares.
async fn both_ways(write: &Write, colls: [&Collection<Document>; 2]) -> WriteAnswer {
    let outcome = write.run(colls[0], false).await;
    assert_eq!(write.run(colls[1], true).await, outcome, "{write:?}");
    assert_eq!(all(colls[1]).await, all(colls[0]).await, "{write:?}");
    outcome
}

async fn twins(client: &Client) -> [Collection<Document>; 2] {
    [quiet::collection(client, 2).await, quiet::collection(client, 2).await]
}

#[tokio::test]
async fn free_documents_become_the_same() {
    let client = quiet::connect(quiet::options()).await;
    let odd = [
        Insert(doc! {"_id": 9, "a": {"_xTxId": 1}}),
        Insert(doc! {"n": 1}),
        Insert(doc! {"n": 1, "_id": 9}),
        Insert(doc! {"_id": [1]}),
        Insert(doc! {"_id": 9, "_slot": 1}),
        update(9, doc! {"$inc": {"n": 1}}),
        update(1, doc! {"$inc": {"n": "x"}}),
        update(1, doc! {"$nonsense": {"n": 1}}),
        update(1, doc! {"$set": {"_id": 2}}),
        update(1, doc! {"$set": {"_insert": true}}),
        update(1, doc! {"$rename": {"n": "_remove"}}),
        update(1, doc! {"$rename": {"n": "m"}}),
        update(1, doc! {"_id": 2, "n": 1}),
        update(1, doc! {}),
        update(1, doc! {"$set": 5}),
        update(doc! {"$gt": 0}, doc! {"$inc": {"n": 1}}),
        Delete(doc! {"$gt": 0}.into()),
        Delete(9.into()),
        Delete(bson::Regex { pattern: "a".try_into().unwrap(), options: "".try_into().unwrap() }.into()),
    ];
    for write in writes().iter().chain(&odd) {
        let [first, second] = twins(&client).await;
        both_ways(write, [&first, &second]).await;
    }
}

/// The rival's decision stands, and its document is not finished: every client finishes it first.
#[tokio::test]
async fn documents_that_are_decided_are_finished_first() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = quiet::connect(quiet::options()).await;
    for write in writes() {
        for removed in [false, true] {
            let gate = Arc::clone(&gate);
            let rival = quiet::connect(ClientOptions { hook: Some(gate.clone() as Arc<_>), ..quiet::options() }).await;
            let colls = twins(&rival).await;
            gate.shut();
            for coll in &colls {
                let mut session = rival.session();
                session.begin().unwrap();
                match removed {
                    true => drop(coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap()),
                    false => drop(
                        coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 77}}).session(&mut session).await.unwrap(),
                    ),
                }
                session.commit().await.unwrap();
            }
            let others = [quiet::through(&client, &colls[0]), quiet::through(&client, &colls[1])];
            both_ways(&write, [&others[0], &others[1]]).await;
            gate.open();
        }
    }
}

#[tokio::test]
async fn documents_that_a_rival_holds_are_waited_for_and_stay_as_they_are() {
    let impatient = ClientOptions { write_wait: Duration::from_millis(20), ..quiet::options() };
    let client = quiet::connect(impatient).await;
    let rival = quiet::connect(quiet::options()).await;
    for write in writes() {
        for inserted in [false, true] {
            let colls = twins(&rival).await;
            let mut sessions = Vec::new();
            for coll in &colls {
                let mut session = rival.session();
                if inserted {
                    coll.delete_one(doc! {"_id": 1}).await.unwrap();
                }
                session.begin().unwrap();
                match inserted {
                    true => drop(coll.insert_one(&doc! {"_id": 1}).session(&mut session).await.unwrap()),
                    false => drop(coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap()),
                }
                sessions.push(session);
            }
            let others = [quiet::through(&client, &colls[0]), quiet::through(&client, &colls[1])];
            let outcome = both_ways(&write, [&others[0], &others[1]]).await;
            if matches!(write, Insert(_)) || !inserted {
                assert!(matches!(outcome, WriteAnswer::Refused(ErrorKind::Conflict, ..)), "{write:?}: {outcome:?}");
            }
            for mut session in sessions {
                session.commit().await.unwrap();
            }
        }
    }
}

/// Pending values count in a unique index: such a write is a transaction.
#[tokio::test]
async fn values_of_unique_indexes_are_those_of_pending_documents_too() {
    let client = quiet::connect(ClientOptions { write_wait: Duration::from_millis(20), ..quiet::options() }).await;
    let colls = twins(&client).await;
    let mut sessions = Vec::new();
    for coll in &colls {
        coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 2}}).await.unwrap();
        coll.create_index(IndexModel::new(doc! {"n": 1}).unique(true)).await.unwrap();
        let mut session = client.session();
        session.begin().unwrap();
        coll.insert_one(&doc! {"_id": 3, "n": 3}).session(&mut session).await.unwrap();
        sessions.push(session);
    }
    for write in [Insert(doc! {"_id": 4, "n": 3}), update(1, doc! {"$set": {"n": 3}})] {
        let outcome = both_ways(&write, [&colls[0], &colls[1]]).await;
        assert!(matches!(outcome, WriteAnswer::Refused(ErrorKind::Conflict, ..)), "{write:?}: {outcome:?}");
    }
    for write in [Insert(doc! {"_id": 4, "n": 2}), update(1, doc! {"$set": {"n": 2}})] {
        let outcome = both_ways(&write, [&colls[0], &colls[1]]).await;
        assert!(matches!(outcome, WriteAnswer::Refused(ErrorKind::Invalid, Some(11_000), _)), "{write:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_write_of_a_free_document_is_one_command() {
    let (client, coll) = stage(quiet::options()).await;
    coll.insert_one(&doc! {"_id": 7}).await.unwrap();
    let sent = commands_of(&client, async {
        coll.insert_one_raw(&rawdoc! {"_id": 8}).await.unwrap();
        coll.update_by_id_raw(bson::RawBsonRef::Int32(8), &rawdoc! {"$inc": {"n": 1}}).await.unwrap();
        coll.delete_by_id_raw(bson::RawBsonRef::Int32(8)).await.unwrap();
    });
    let one = |name: &str| (name.to_owned(), 1);
    assert_eq!(sent.await.into_iter().collect::<Vec<_>>(), [one("delete"), one("insert"), one("update")]);
}

/// Refused, as by every other insert: a document that could not be read again as it is stored.
#[tokio::test]
async fn a_field_that_is_there_twice_is_refused_by_name() {
    let (_client, coll) = stage(quiet::options()).await;
    for document in [rawdoc! {"_id": 9, "a": 1, "a": 2}, rawdoc! {"_id": 9, "l": [{"b": 1, "b": 2}]}] {
        let refused = coll.insert_one_raw(&document).await.unwrap_err();
        assert_eq!((refused.kind(), refused.code()), (ErrorKind::Invalid, Some(22)), "{refused}");
        let refused = coll.update_by_id_raw(bson::RawBsonRef::Int32(1), &document).await.unwrap_err();
        assert_eq!(refused.code(), Some(22), "{refused}");
    }
    assert_eq!(all(&coll).await.len(), 2);
}

/// Reserved fields that belong to no transaction are in the way, as of every other write.
#[tokio::test]
async fn read_locks_are_respected() {
    let client = quiet::connect(ClientOptions { write_wait: Duration::from_millis(20), ..quiet::options() }).await;
    let colls = twins(&client).await;
    let options =
        mongotx::TransactionOptions { isolation: Some(mongotx::Isolation::RepeatableRead), ..Default::default() };
    let mut readers = Vec::new();
    for coll in &colls {
        let mut reader = client.session_with(options.clone());
        reader.begin().unwrap();
        coll.find_one(doc! {"_id": 1}).session(&mut reader).await.unwrap();
        readers.push(reader);
    }
    for write in [update(1, doc! {"$inc": {"n": 1}}), Delete(1.into())] {
        let outcome = both_ways(&write, [&colls[0], &colls[1]]).await;
        assert!(matches!(outcome, WriteAnswer::Refused(ErrorKind::Conflict, ..)), "{write:?}: {outcome:?}");
    }
}
