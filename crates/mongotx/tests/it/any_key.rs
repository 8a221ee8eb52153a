//! Writes of one document that is found by other fields than its `_id` (decision 0037): one command
//! finds, locks and changes it, and says which one it was; whatever that command may not decide
//! goes the long way.

use crate::{late::proxy::Proxy, quiet};

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use bson::{Document, doc};
use futures_util::{TryStreamExt, future::join_all};
use mongotx::{
    Client, ClientOptions, Collection, ErrorKind, IndexModel, Isolation, ReturnDocument, Session, Step,
    TransactionOptions, WriteModel,
};
use quiet::{Gate, commands_of, connect, options, through};

const LONG: Duration = Duration::from_secs(60);

/// The documents `{_id: 10 * k, k, n: 1}` with `k` from 1 on, of which a unique index makes `k` the
/// natural key.
async fn keyed(client: &Client, count: i32) -> Collection<Document> {
    let coll = client.database(&local_mongod::unique_db("any_key")).collection("docs");
    coll.create_index(IndexModel::new(doc! {"k": 1}).unique(true)).await.unwrap();
    coll.create_index(IndexModel::new(doc! {"n": 1})).await.unwrap();
    let all: Vec<Document> = (1..=count).map(|k| doc! {"_id": 10 * k, "k": k, "n": 1}).collect();
    coll.insert_many(&all).await.unwrap();
    warm_up(client, &coll).await;
    coll
}

/// Makes all look-ups that a client makes once.
async fn warm_up(client: &Client, coll: &Collection<Document>) {
    coll.find(doc! {"n": 5}).await.unwrap().try_collect().await.unwrap();
    let mut session = begun(client);
    add(coll, &mut session, 1, 0).await.unwrap();
    session.rollback().await.unwrap();
    assert!(client.flush(LONG).await);
}

fn begun(client: &Client) -> Session {
    let mut session = client.session();
    session.begin().unwrap();
    session
}

/// Adds `n` to the document with key `k`; returns how many documents matched.
async fn add(coll: &Collection<Document>, session: &mut Session, k: i32, n: i32) -> mongotx::Result<u64> {
    let done = coll.update_one(doc! {"k": k}, doc! {"$inc": {"n": n}}).session(session).await?;
    Ok(done.matched_count)
}

async fn n_of(coll: &Collection<Document>, k: i32) -> i32 {
    coll.find_one(doc! {"k": k}).await.unwrap().unwrap().get_i32("n").unwrap()
}

fn one_find_and_modify() -> BTreeMap<String, u64> {
    BTreeMap::from([("findAndModify".to_owned(), 1)])
}

#[tokio::test]
async fn fields_of_any_depth_are_shown_by_the_same_command() {
    let client = connect(options()).await;
    let coll = keyed(&client, 3).await;
    for k in [1, 2] {
        coll.update_one(doc! {"k": k}, doc! {"$set": {"x": {"y": k, "z": 9}}}).await.unwrap();
    }
    assert!(client.flush(LONG).await);
    let mut session = begun(&client);
    add(&coll, &mut session, 3, 1).await.unwrap();
    for (k, which, n) in [(1, ReturnDocument::Before, 1), (2, ReturnDocument::After, 2)] {
        let change = async {
            let action = coll.find_one_and_update(doc! {"k": k}, doc! {"$inc": {"n": 1}}).return_document(which);
            let action = action.projection(doc! {"_id": 0, "n": 1, "x.y": 1});
            assert_eq!(action.session(&mut session).await.unwrap(), Some(doc! {"n": n, "x": {"y": k}}));
        };
        assert_eq!(commands_of(&client, change).await, one_find_and_modify(), "{k}");
    }
    session.commit().await.unwrap();
    assert_eq!([n_of(&coll, 1).await, n_of(&coll, 2).await], [2, 2]);
}

