//! The documents of committed transactions are finished together, and at once for a caller that
//! needs them (decision 0038).

use crate::{common::until, quiet};

use std::{
    collections::BTreeMap,
    future::{Future, IntoFuture},
    time::Duration,
};

use bson::{Document, doc, oid::ObjectId};
use mongotx::{Client, ClientOptions, Collection, ErrorKind, Isolation, Session, Step, TransactionOptions};
use quiet::{Gate, connect, options, through};

const LIMIT: Duration = Duration::from_secs(60);
/// A `finish_delay` that no test waits for.
const LONGEST: Duration = Duration::from_secs(10);

fn longest() -> ClientOptions {
    ClientOptions { finish_delay: LONGEST, ..options() }
}

/// A client that finishes nothing unless it has to.
struct Lazy {
    client: Client,
    coll: Collection<Document>,
}

impl Lazy {
    async fn with(options: ClientOptions) -> Self {
        let client = connect(options).await;
        let coll = quiet::collection(&client, 200).await;
        let this = Self { client, coll };
        // Everything that is looked up once.
        this.commit(&[200]).await;
        this.flush().await;
        assert_eq!(this.coll.find(doc! {"n": 2}).await.unwrap().try_collect().await.unwrap().len(), 1);
        this
    }

    async fn new() -> Self {
        Self::with(longest()).await
    }

    fn begun(&self) -> Session {
        let mut session = self.client.session();
        session.begin().unwrap();
        session
    }

    /// A transaction that adds 1 to these documents.
    async fn commit(&self, ids: &[i32]) {
        let mut session = self.begun();
        for id in ids {
            self.add(&mut session, *id).await;
        }
        session.commit().await.unwrap();
    }

    async fn add(&self, session: &mut Session, id: i32) {
        self.coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(session).await.unwrap();
    }

    async fn flush(&self) {
        assert!(self.client.flush(LIMIT).await);
    }

    /// The collection, past the library.
    async fn stored(&self) -> mongodb::Collection<Document> {
        let server = local_mongod::shared_standalone().await.unwrap();
        let ns = self.coll.namespace();
        server.client().await.unwrap().database(&ns.db).collection(&ns.coll)
    }

    /// The documents with locks, as they are stored.
    async fn locked(&self) -> usize {
        self.stored().await.count_documents(doc! {"_xTxId": {"$exists": true}}).await.unwrap() as usize
    }

    /// The commands that `work` sends, by name.
    async fn commands_of<T>(&self, work: impl Future<Output = T>) -> BTreeMap<String, u64> {
        let before = self.client.metrics().commands;
        work.await;
        let mut after = self.client.metrics().commands;
        for (name, count) in before {
            after.entry(name).and_modify(|now| *now -= count);
        }
        after.retain(|_, count| *count > 0);
        after
    }
}

fn only<const N: usize>(commands: [(&str, u64); N]) -> BTreeMap<String, u64> {
    commands.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
}

#[tokio::test]
async fn transactions_are_finished_by_one_command() {
    let lazy = Lazy::new().await;
    for id in 1..=5 {
        lazy.commit(&[id, id + 10]).await;
    }
    assert_eq!(lazy.locked().await, 10);
    assert_eq!(lazy.commands_of(lazy.flush()).await, only([("update", 1)]));
    assert_eq!(lazy.locked().await, 0);
}

#[tokio::test]
async fn reads_by_id_of_what_is_committed_and_locked_are_one_command() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let lazy = Lazy::with(ClientOptions { hook: Some(gate.clone()), ..longest() }).await;
    let mut first = lazy.begun();
    lazy.add(&mut first, 1).await;
    lazy.coll.insert_one(&doc! {"_id": 500, "n": 7}).session(&mut first).await.unwrap();
    lazy.coll.delete_one(doc! {"_id": 3}).session(&mut first).await.unwrap();
    first.commit().await.unwrap();
    gate.shut();
    let by_id = async {
        let seen = |id: i32| lazy.coll.find_one(doc! {"_id": id});
        assert_eq!(seen(1).await.unwrap(), Some(doc! {"_id": 1, "n": 2}));
        assert_eq!(seen(500).await.unwrap(), Some(doc! {"_id": 500, "n": 7}));
        assert_eq!(seen(3).await.unwrap(), None);
    };
    assert_eq!(lazy.commands_of(by_id).await, only([("find", 3)]));
    let some = async {
        let filter = doc! {"_id": {"$in": [1, 2, 3, 500]}};
        let seen = lazy.coll.find(filter).sort(doc! {"_id": -1}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(seen, [doc! {"_id": 500, "n": 7}, doc! {"_id": 2, "n": 1}, doc! {"_id": 1, "n": 2}]);
    };
    assert_eq!(lazy.commands_of(some).await, only([("find", 1)]));
    assert_eq!(lazy.locked().await, 3, "and nothing of it was finished for that");
    gate.open();
    lazy.flush().await;
}

