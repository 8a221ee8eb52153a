//! Reads of one document by a key of a unique index: one `find` of the version that is to be seen,
//! whatever transactions have locked.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bson::{Bson, Decimal128, Document, doc};
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, Session, Step, StepHook, TransactionOptions,
};

use crate::quiet::{Gate, commands_of, through};

const LONG: Duration = Duration::from_secs(60);

/// The documents `{_id: 10 * k, k, n: 1}` with `k` from 1 on, unique, through a client whose
/// commits are finished when the gate is open.
struct Place {
    gate: Arc<Gate>,
    client: Client,
    other: Client,
    coll: Collection<Document>,
}

async fn place(count: i32) -> Place {
    place_at(&local_mongod::shared_standalone().await.unwrap().uri(), count).await
}

async fn place_at(uri: &str, count: i32) -> Place {
    let gate = Gate::before(&[Step::BeforeFinish, Step::BeforeUndo]);
    let hook: Arc<dyn StepHook> = gate.clone();
    let options = ClientOptions { hook: Some(hook), ..crate::quiet::options() };
    let client = Client::connect_with(uri, options).await.unwrap();
    let coll = client.database(&local_mongod::unique_db("by_key")).collection("docs");
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    let all: Vec<Document> = (1..=count).map(|k| doc! {"_id": 10 * k, "k": k, "n": 1}).collect();
    coll.insert_many(&all).await.unwrap();
    let other = Client::connect_with(uri, crate::quiet::options()).await.unwrap();
    let place = Place { gate, client, other, coll };
    for client in [&place.client, &place.other] {
        // Look-ups that are made once are made now.
        assert!(read(&through(client, &place.coll), None, 1).await.is_some());
    }
    assert!(place.client.flush(LONG).await);
    place
}