/// The collection's documents with MongoTx's own fields, read past the library.
async fn stored(coll: &Collection<Document>) -> Vec<Document> {
    let server = local_mongod::shared_standalone().await.unwrap();
    let plain = server.client().await.unwrap();
    let ns = coll.namespace();
    let plain = plain.database(&ns.db).collection::<Document>(&ns.coll);
    let found = plain.find(doc! {}).sort(doc! {"_id": 1}).await.unwrap();
    found.try_collect().await.unwrap()
}

fn is_clean(documents: &[Document]) -> bool {
    documents.iter().all(|document| !document.contains_key("_xTxId") && !document.contains_key("_unsafe"))
}

#[tokio::test]
async fn a_write_by_a_natural_key_is_one_command_each() {
    let client = connect(options()).await;
    let coll = keyed(&client, 8).await;
    let mut session = begun(&client);
    // Also in a collection to which the transaction has written: no other transaction can have the
    // key.
    for k in 1..=3 {
        let update = async { assert_eq!(add(&coll, &mut session, k, 1).await.unwrap(), 1) };
        assert_eq!(commands_of(&client, update).await, one_find_and_modify(), "{k}");
    }
    let modify = async {
        let action = coll.find_one_and_update(doc! {"k": 4}, doc! {"$inc": {"n": 1}});
        let action = action.return_document(ReturnDocument::After).projection(doc! {"_id": 0});
        assert_eq!(action.session(&mut session).await.unwrap(), Some(doc! {"k": 4, "n": 2}));
    };
    assert_eq!(commands_of(&client, modify).await, one_find_and_modify());
    let lock = async {
        let same = vec![doc! {"$replaceWith": "$$ROOT"}];
        let seen = coll.find_one_and_update(doc! {"k": 5}, same).session(&mut session).await.unwrap();
        assert_eq!(seen, Some(doc! {"_id": 50, "k": 5, "n": 1}));
    };
    assert_eq!(commands_of(&client, lock).await, one_find_and_modify());
    let remove = async { assert_eq!(coll.delete_one(doc! {"k": 6}).session(&mut session).await.unwrap(), 1) };
    assert_eq!(commands_of(&client, remove).await, one_find_and_modify());
    let take = async {
        let action = coll.find_one_and_delete(doc! {"k": 7}).sort(doc! {"n": 1});
        assert_eq!(action.session(&mut session).await.unwrap(), Some(doc! {"_id": 70, "k": 7, "n": 1}));
    };
    // Another client may have dropped the index since this one looked at it: then the order counts.
    let taken = commands_of(&client, take).await;
    assert_eq!(taken, BTreeMap::from([("aggregate".to_owned(), 1), ("findAndModify".to_owned(), 1)]));
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    let left = [(1, 2), (2, 2), (3, 2), (4, 2), (5, 1), (8, 1)].map(|(k, n)| doc! {"_id": 10 * k, "k": k, "n": n});
    assert_eq!(stored(&coll).await, left);
}

/// Another tool drops the indexes, and stores a second document with the key.
async fn have_two_with_key_one(coll: &Collection<Document>) {
    let server = local_mongod::shared_standalone().await.unwrap().client().await.unwrap();
    let raw = server.database(&coll.namespace().db);
    raw.run_command(doc! {"dropIndexes": &coll.namespace().coll, "index": "*"}).await.unwrap();
    let raw = raw.collection::<Document>(&coll.namespace().coll);
    raw.insert_one(doc! {"_id": 99, "k": 1, "n": 9}).await.unwrap();
}