/// A transaction that was not committed when the document was fetched may have written to it again
/// since.
#[tokio::test]
async fn read_by_id_fetches_again_what_was_committed_meanwhile() {
    let gate = Gate::before(&[Step::BeforeStatus]);
    let lazy = Lazy::with(ClientOptions { hook: Some(gate.clone()), ..longest() }).await;
    let mut writer = lazy.begun();
    lazy.add(&mut writer, 1).await;
    gate.shut();
    let coll = lazy.coll.clone();
    let reader = tokio::spawn(async move { coll.find_one(doc! {"_id": 1}).await.unwrap() });
    gate.until_held().await;
    lazy.add(&mut writer, 1).await;
    writer.commit().await.unwrap();
    gate.open();
    assert_eq!(reader.await.unwrap(), Some(doc! {"_id": 1, "n": 3}));
}

/// A document that was committed before it was fetched, and is finished before the status of its
/// writer is read, is known to have been committed.
#[tokio::test]
async fn read_by_id_asks_no_record_about_what_is_finished_meanwhile() {
    let gate = Gate::before(&[Step::BeforeStatus]);
    let lazy = Lazy::with(ClientOptions { hook: Some(gate.clone()), ..longest() }).await;
    lazy.commit(&[1]).await;
    let read = async {
        gate.shut();
        let coll = lazy.coll.clone();
        let reader = tokio::spawn(async move { coll.find_one(doc! {"_id": 1}).await.unwrap() });
        gate.until_held().await;
        lazy.flush().await;
        gate.open();
        assert_eq!(reader.await.unwrap(), Some(doc! {"_id": 1, "n": 2}));
    };
    assert_eq!(lazy.commands_of(read).await, only([("find", 1), ("update", 1)]), "the document, and its finishing");
}

/// A client that reads its own record durably, as it does when it meets a lock of a transaction
/// that it has finished, is no rival of itself: what it commits goes on waiting for others.
#[tokio::test]
async fn a_client_that_asks_for_its_own_record_does_not_become_quick() {
    let lazy = Lazy::new().await;
    let looked = async |n: i32| {
        // Enough for a flight that no caller waits for: only before such a flight the client looks
        // whether rivals have read its record.
        let mut session = lazy.begun();
        let some = doc! {"_id": {"$gt": 100}};
        lazy.coll.update_many(some, doc! {"$set": {"n": n}}).session(&mut session).await.unwrap();
        let id = session.id().unwrap();
        session.commit().await.unwrap();
        until("it to be finished", async || (lazy.locked().await == 0).then_some(())).await;
        lazy.flush().await;
        id
    };
    let id = looked(10).await;
    // The record says that it is finished with the next commit.
    lazy.commit(&[3]).await;
    lazy.flush().await;
    let late =
        doc! {"_xTxId": {"c": ObjectId::from_bytes(id.client.0), "n": id.seq as i64}, "_unsafe": {"_id": 1, "n": 7}};
    lazy.stored().await.update_one(doc! {"_id": 1}, doc! {"$set": late}).await.unwrap();
    let asks = async { assert_eq!(lazy.coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 1})) };
    let asked = lazy.commands_of(asks).await;
    assert!(asked.contains_key("findAndModify"), "{asked:?}");
    assert_eq!(lazy.locked().await, 0, "and it has rolled back the late lock");
    // The client looks ten times a second, at most.
    tokio::time::sleep(Duration::from_millis(150)).await;
    looked(11).await;
    lazy.commit(&[2]).await;
    // As long as it takes a client that is quick, and much longer.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(lazy.locked().await, 1, "no other client has asked");
    lazy.flush().await;
}