impl Place {
    fn begun(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    async fn write(&self, session: &mut Session, id: i32, change: Document) {
        let done = self.coll.update_one(doc! {"_id": id}, doc! {"$set": change}).session(session).await.unwrap();
        assert_eq!(done.matched_count, 1);
    }

    /// The document that both clients read at key `k`, outside transactions.
    async fn seen(&self, k: i32) -> Option<Document> {
        let [one, other] = [&self.client, &self.other].map(|client| through(client, &self.coll));
        let (one, other) = (read(&one, None, k).await, read(&other, None, k).await);
        assert_eq!(one, other, "{k}");
        one
    }
}

async fn read(coll: &Collection<Document>, session: Option<&mut Session>, k: i32) -> Option<Document> {
    let find = coll.find(doc! {"k": k});
    let find = match session {
        Some(session) => find.session(session),
        None => find,
    };
    let mut found: Vec<Document> = find.await.unwrap().try_collect().await.unwrap();
    assert!(found.len() <= 1, "{found:?}");
    found.pop()
}

fn one(id: i32, k: i32, n: i32) -> Option<Document> {
    Some(doc! {"_id": id, "k": k, "n": n})
}

#[tokio::test]
async fn document_without_lock_is_one_find() {
    let place = place(3).await;
    let sent = commands_of(&place.other, async {
        assert_eq!(read(&through(&place.other, &place.coll), None, 2).await, one(20, 2, 1));
    });
    assert_eq!(sent.await, [("find".to_owned(), 1)].into());
    assert_eq!(place.seen(7).await, None);
    // Parts of it, other values beside the key, numbers of another type.
    let coll = through(&place.other, &place.coll);
    let part = coll.find_one(doc! {"k": 2_i64, "n": 1.0}).projection(doc! {"_id": 0, "n": 1}).await.unwrap();
    assert_eq!(part, Some(doc! {"n": 1}));
    let rest = coll.find_one(doc! {"k": 2}).projection(doc! {"n": 0}).await.unwrap();
    assert_eq!(rest, Some(doc! {"_id": 20, "k": 2}));
    assert_eq!(coll.find_one(doc! {"k": 2, "n": 5}).await.unwrap(), None);
    let two = Bson::Decimal128("2".parse::<Decimal128>().unwrap());
    assert_eq!(coll.find_one(doc! {"k": two}).await.unwrap(), one(20, 2, 1));
    assert_eq!(coll.find_one(doc! {"k": 2, "gone": Bson::Null}).await.unwrap(), one(20, 2, 1));
}

#[tokio::test]
async fn version_that_is_committed_is_seen_where_it_is_and_no_other() {
    let place = place(6).await;
    place.gate.shut();
    let mut session = place.begun();
    place.write(&mut session, 10, doc! {"n": 2}).await;
    // The key of one document goes to another one.
    place.write(&mut session, 20, doc! {"k": 102}).await;
    place.write(&mut session, 30, doc! {"k": 2}).await;
    assert_eq!(place.coll.delete_one(doc! {"k": 4}).session(&mut session).await.unwrap(), 1);
    place.coll.insert_one(&doc! {"_id": 70, "k": 7, "n": 1}).session(&mut session).await.unwrap();
    let keys = [1, 2, 3, 4, 5, 7, 102];
    let before = [one(10, 1, 1), one(20, 2, 1), one(30, 3, 1), one(40, 4, 1), one(50, 5, 1), None, None];
    let after = [one(10, 1, 2), one(30, 2, 1), None, None, one(50, 5, 1), one(70, 7, 1), one(20, 102, 1)];
    for (k, (before, after)) in keys.into_iter().zip(before.iter().zip(&after)) {
        assert_eq!(&place.seen(k).await, before, "not committed: {k}");
        assert_eq!(&read(&place.coll, Some(&mut session), k).await, after, "its own: {k}");
    }
    session.commit().await.unwrap();
    for (k, after) in keys.into_iter().zip(&after) {
        assert_eq!(&place.seen(k).await, after, "committed: {k}");
    }
    place.gate.open();
    assert!(place.client.flush(LONG).await);
    for (k, after) in keys.into_iter().zip(&after) {
        assert_eq!(&place.seen(k).await, after, "finished: {k}");
    }
}

#[tokio::test]
async fn version_that_was_rolled_back_is_never_seen() {
    let place = place(3).await;
    let mut session = place.begun();
    place.write(&mut session, 10, doc! {"k": 101, "n": 2}).await;
    place.write(&mut session, 20, doc! {"k": 1}).await;
    place.gate.shut();
    let rolling = tokio::spawn(async move { session.rollback().await.unwrap() });
    place.gate.until_held().await;
    for (k, expected) in [(1, one(10, 1, 1)), (2, one(20, 2, 1)), (101, None)] {
        let other = through(&place.other, &place.coll);
        assert_eq!(read(&other, None, k).await, expected, "{k}");
    }
    place.gate.open();
    rolling.await.unwrap();
    assert_eq!(place.seen(1).await, one(10, 1, 1));
}

/// A key that goes from one document to the other and back is always at one of them, and no reader
/// sees half of a move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn key_that_moves_is_at_one_document_at_every_moment() {
    const MOVES: i32 = 150;
    // A server whose queries give way after every step, so that a query is of several moments.
    let server = local_mongod::ServerOptions::standalone().in_memory().arg("--setParameter");
    let server = server.arg("internalQueryExecYieldIterations=1").start().await.unwrap();
    let place = place_at(&server.uri(), 2).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = [&place.client, &place.other].map(|client| {
        let (coll, is_over) = (through(client, &place.coll), Arc::clone(&is_over));
        tokio::spawn(async move {
            let (mut last, mut reads) = (0, 0);
            while !is_over.load(SeqCst) {
                let found = read(&coll, None, 1).await.expect("somebody has the key");
                let (id, n) = (found.get_i32("_id").unwrap(), found.get_i32("n").unwrap());
                assert_eq!(id, if n % 2 == 0 { 20 } else { 10 }, "half of a move: {found}");
                assert!(n >= last, "{n} after {last}");
                (last, reads) = (n, reads + 1);
            }
            reads
        })
    });
    let mut session =
        place.client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    for n in 2..2 + MOVES {
        let (from, to) = if n % 2 == 0 { (10, 20) } else { (20, 10) };
        session.begin().unwrap();
        place.write(&mut session, from, doc! {"k": 1_000 + n}).await;
        place.write(&mut session, to, doc! {"k": 1, "n": n}).await;
        session.commit().await.unwrap();
    }
    is_over.store(true, SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
}

/// While these documents are as they are, no other one can have their keys.
#[tokio::test]
async fn documents_that_were_found_by_their_keys_are_all_that_is_validated() {
    let place = place(6).await;
    let options = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    let mut session = place.client.session_with(options);
    session.begin().unwrap();
    assert_eq!(read(&place.coll, Some(&mut session), 2).await, one(20, 2, 1));
    let sent = commands_of(&place.client, async { session.commit().await.unwrap() }).await;
    assert_eq!(sent, [].into(), "one document is of one moment");
    let keys = |keys: [i32; 2]| doc! {"k": {"$in": keys.to_vec()}};
    for (keys, found, looks) in [(keys([1, 2]), 2, false), (keys([3, 77]), 1, true)] {
        session.begin().unwrap();
        let all = place.coll.find(keys.clone()).session(&mut session).await.unwrap().try_collect().await.unwrap();
        assert_eq!(all.len(), found);
        for document in all {
            let id = document.get_i32("_id").unwrap();
            place.write(&mut session, id, doc! {"n": 1}).await;
        }
        let committed = commands_of(&place.client, async { session.commit().await.unwrap() }).await;
        // Reading again takes two commands: the probe, and the query.
        assert_eq!(committed["find"] > 2, looks, "{keys}: {committed:?}");
    }
}

#[tokio::test]
async fn key_that_was_looked_for_in_vain_must_not_appear() {
    let place = place(3).await;
    let options = TransactionOptions { isolation: Some(Isolation::Snapshot), ..TransactionOptions::default() };
    for (n, keys) in [vec![77], vec![1, 78]].into_iter().enumerate() {
        let mut session = place.client.session_with(options.clone());
        session.begin().unwrap();
        let filter = doc! {"k": {"$in": keys.clone()}};
        let all = place.coll.find(filter).session(&mut session).await.unwrap().try_collect().await.unwrap();
        assert_eq!(all.len(), keys.len() - 1);
        place.write(&mut session, 10, doc! {"n": 5}).await;
        let theirs = through(&place.other, &place.coll);
        theirs.insert_one(&doc! {"_id": 700 + n as i32, "k": 77 + n as i32, "n": 1}).await.unwrap();
        assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict, "{keys:?}");
    }
}