/// The client has known the index, and the `_id` of the document with the key.
#[tokio::test]
async fn writes_of_all_with_a_key_write_all_where_the_index_is_gone_by_now() {
    let client = connect(options()).await;
    let coll = keyed(&client, 3).await;
    let mut session = begun(&client);
    for k in 1..=3 {
        assert_eq!(add(&coll, &mut session, k, 1).await.unwrap(), 1);
    }
    session.commit().await.unwrap();
    have_two_with_key_one(&coll).await;
    session.begin().unwrap();
    let update = |k: i32| WriteModel::UpdateMany {
        filter: doc! {"k": k},
        update: doc! {"$set": {"n": 5}}.into(),
        upsert: false,
    };
    let done = coll.bulk_write([update(2), update(1)]).session(&mut session).await.unwrap();
    assert_eq!((done.matched_count, done.modified_count), (3, 3));
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {"n": 5}).await.unwrap(), 3);
    session.begin().unwrap();
    let delete = |k: i32| WriteModel::DeleteMany { filter: doc! {"k": k} };
    let done = coll.bulk_write([delete(3), delete(1)]).session(&mut session).await.unwrap();
    assert_eq!(done.deleted_count, 3);
    session.commit().await.unwrap();
    assert_eq!(coll.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn an_order_counts_where_the_index_is_gone_by_now() {
    let client = connect(options()).await;
    let coll = keyed(&client, 2).await;
    let mut session = begun(&client);
    assert_eq!(add(&coll, &mut session, 2, 1).await.unwrap(), 1);
    session.commit().await.unwrap();
    have_two_with_key_one(&coll).await;
    session.begin().unwrap();
    let action = coll.find_one_and_update(doc! {"k": 1}, doc! {"$inc": {"n": 1}}).sort(doc! {"n": -1});
    assert_eq!(action.session(&mut session).await.unwrap(), Some(doc! {"_id": 99, "k": 1, "n": 9}));
    session.commit().await.unwrap();
}

#[tokio::test]
async fn a_first_write_by_any_condition_is_one_command() {
    let client = connect(options()).await;
    let coll = keyed(&client, 3).await;
    let mut session = begun(&client);
    let update = async {
        let done = coll.update_one(doc! {"n": {"$gte": 1}}, doc! {"$set": {"n": 7}}).session(&mut session).await;
        assert_eq!(done.unwrap().modified_count, 1);
    };
    assert_eq!(commands_of(&client, update).await, one_find_and_modify());
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    assert_eq!(stored(&coll).await[0], doc! {"_id": 10, "k": 1, "n": 7});
}

#[tokio::test]
async fn its_own_changes_count_and_not_what_was_there_before() {
    let client = connect(options()).await;
    let coll = keyed(&client, 4).await;
    let mut session = begun(&client);
    let set = |k: i32, set: Document| coll.update_one(doc! {"k": k}, doc! {"$set": set});
    set(1, doc! {"k": 100}).session(&mut session).await.unwrap();
    assert_eq!(add(&coll, &mut session, 1, 5).await.unwrap(), 0, "it has another key now");
    assert_eq!(add(&coll, &mut session, 100, 5).await.unwrap(), 1);
    coll.delete_one(doc! {"k": 2}).session(&mut session).await.unwrap();
    assert_eq!(add(&coll, &mut session, 2, 5).await.unwrap(), 0, "it is removed");
    coll.insert_one(&doc! {"_id": 5, "k": 2, "n": 50}).session(&mut session).await.unwrap();
    assert_eq!(add(&coll, &mut session, 2, 5).await.unwrap(), 1, "the new one has its key");
    assert_eq!(add(&coll, &mut session, 2, 5).await.unwrap(), 1);
    // Documents that it has changed come first, as they would without transactions.
    set(3, doc! {"n": 9}).session(&mut session).await.unwrap();
    let done = coll.update_one(doc! {"n": 9}, doc! {"$set": {"seen": true}}).session(&mut session).await.unwrap();
    assert_eq!(done.matched_count, 1);
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    let expected = [
        doc! {"_id": 5, "k": 2, "n": 60},
        doc! {"_id": 10, "k": 100, "n": 6},
        doc! {"_id": 30, "k": 3, "n": 9, "seen": true},
        doc! {"_id": 40, "k": 4, "n": 1},
    ];
    assert_eq!(stored(&coll).await, expected);
}

#[tokio::test]
async fn a_document_that_a_rival_holds_is_a_conflict_by_its_key() {
    let (client, other) = (connect(options()).await, connect(options()).await);
    let coll = keyed(&client, 3).await;
    let (mut session, mut rival) = (begun(&client), begun(&other));
    let theirs = through(&other, &coll);
    add(&theirs, &mut rival, 2, 10).await.unwrap();
    let refused = add(&coll, &mut session, 2, 1).await.unwrap_err();
    assert_eq!((refused.kind(), refused.conflict().unwrap().rival), (ErrorKind::Conflict, rival.id().unwrap()));
    // The value that the document will have if the rival commits is free still.
    theirs.update_one(doc! {"k": 3}, doc! {"$set": {"k": 33}}).session(&mut rival).await.unwrap();
    let mut session = begun(&client);
    assert_eq!(add(&coll, &mut session, 33, 1).await.unwrap(), 0);
    session.rollback().await.unwrap();
    rival.commit().await.unwrap();
    let mut session = begun(&client);
    assert_eq!(add(&coll, &mut session, 33, 1).await.unwrap(), 1);
    session.commit().await.unwrap();
    assert_eq!((n_of(&coll, 2).await, n_of(&coll, 33).await), (11, 2));
}

/// A client whose finished documents are held back, its collection, and the gate that lets them be
/// finished. `is_known`: the client knows the documents by their keys.
async fn left_unfinished(is_known: bool) -> (Client, Collection<Document>, Arc<Gate>) {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let client = connect(ClientOptions { hook: Some(gate.clone()), ..options() }).await;
    let coll = keyed(&client, 4).await;
    gate.shut();
    let mut first = begun(&client);
    for (k, n) in [(1, 11), (2, 11), (3, 11), (4, 40)] {
        let by = if is_known {
            doc! {"k": k}
        } else {
            doc! {"_id": 10 * k}
        };
        coll.update_one(by, doc! {"$set": {"n": n}}).session(&mut first).await.unwrap();
    }
    first.commit().await.unwrap();
    gate.until_held().await;
    (client, coll, gate)
}

#[tokio::test]
async fn what_the_same_client_has_committed_and_not_finished_is_taken_over() {
    for is_known in [false, true] {
        what_is_left_is_taken_over(is_known).await;
    }
}

async fn what_is_left_is_taken_over(is_known: bool) {
    let (client, coll, gate) = left_unfinished(is_known).await;
    let mut second = begun(&client);
    let update = async { assert_eq!(add(&coll, &mut second, 1, 100).await.unwrap(), 1) };
    assert_eq!(commands_of(&client, update).await, one_find_and_modify());
    let modify = async {
        let action = coll.find_one_and_update(doc! {"k": 2}, doc! {"$inc": {"n": 100}});
        assert_eq!(action.session(&mut second).await.unwrap(), Some(doc! {"_id": 20, "k": 2, "n": 11}));
    };
    assert_eq!(commands_of(&client, modify).await, one_find_and_modify());
    // Its safe version matches, and is history.
    let done = coll.update_one(doc! {"k": 4, "n": 1}, doc! {"$inc": {"n": 5}}).session(&mut second).await.unwrap();
    assert_eq!(done.matched_count, 0);
    second.commit().await.unwrap();
    gate.open();
    assert!(client.flush(LONG).await);
    let expected = [(1, 111), (2, 111), (3, 11), (4, 40)].map(|(k, n)| doc! {"_id": 10 * k, "k": k, "n": n});
    assert_eq!(stored(&coll).await, expected);
}

#[tokio::test]
async fn what_was_taken_over_and_rolled_back_is_as_it_was_committed() {
    for is_known in [false, true] {
        let (client, coll, gate) = left_unfinished(is_known).await;
        let mut second = begun(&client);
        add(&coll, &mut second, 1, 100).await.unwrap();
        second.rollback().await.unwrap();
        assert_eq!(n_of(&through(&connect(options()).await, &coll), 1).await, 11);
        gate.open();
        assert!(client.flush(LONG).await);
        assert_eq!(stored(&coll).await[0], doc! {"_id": 10, "k": 1, "n": 11});
    }
}

#[tokio::test]
async fn a_document_that_was_read_and_has_changed_since_is_a_conflict_at_once() {
    let client = connect(ClientOptions { isolation: Isolation::Snapshot, ..options() }).await;
    let coll = keyed(&client, 2).await;
    let others = through(&connect(options()).await, &coll);
    let mut session = begun(&client);
    let seen = coll.find_one(doc! {"_id": 10}).session(&mut session).await.unwrap().unwrap();
    assert_eq!(seen.get_i32("n").unwrap(), 1);
    others.update_one(doc! {"k": 1}, doc! {"$set": {"n": 5}}).await.unwrap();
    let refused = add(&coll, &mut session, 1, 1).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(n_of(&coll, 1).await, 5);
}

#[tokio::test]
async fn what_matched_nothing_must_still_match_nothing_at_the_commit() {
    let client = connect(ClientOptions { isolation: Isolation::Snapshot, ..options() }).await;
    let coll = keyed(&client, 2).await;
    let others = through(&connect(options()).await, &coll);
    let mut session = begun(&client);
    assert_eq!(add(&coll, &mut session, 9, 1).await.unwrap(), 0);
    assert_eq!(add(&coll, &mut session, 1, 1).await.unwrap(), 1);
    others.insert_one(&doc! {"_id": 90, "k": 9, "n": 1}).await.unwrap();
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!((n_of(&coll, 1).await, n_of(&coll, 9).await), (1, 1));
}

#[tokio::test]
async fn a_document_that_it_has_read_locked_is_written_under_that_lock() {
    let client = connect(options()).await;
    let coll = keyed(&client, 2).await;
    let repeatable = TransactionOptions { isolation: Some(Isolation::RepeatableRead), ..TransactionOptions::default() };
    let mut session = client.session_with(repeatable);
    session.begin().unwrap();
    assert!(coll.find_one(doc! {"k": 1}).session(&mut session).await.unwrap().is_some());
    assert_eq!(add(&coll, &mut session, 1, 1).await.unwrap(), 1);
    assert_eq!(add(&coll, &mut session, 2, 1).await.unwrap(), 1);
    session.commit().await.unwrap();
    assert!(client.flush(LONG).await);
    assert_eq!(stored(&coll).await, [doc! {"_id": 10, "k": 1, "n": 2}, doc! {"_id": 20, "k": 2, "n": 2}]);
}

/// Sessions of two clients that add to the same few documents, and to an account of what was
/// acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rivals_by_a_natural_key_lose_nothing_and_do_nothing_twice() {
    const SESSIONS: usize = 8;
    const EACH: usize = 25;
    for isolation in [Isolation::Snapshot, Isolation::ReadCommitted] {
        let of_level = || ClientOptions { isolation, ..options() };
        let clients = [connect(of_level()).await, connect(of_level()).await];
        let coll = keyed(&clients[0], 3).await;
        let tasks = (0..SESSIONS).map(|at| {
            let client = clients[at % clients.len()].clone();
            let coll = through(&client, &coll);
            tokio::spawn(async move {
                let mut session = client.session();
                for round in 0..EACH {
                    let (from, to) = (1 + (at + round) % 3, 1 + (at + round + 1) % 3);
                    let moved = session.run_transaction(coll.clone(), move |session, coll| {
                        Box::pin(async move {
                            let seen = coll.find_one_and_update(doc! {"k": from as i32}, doc! {"$inc": {"n": -1}});
                            assert!(seen.session(session).await?.is_some());
                            assert_eq!(add(coll, session, to as i32, 1).await?, 1);
                            let written = doc! {"k": 100 + (at * EACH + round) as i32, "n": 0};
                            coll.insert_one(&written).session(session).await.map(drop)
                        })
                    });
                    moved.await.unwrap();
                }
            })
        });
        join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
        assert!(clients[0].flush(LONG).await && clients[1].flush(LONG).await);
        let (all, mut expected) = (stored(&coll).await, [1; 3]);
        for (at, round) in (0..SESSIONS).flat_map(|at| (0..EACH).map(move |round| (at, round))) {
            expected[(at + round) % 3] -= 1;
            expected[(at + round + 1) % 3] += 1;
        }
        assert!(is_clean(&all), "{all:?}");
        let written = all.iter().filter(|document| document.get_i32("k").unwrap() >= 100).count();
        assert_eq!(written, SESSIONS * EACH, "{isolation:?}");
        for k in 1..=3 {
            assert_eq!(n_of(&coll, k).await, expected[k as usize - 1], "{isolation:?}, {k}");
        }
    }
}