#[tokio::test]
async fn a_query_has_its_collection_finished_and_no_other() {
    let lazy = Lazy::new().await;
    let other = Lazy { client: lazy.client.clone(), coll: quiet::collection(&lazy.client, 3).await };
    other.commit(&[1]).await;
    other.flush().await;
    assert_eq!(other.coll.count_documents(doc! {"n": 2}).await.unwrap(), 1);
    for id in 1..=3 {
        lazy.commit(&[id]).await;
        other.commit(&[id]).await;
    }
    let count = async |n: i32| lazy.coll.count_documents(doc! {"n": n}).await.unwrap();
    let elsewhere = async { assert_eq!(count(100).await, 0) };
    assert_eq!(lazy.commands_of(elsewhere).await, only([("aggregate", 1)]), "nothing that it could have to see");
    assert_eq!((lazy.locked().await, other.locked().await), (3, 3));
    let meets = async { assert_eq!(count(2).await, 4) };
    assert_eq!(lazy.commands_of(meets).await, only([("aggregate", 2), ("update", 1)]), "sent again");
    assert_eq!((lazy.locked().await, other.locked().await), (0, 3));
    // The next ones foresee it.
    lazy.commit(&[1, 2]).await;
    let foresees = async { assert_eq!(count(3).await, 2) };
    assert_eq!(lazy.commands_of(foresees).await, only([("aggregate", 1), ("update", 1)]));
    let nothing = async { assert_eq!(count(2).await, 2) };
    assert_eq!(lazy.commands_of(nothing).await, only([("aggregate", 1)]));
}

/// A query by nothing but the `_id` sees what the same client has committed where it is, and what
/// others hold as it was.
#[tokio::test]
async fn a_query_by_ids_sees_what_is_committed_and_locked_by_one_command() {
    let lazy = Lazy::new().await;
    let mut first = lazy.begun();
    lazy.add(&mut first, 1).await;
    lazy.coll.delete_one(doc! {"_id": 3}).session(&mut first).await.unwrap();
    lazy.coll.insert_one(&doc! {"_id": 2.5, "n": 7}).session(&mut first).await.unwrap();
    first.commit().await.unwrap();
    lazy.commit(&[4]).await;
    let (other, mut rival) = (connect(longest()).await, lazy.begun());
    let theirs = through(&other, &lazy.coll);
    let mut others_rival = other.session();
    others_rival.begin().unwrap();
    theirs.delete_one(doc! {"_id": 5}).session(&mut others_rival).await.unwrap();
    lazy.coll.insert_one(&doc! {"_id": 5.5}).session(&mut rival).await.unwrap();
    let range = async {
        let all = lazy.coll.find(doc! {"_id": {"$lte": 6}}).sort(doc! {"_id": -1}).skip(1).limit(5);
        let seen = all.await.unwrap().try_collect().await.unwrap();
        let document = |id: i32, n: i32| doc! {"_id": id, "n": n};
        let between = doc! {"_id": 2.5, "n": 7};
        assert_eq!(seen, [document(5, 1), document(4, 2), between, document(2, 1), document(1, 2)]);
        let some = lazy.coll.find(doc! {"_id": {"$lte": 4}}).sort(doc! {"_id": 1}).projection(doc! {"_id": 0, "n": 1});
        let seen = some.await.unwrap().try_collect().await.unwrap();
        assert_eq!(seen, [2, 1, 7, 2].map(|n: i32| doc! {"n": n}));
    };
    // And one that reads the record of the other client.
    assert_eq!(lazy.commands_of(range).await, only([("aggregate", 3)]));
    assert_eq!(lazy.locked().await, 6, "and nothing was finished for that");
    rival.rollback().await.unwrap();
    others_rival.commit().await.unwrap();
    let after = async {
        let seen = lazy.coll.find(doc! {"_id": {"$gte": 4, "$lte": 6}}).await.unwrap().try_collect().await.unwrap();
        assert_eq!(seen, [doc! {"_id": 4, "n": 2}, doc! {"_id": 6, "n": 1}]);
    };
    after.await;
    lazy.flush().await;
}

/// At snapshot, a document that was read is compared with what is committed, finished or not.
#[tokio::test]
async fn validation_takes_what_is_committed_for_the_same_finished_or_not() {
    let lazy = Lazy::with(ClientOptions { isolation: Isolation::Snapshot, ..longest() }).await;
    lazy.commit(&[1, 2]).await;
    for finished_between in [false, true] {
        let mut reader = lazy.begun();
        for id in [1, 2] {
            let seen = lazy.coll.find_one(doc! {"_id": id}).session(&mut reader).await.unwrap().unwrap();
            assert_eq!(seen, doc! {"_id": id, "n": 2});
        }
        lazy.add(&mut reader, 10).await;
        if finished_between {
            lazy.flush().await;
        }
        reader.commit().await.unwrap();
    }
    lazy.flush().await;
    assert_eq!(lazy.coll.find_one(doc! {"_id": 10}).await.unwrap(), Some(doc! {"_id": 10, "n": 3}));
}

/// Documents that one statement cannot take over are finished with everything else that waits, not
/// by themselves.
#[tokio::test]
async fn who_cannot_take_over_has_everything_finished() {
    let lazy = Lazy::new().await;
    lazy.commit(&[1, 2, 3]).await;
    let mut second = lazy.begun();
    lazy.add(&mut second, 100).await;
    let push = async {
        lazy.coll.update_one(doc! {"_id": 1}, doc! {"$push": {"list": 1}}).session(&mut second).await.unwrap();
    };
    assert_eq!(lazy.commands_of(push).await, only([("update", 2)]), "one to finish, one to lock and change");
    second.commit().await.unwrap();
    // The same outside a transaction, where nothing is claimed.
    lazy.flush().await;
    lazy.commit(&[1, 2, 3]).await;
    lazy.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 9}}).await.unwrap();
    assert_eq!(lazy.locked().await, 0);
    assert_eq!(lazy.client.metrics().finished_for_others, 0, "nothing was repaired");
    assert_eq!(lazy.coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 9, "list": [1]}));
}

/// A take-over that was never answered, and never arrived, takes nothing off the list.
#[tokio::test]
async fn what_was_to_be_taken_over_is_finished_all_the_same() {
    let gate = Gate::before(&[Step::BeforeLock]);
    let lazy = Lazy::with(ClientOptions { hook: Some(gate.clone()), ..longest() }).await;
    lazy.commit(&[1, 2]).await;
    let mut second = lazy.begun();
    lazy.add(&mut second, 100).await;
    gate.shut();
    {
        let taking = lazy.coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 5}}).session(&mut second).into_future();
        tokio::select! {
            biased;
            done = taking => panic!("it was sent: {done:?}"),
            () = gate.until_held() => {}
        }
    }
    gate.open();
    drop(second);
    lazy.flush().await;
    // Two more, so that the mark passes the first.
    lazy.commit(&[50]).await;
    lazy.flush().await;
    lazy.commit(&[50]).await;
    lazy.flush().await;
    assert_eq!(lazy.locked().await, 0);
    let others = through(&connect(options()).await, &lazy.coll);
    for (id, n) in [(1, 2), (2, 2), (100, 1)] {
        assert_eq!(others.find_one(doc! {"_id": id}).await.unwrap(), Some(doc! {"_id": id, "n": n}));
    }
}

/// A part of the documents, of which one is committed and locked.
#[tokio::test]
async fn some_fields_of_some_documents_are_those_that_are_committed() {
    let lazy = Lazy::new().await;
    let others = through(&connect(options()).await, &lazy.coll);
    for coll in [&lazy.coll, &others] {
        lazy.commit(&[1]).await;
        let n = lazy.coll.find_one(doc! {"_id": 1}).await.unwrap().unwrap().get_i32("n").unwrap();
        let query = coll.find(doc! {"_id": {"$in": [1, 2]}}).sort(doc! {"_id": 1}).projection(doc! {"_id": 0, "n": 1});
        assert_eq!(query.await.unwrap().try_collect().await.unwrap(), [doc! {"n": n}, doc! {"n": 1}]);
    }
}