fn who_waits(client: &Client) -> Session {
    let mut session = client.session_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() });
    session.begin().unwrap();
    session
}

/// A transaction that wants a key that was wanted in vain before knows where to stand, without a
/// command.
#[tokio::test]
async fn who_wants_a_natural_key_waits_in_turn_and_then_sends_one_command() {
    let client = connect(options()).await;
    let coll = keyed(&client, 3).await;
    let mut first = begun(&client);
    add(&coll, &mut first, 2, 1).await.unwrap();
    let error = add(&coll, &mut begun(&client), 2, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    let [mut second, mut third] = [(); 2].map(|()| who_waits(&client));
    let sent = commands_of(&client, async {
        let next = async |session: &mut Session| {
            assert_eq!(add(&coll, session, 2, 1).await.unwrap(), 1);
            session.commit().await.unwrap();
        };
        let end = async { first.commit().await.unwrap() };
        tokio::join!(next(&mut second), next(&mut third), end);
    });
    let sent = sent.await;
    assert_eq!((sent.get("findAndModify"), sent.get("find")), (Some(&2), None), "{sent:?}");
    assert!(client.flush(LONG).await);
    assert_eq!(n_of(&coll, 2).await, 4);
}

/// The document remembered for a key is no more than a guess.
#[tokio::test]
async fn key_that_another_document_has_by_now_is_found_there() {
    let client = connect(options()).await;
    let coll = keyed(&client, 3).await;
    for round in 0..2 {
        let mut first = begun(&client);
        add(&coll, &mut first, 1, 1).await.unwrap();
        // Wanted in vain, by an application that does not wait.
        let error = add(&coll, &mut begun(&client), 1, 1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        first.commit().await.unwrap();
        // The other document gets the key.
        let (was, is) = if round == 0 { (10, 20) } else { (20, 10) };
        coll.update_one(doc! {"_id": was}, doc! {"$set": {"k": 100 + was}}).await.unwrap();
        coll.update_one(doc! {"_id": is}, doc! {"$set": {"k": 1}}).await.unwrap();
        let mut second = begun(&client);
        assert_eq!(add(&coll, &mut second, 1, 100).await.unwrap(), 1);
        let removed = coll.find_one_and_delete(doc! {"k": 100 + was}).session(&mut second).await.unwrap();
        assert_eq!(removed.unwrap().get_i32("_id").unwrap(), was);
        second.rollback().await.unwrap();
    }
    assert_eq!(n_of(&coll, 1).await, 2);
}

/// The command has locked a document, and its answer, which names the document, is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_answer_that_was_lost_had_locked_is_free_again_when_the_transaction_has_ended() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let client = Client::connect_with(&proxy.uri(), options()).await.unwrap();
    let coll = keyed(&client, 3).await;
    for (is_known, removes) in [(false, false), (false, true), (true, false), (true, true)] {
        if is_known {
            assert_eq!(n_of(&coll, 2).await, 1);
        }
        for ends_by_itself in [false, true] {
            let name = format!("known: {is_known}, removes: {removes}, ends by itself: {ends_by_itself}");
            let mut session = begun(&client);
            add(&coll, &mut session, 1, 1).await.unwrap();
            proxy.hold_after(0);
            {
                let work = async {
                    match removes {
                        true => coll.delete_one(doc! {"k": 2}).session(&mut session).await.map(drop),
                        false => add(&coll, &mut session, 2, 1).await.map(drop),
                    }
                };
                tokio::pin!(work);
                let held = tokio::select! {
                    held = proxy.until_held() => held,
                    _ = &mut work => panic!("{name}: nothing was held"),
                };
                assert_eq!(held, "findAndModify", "{name}");
                proxy.deliver().await;
                // Dropped with the answer on its way.
            }
            assert!(!is_clean(&stored(&coll).await[1..2]), "{name}: it has locked nothing");
            match ends_by_itself {
                true => drop(session),
                false => assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Expired, "{name}"),
            }
            until_clean(&client, &coll, &name).await;
            let left = [1, 2, 3].map(|k| doc! {"_id": 10 * k, "k": k, "n": 1});
            assert_eq!(stored(&coll).await, left, "{name}");
        }
    }
}