#[tokio::test]
async fn rivals_of_other_clients_finish_what_they_meet_and_go_on() {
    let lazy = Lazy::new().await;
    let rival = connect(options()).await;
    let theirs = through(&rival, &lazy.coll);
    lazy.commit(&[1, 2, 3]).await;
    assert_eq!(theirs.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 2}));
    assert_eq!(theirs.count_documents(doc! {"n": 2}).await.unwrap(), 4);
    assert_eq!(lazy.locked().await, 0);
    lazy.commit(&[4]).await;
    let mut session = rival.session();
    session.begin().unwrap();
    theirs.update_one(doc! {"_id": 4}, doc! {"$inc": {"n": 5}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    assert!(rival.flush(LIMIT).await);
    lazy.flush().await;
    assert_eq!(lazy.coll.find_one(doc! {"_id": 4}).await.unwrap(), Some(doc! {"_id": 4, "n": 7}));
}

/// A read by `_id` finishes nothing, but the owner learns of it with what it finishes next, and
/// lets nothing wait for a second.
#[tokio::test]
async fn rivals_that_read_by_id_make_the_owner_quick() {
    let lazy = Lazy::with(ClientOptions { finish_delay: Duration::from_millis(200), ..options() }).await;
    let rival = connect(options()).await;
    let theirs = through(&rival, &lazy.coll);
    let counted = async |ids: &[i32]| {
        let updates = async |work: &Lazy| work.client.metrics().commands.get("update").copied().unwrap_or(0);
        let before = updates(&lazy).await;
        for id in ids {
            lazy.commit(&[*id]).await;
            // A transaction that waits for no other is finished by the time that this has come
            // round.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        lazy.flush().await;
        updates(&lazy).await - before
    };
    let together = counted(&[1, 2, 3, 4, 5]).await;
    // Each read meets a lock, reads the record, and the next commit that is finished learns of it.
    until("the owner to be quick", async || {
        lazy.commit(&[6]).await;
        assert!(theirs.find_one(doc! {"_id": 6}).await.unwrap().is_some());
        // No caller waits for it to be finished.
        until("it to be finished", async || (lazy.locked().await == 0).then_some(())).await;
        let alone = counted(&[7, 8, 9, 10, 11]).await;
        (alone > together).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_that_is_dropped_finishes_what_is_left() {
    let lazy = Lazy::new().await;
    lazy.commit(&[1, 2]).await;
    let other = through(&connect(options()).await, &lazy.coll);
    let left = Lazy { client: connect(options()).await, coll: other };
    assert_eq!(left.locked().await, 2);
    drop(lazy);
    until("the documents are free", async || (left.locked().await == 0).then_some(())).await;
}

/// The server finishes nothing: commits wait, and are rolled back when that takes too long.
#[tokio::test]
async fn commits_wait_while_a_thousand_documents_do() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let commit_timeout = Duration::from_secs(3);
    let client = connect(ClientOptions { hook: Some(gate.clone()), commit_timeout, ..options() }).await;
    let lazy = Lazy { coll: quiet::collection(&client, 1_200).await, client };
    gate.shut();
    lazy.commit(&[1]).await;
    gate.until_held().await;
    for hundred in 1..=10 {
        let mut session = lazy.begun();
        let some = doc! {"_id": {"$gt": hundred * 100, "$lte": hundred * 100 + 100}};
        lazy.coll.update_many(some, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
        session.commit().await.unwrap();
    }
    let mut late = lazy.begun();
    lazy.add(&mut late, 2).await;
    let error = late.commit().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    gate.open();
    lazy.flush().await;
    assert_eq!(lazy.locked().await, 0);
    lazy.commit(&[2]).await;
    assert_eq!(lazy.coll.find_one(doc! {"_id": 2}).await.unwrap(), Some(doc! {"_id": 2, "n": 2}));
}

/// A transaction that waits for a document that is to be removed is not left waiting for others.
#[tokio::test]
async fn who_waits_for_what_is_removed_waits_for_one_command() {
    let lazy = Lazy::new().await;
    let mut first = lazy.begun();
    lazy.add(&mut first, 1).await;
    lazy.coll.delete_one(doc! {"_id": 1}).session(&mut first).await.unwrap();
    let waits = TransactionOptions { lock_wait: LIMIT, ..TransactionOptions::default() };
    let mut second = lazy.client.session_with(waits);
    second.begin().unwrap();
    let coll = lazy.coll.clone();
    let waiting = tokio::spawn(async move {
        let done = coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut second).await.unwrap();
        second.commit().await.unwrap();
        done.matched_count
    });
    let before = lazy.client.metrics().finished_for_others;
    first.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap(), 0);
    assert_eq!(lazy.client.metrics().finished_for_others, before, "the finisher did it");
}

#[tokio::test]
async fn a_delay_out_of_bounds_is_refused() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let finish_delay = LONGEST + Duration::from_millis(1);
    let refused = Client::connect_with(&server.uri(), ClientOptions { finish_delay, ..options() }).await;
    assert_eq!(refused.err().map(|error| error.kind()), Some(ErrorKind::Invalid));
}

/// The plans of the statements that finish three documents that were updated and two that were
/// removed, as the server's profiler has them.
async fn plans_of_finishing(client: &Client, coll: &Collection<Document>) -> Vec<String> {
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let db = server.database(&coll.namespace().db);
    let mut session = client.session();
    session.begin().unwrap();
    for id in 1..=3 {
        coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    }
    for id in 4..=5 {
        coll.delete_one(doc! {"_id": id}).session(&mut session).await.unwrap();
    }
    session.commit().await.unwrap();
    db.run_command(doc! {"profile": 2}).await.unwrap();
    assert!(client.flush(LIMIT).await);
    db.run_command(doc! {"profile": 0}).await.unwrap();
    let profile = db.collection::<Document>("system.profile");
    let filter = doc! {"op": {"$in": ["update", "remove"]}, "ns": coll.namespace().to_string()};
    let mut found = profile.find(filter).await.unwrap();
    let mut plans = Vec::new();
    while found.advance().await.unwrap() {
        let one: Document = found.deserialize_current().unwrap();
        plans.push(format!("{} {}", one.get_str("op").unwrap(), one.get_str("planSummary").unwrap()));
    }
    plans
}

/// The index on pending documents may have the keys of all that was pending a moment ago.
#[tokio::test]
async fn documents_are_finished_by_the_index_on_their_ids() {
    let Lazy { client, coll } = Lazy::with(longest()).await;
    assert_eq!(plans_of_finishing(&client, &coll).await, ["remove IXSCAN { _id: 1 }", "update IXSCAN { _id: 1 }"]);
}

/// There is none on their `_id`s: the server would scan everything between them.
#[tokio::test]
async fn documents_of_a_clustered_collection_are_finished_by_the_index_on_what_is_pending() {
    let client = connect(longest()).await;
    let coll = client.database(&local_mongod::unique_db("clustered")).collection("docs");
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let clustered = doc! {"create": "docs", "clusteredIndex": {"key": {"_id": 1}, "unique": true}};
    server.database(&coll.namespace().db).run_command(clustered).await.unwrap();
    coll.insert_many(&(1..=9).map(|id| doc! {"_id": id, "n": 1}).collect::<Vec<_>>()).await.unwrap();
    // The first query makes the index.
    assert_eq!(coll.count_documents(doc! {"n": 1}).await.unwrap(), 9);
    assert!(client.flush(LIMIT).await);
    let plans = plans_of_finishing(&client, &coll).await;
    assert_eq!(plans, ["remove IXSCAN { _xTxId: 1 }", "update IXSCAN { _xTxId: 1 }"]);
}

/// The deletion of a transaction that is committed takes long to be finished.
#[tokio::test]
async fn a_committed_deletion_is_no_rival_of_the_same_client() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let lazy = Lazy::with(ClientOptions { hook: Some(gate.clone()), ..options() }).await;
    gate.shut();
    let mut session = lazy.begun();
    lazy.coll.delete_one(doc! {"_id": 1}).session(&mut session).await.unwrap();
    lazy.coll.delete_one(doc! {"_id": 2}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    gate.until_held().await;
    let wait = TransactionOptions { lock_wait: Duration::from_millis(100), ..TransactionOptions::default() };
    let mut next = lazy.client.session_with(wait);
    next.begin().unwrap();
    let again = lazy.coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 7}}).upsert(true).session(&mut next).await;
    assert_eq!(again.unwrap().upserted_id, Some(1.into()));
    let gone = lazy.coll.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 7}}).session(&mut next).await.unwrap();
    assert_eq!(gone.matched_count, 0);
    next.commit().await.unwrap();
    gate.open();
    lazy.flush().await;
    assert_eq!(lazy.coll.find_one(doc! {"_id": 1}).await.unwrap(), Some(doc! {"_id": 1, "n": 7}));
    assert_eq!(lazy.coll.find_one(doc! {"_id": 2}).await.unwrap(), None);
}