/// Only the server's own tools look at the collection.
async fn until_clean(client: &Client, coll: &Collection<Document>, name: &str) {
    let deadline = std::time::Instant::now() + LONG;
    loop {
        assert!(client.flush(LONG).await, "{name}: not finished");
        let stored = stored(coll).await;
        if is_clean(&stored) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{name}: {stored:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// At a level that is validated, the commit checks that it was the first.
#[tokio::test]
async fn the_first_in_an_order_is_taken_by_one_command_and_was_the_first() {
    let client = connect(ClientOptions { isolation: Isolation::Snapshot, ..options() }).await;
    let coll = keyed(&client, 5).await;
    let other = connect(options()).await;
    let theirs = through(&other, &coll);
    let take = async |session: &mut Session| {
        let oldest = coll.find_one_and_delete(doc! {"n": 1}).sort(doc! {"k": 1}).session(session).await?;
        mongotx::Result::Ok(oldest.map(|oldest| oldest.get_i32("k").unwrap()))
    };
    let mut session = begun(&client);
    for k in [1, 2] {
        let oldest = async { assert_eq!(take(&mut session).await.unwrap(), Some(k)) };
        assert_eq!(commands_of(&client, oldest).await, one_find_and_modify(), "{k}");
    }
    session.commit().await.unwrap();
    // The first is held: it is not passed over for the next one.
    let mut rival = begun(&other);
    theirs.update_one(doc! {"_id": 30}, doc! {"$set": {"x": 1}}).session(&mut rival).await.unwrap();
    let held: mongotx::Result<Option<i32>> = take(&mut begun(&client)).await;
    assert_eq!(held.unwrap_err().kind(), ErrorKind::Conflict);
    rival.commit().await.unwrap();
    assert!(other.flush(LONG).await);
    // A caller that is ready to wait gets it when it is free, from a transaction of the same
    // client, too.
    let mut first = begun(&client);
    coll.update_one(doc! {"_id": 30}, doc! {"$set": {"x": 2}}).session(&mut first).await.unwrap();
    let mut patient = client.session();
    patient.begin_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() }).unwrap();
    let (taken, ()) = tokio::join!(take(&mut patient), async { first.commit().await.unwrap() });
    assert_eq!(taken.unwrap(), Some(3));
    patient.rollback().await.unwrap();
    assert!(client.flush(LONG).await);
    // One that came meanwhile.
    let mut session = begun(&client);
    assert_eq!(take(&mut session).await.unwrap(), Some(3));
    theirs.insert_one(&doc! {"_id": 1, "k": 0, "n": 1}).await.unwrap();
    assert_eq!(session.commit().await.unwrap_err().kind(), ErrorKind::Conflict);
    assert!(client.flush(LONG).await && other.flush(LONG).await);
    let left: Vec<i32> = stored(&coll).await.iter().map(|document| document.get_i32("k").unwrap()).collect();
    assert_eq!(left, [0, 3, 4, 5]);
    // A document that the same client has committed a moment ago, and not finished, has its place.
    let mut session = begun(&client);
    coll.insert_one(&doc! {"_id": 2, "k": -1, "n": 1}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    session.begin().unwrap();
    assert_eq!(take(&mut session).await.unwrap(), Some(-1));
    session.commit().await.unwrap();
}

/// Another client had the first one, and removed it: the next ones are taken by one command each
/// again.
#[tokio::test]
async fn who_has_waited_for_a_first_one_in_vain_takes_the_next_ones_by_one_command() {
    let client = connect(ClientOptions { isolation: Isolation::Snapshot, ..options() }).await;
    let coll = keyed(&client, 3).await;
    let other = connect(options()).await;
    let theirs = through(&other, &coll);
    let take = async |coll: &Collection<Document>, session: &mut Session| {
        let oldest = coll.find_one_and_delete(doc! {"n": 1}).sort(doc! {"k": 1}).session(session).await;
        oldest.unwrap().map(|oldest| oldest.get_i32("k").unwrap())
    };
    let mut rival = begun(&other);
    assert_eq!(take(&theirs, &mut rival).await, Some(1));
    let mut patient = client.session();
    patient.begin_with(TransactionOptions { lock_wait: LONG, ..TransactionOptions::default() }).unwrap();
    let waits = client.metrics().waits;
    let ending = async {
        quiet::until_waiting(&client, waits + 1).await;
        rival.commit().await.unwrap();
    };
    let (taken, ()) = tokio::join!(take(&coll, &mut patient), ending);
    assert_eq!(taken, Some(2));
    let next = async { assert_eq!(take(&coll, &mut patient).await, Some(3)) };
    assert_eq!(commands_of(&client, next).await, one_find_and_modify());
    patient.commit().await.unwrap();
    assert!(client.flush(LONG).await && other.flush(LONG).await);
    assert_eq!(stored(&coll).await, Vec::<Document>::new());
}

/// The transaction has lost what it had written, and others have written since: none of that is
/// taken for its own.
#[tokio::test]
async fn an_aborted_transaction_is_reported_by_a_statement_by_key() {
    let (client, other) = (connect(options()).await, connect(options()).await);
    let coll = keyed(&client, 4).await;
    let theirs = through(&other, &coll);
    let by_key = async |session: &mut Session, k: i32, reads: bool| match reads {
        true => coll.find_one(doc! {"k": k}).session(session).await.map(drop),
        false => add(&coll, session, k, 1).await.map(drop),
    };
    for (at, reads) in [(0, false), (1, true)] {
        // One has a document of its own in place of the rival's, one has changed the document
        // itself.
        let (mut inserted, mut changed) = (begun(&client), begun(&client));
        let k = 50 + at;
        coll.insert_one(&doc! {"_id": 1_000 + at, "k": k, "n": 1}).session(&mut inserted).await.unwrap();
        assert_eq!(add(&coll, &mut changed, 1 + at, 5).await.unwrap(), 1);
        for session in [&inserted, &changed] {
            other.abort(session.id().unwrap()).await.unwrap();
        }
        theirs.insert_one(&doc! {"_id": 2_000 + at, "k": k, "n": 9}).await.unwrap();
        theirs.update_one(doc! {"k": 1 + at}, doc! {"$set": {"n": 9}}).await.unwrap();
        for (session, k) in [(&mut inserted, k), (&mut changed, 1 + at)] {
            let refused = by_key(session, k, reads).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Expired, "{k}, reads: {reads}: {refused}");
        }
    }
}
