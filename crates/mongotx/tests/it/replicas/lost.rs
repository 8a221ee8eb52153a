//! Writes that only the old primary has are gone after the failover: none of them may have been
//! acknowledged, and no acknowledged write may rest on them.

use std::sync::Arc;

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongotx::{Client, Collection, Concern, ErrorKind, Outcome, Session, Step, StepHook, TransactionOptions};

use local_mongod::Server;

use super::{Turn, alone, set, until_has};
use crate::common::{LIMIT, hooks::Gate, until, world::World};

/// Long enough that no lease ends in these tests.
const LEASE_MS: u64 = 120_000;
/// Limit of turns from A to B and back, until the connections to A outlast one.
const TIMES_A_TO_B_TO_A: usize = 4;

/// `{_id: 1, n: 0}` and `{_id: 2, n: 0}`, on all members.
async fn two_documents(world: &World, client: &Client) -> Collection<Document> {
    let coll = world.collection(client, "a");
    coll.insert_many(&[doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}]).await.unwrap();
    // From now on only the tests decide which members have a write.
    assert!(client.flush(LIMIT).await);
    coll
}

/// Both documents as another client sees them.
async fn seen(world: &World) -> Vec<i32> {
    let client = world.client(1_000).await;
    let mut seen = Vec::new();
    for id in [1, 2] {
        let found = until("a document", async || {
            world.collection(&client, "a").find_one(doc! {"_id": id}).await.ok().flatten()
        });
        seen.push(found.await.get_i32("n").unwrap());
    }
    seen
}

/// The lock of this document is not among what `next` has, which is primary now.
async fn is_lost(next: &Server, world: &World, id: i32) {
    let there = alone(next).await.database(&world.db).collection::<Document>("a");
    let locked = there.find_one(doc! {"_id": id, "_xTxId": {"$exists": true}}).await.unwrap();
    assert_eq!(locked, None, "what only the old primary had is gone");
}

/// Runs both hooks at every step.
struct Both(Arc<dyn StepHook>, Arc<dyn StepHook>);

impl StepHook for Both {
    fn at(&self, step: Step) -> BoxFuture<'static, ()> {
        let (one, other) = (self.0.at(step), self.1.at(step));
        Box::pin(async move {
            one.await;
            other.await;
        })
    }
}

/// The decision reaches the primary alone, which steps down before any other member has it. The
/// owner finishes nothing, as if it had died: what counts is the result that it got, and what a
/// rival finds.
async fn decision_that_is_lost(concern: Concern) {
    let set = set().await;
    let world = World::new(&set.uri(), "lost_decision");
    // The first decision is that of the inserts.
    let (gate, hook) = Gate::at(Step::BeforeDecision, 2, false);
    let (_dead, finishes) = Gate::at(Step::BeforeFinish, 2, true);
    let client = world.client_with(LEASE_MS, Arc::new(Both(hook, finishes))).await;
    let coll = two_documents(&world, &client).await;
    let mut session = client.session_with(TransactionOptions { concern, ..TransactionOptions::default() });
    session.begin().unwrap();
    for id in [1, 2] {
        coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    }
    let id = session.id().unwrap();
    let commit = tokio::spawn(async move { session.commit().await });
    gate.reached().await;
    let (old, next) = set.roles().await;
    set.stop_replication(next).await.unwrap();
    gate.open();
    until_has(old, &world.tx_db(), "txs", doc! {"committed": id.seq as i64}).await;
    set.fail_over_to(next).await.unwrap();
    set.heal().await;
    // The owner reads from the new primary, and may send it the decision again.
    let answer = commit.await.unwrap();
    let other = world.client(1_000).await;
    let outcome = until("a outcome", async || other.abort(id).await.ok()).await;
    assert_eq!(
        answer.is_ok(),
        outcome == Outcome::Committed,
        "{concern:?}: P9: answer {answer:?}, and it is {outcome:?}"
    );
    let expected = if outcome == Outcome::Committed { [1, 1] } else { [0, 0] };
    assert_eq!(seen(&world).await, expected, "{concern:?}: P1, P3: answer {answer:?}");
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decision_of_the_old_primary_alone_is_not_acknowledged() {
    decision_that_is_lost(Concern::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_is_one_that_was_to_wait_for_the_majority() {
    decision_that_is_lost(Concern::Majority).await;
}

/// A has to take the second write back, and closes all its connections for that, which would be
/// noticed. The client has had an error before, that the write may be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primary_a_then_b_then_a_again_is_no_half_commit() {
    let set = set().await;
    let world = World::new(&set.uri(), "aba");
    let client = world.client(LEASE_MS).await;
    let coll = two_documents(&world, &client).await;
    let (old, next) = set.roles().await;
    let mut session = client.session();
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    set.stop_replication(next).await.unwrap();
    let (world_of_it, inner) = (world.clone(), coll.clone());
    let second = tokio::spawn(async move {
        let done = inner.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 1}}).session(&mut session).await;
        (done, session)
    });
    until_has(old, &world_of_it.db, "a", doc! {"_id": 2, "_xTxId": {"$exists": true}}).await;
    set.fail_over_to(next).await.unwrap();
    is_lost(next, &world, 2).await;
    let (done, mut session) = second.await.unwrap();
    set.heal().await;
    // Otherwise A could be elected as it was, with the write, and B's first one would be taken back
    // instead.
    set.until_all_follow(&world).await;
    set.fail_over_to(old).await.unwrap();
    set.heal().await;
    let committed = session.commit().await;
    assert_eq!(seen(&world).await, [0, 0], "P1; the second write: {done:?}; the commit: {committed:?}");
    assert!(done.is_err(), "the prepared write was lost");
    assert!(done.unwrap_err().contains_label("TransientTransactionError"));
    assert!(committed.is_err());
    world.drop().await;
}

/// Here the second write is lost with B. A never receives it: it has nothing to take back, so it
/// closes no connection, and the record is written over the one from before. Nothing there shows
/// that B was primary in between. The commit of another transaction, whose one write was kept,
/// proves that it was: the lost write itself must not be taken for done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primary_a_then_b_then_a_again_over_the_same_connections_is_no_half_commit() {
    let set = set().await;
    for _ in 0..TIMES_A_TO_B_TO_A {
        let world = World::new(&set.uri(), "aba_same");
        let same_connections = a_to_b_to_a(&set, &world).await;
        world.drop().await;
        if same_connections {
            return;
        }
    }
    panic!("the connection to A was made anew each time, so nothing was tried");
}

/// Returns true if the record was written over the connection from before.
///
/// 1. A: two transactions write a document each, which all members have.
/// 2. B, which no other member follows: the first transaction writes another document. Its client
///    is held before it hears of that.
/// 3. A: it goes on, and both commit.
async fn a_to_b_to_a(set: &Turn, world: &World) -> bool {
    // The third lock is answered, or not, before A is primary again, and the client hears of it
    // afterwards.
    let (answered, hook) = Gate::at(Step::AfterLock, 3, false);
    let client = world.client_with(LEASE_MS, hook).await;
    let coll = world.collection(&client, "a");
    let raw = world.raw().await.database(&world.db);
    raw.collection("a").insert_many([1, 2, 3].map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
    let (a, b) = set.roles().await;
    let (mut session, mut other) = (client.session(), client.session());
    session.begin().unwrap();
    other.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 1}}).session(&mut session).await.unwrap();
    coll.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 1}}).session(&mut other).await.unwrap();
    set.until_all_follow(world).await;
    set.fail_over_to(b).await.unwrap();
    set.heal().await;
    set.stop_replication(a).await.unwrap();
    until("a read at B", async || coll.find_one(doc! {"_id": 2}).await.ok()).await;
    let inner = coll.clone();
    let second = tokio::spawn(async move {
        let done = inner.update_one(doc! {"_id": 2}, doc! {"$set": {"n": 1}}).session(&mut session).await;
        (done, session)
    });
    until_has(b, &world.db, "a", doc! {"_id": 2, "_xTxId": {"$exists": true}}).await;
    set.fail_over_to(a).await.unwrap();
    is_lost(a, world, 2).await;
    answered.open();
    let (done, mut session) = second.await.unwrap();
    set.heal().await;
    until("a read at A", async || coll.find_one(doc! {"_id": 2}).await.ok()).await;
    let committed = session.commit().await;
    assert_eq!(seen(world).await, [0, 0], "P1; the second write: {done:?}; the commit: {committed:?}");
    assert!(done.unwrap_err().contains_label("TransientTransactionError"), "the prepared write was lost");
    assert!(committed.is_err());
    other.commit().await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_write_of_the_old_primary_alone_is_reported_as_what_it_is() {
    let set = set().await;
    let world = World::new(&set.uri(), "lost_write");
    let client = world.client(LEASE_MS).await;
    let coll = two_documents(&world, &client).await;
    // The notice of plain writes, which the first one waits for, needs the majority, too.
    coll.update_one(doc! {"_id": 1}, doc! {"$set": {"n": 0}}).await.unwrap();
    let (old, next) = set.roles().await;
    set.stop_replication(next).await.unwrap();
    let inner = coll.clone();
    let write = tokio::spawn(async move { inner.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await });
    until_has(old, &world.db, "a", doc! {"_id": 1, "n": 1}).await;
    set.fail_over_to(next).await.unwrap();
    let error = write.await.unwrap().unwrap_err();
    set.heal().await;
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(error.progress().unwrap().modified, 1, "{error}");
    let answer = error.unreplicated_answer().unwrap();
    assert_eq!(answer.answer.get_i32("nModified").unwrap(), 1);
    assert!(answer.concern_error.get_i32("code").is_ok(), "{}", answer.concern_error);
    assert_eq!(seen(&world).await, [0, 0], "it was lost");
    world.drop().await;
}

async fn add(session: &mut Session, coll: Collection<Document>) -> mongotx::Result<()> {
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(session).await.map(drop)
}

/// The error of a transaction that is committed by one of these calls, where how many members have
/// it cannot be found out.
async fn cannot_be_followed(name: &str, retries: bool) {
    let set = set().await;
    let world = World::new(&set.uri(), name);
    let (decided, hook) = Gate::at(Step::AfterDecision, 2, false);
    let client = world.client_with(LEASE_MS, hook).await;
    let coll = two_documents(&world, &client).await;
    let mut session = client.session_with(TransactionOptions { concern: Concern::Nodes(3), ..Default::default() });
    let commit = tokio::spawn(async move {
        if retries {
            return session.run_transaction(coll, |session, coll| Box::pin(add(session, coll.clone()))).await;
        }
        session.begin().unwrap();
        add(&mut session, coll).await.unwrap();
        session.commit().await
    });
    decided.reached().await;
    let (primary, _) = set.roles().await;
    let admin = alone(primary).await.database("admin");
    let fail = |mode: &str, data: Document| doc! {"configureFailPoint": "failCommand", "mode": mode, "data": data};
    // What a primary says that has stepped down.
    let stepped_down =
        doc! {"failCommands": ["update"], "namespace": format!("{}.txs", world.tx_db()), "errorCode": 10_107};
    admin.run_command(fail("alwaysOn", stepped_down)).await.unwrap();
    decided.open();
    let committed = tokio::time::timeout(LIMIT, commit).await.unwrap().unwrap();
    admin.run_command(fail("off", doc! {})).await.unwrap();
    let error = committed.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert!(!error.contains_label("TransientTransactionError"), "{error}");
    assert!(error.message().contains("is committed"), "{error}");
    assert_eq!(client.outcome(error.transaction().unwrap()).await.unwrap(), Outcome::Committed);
    assert_eq!(seen(&world).await, [1, 0]);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_that_cannot_be_followed_to_more_members_is_not_made_again() {
    cannot_be_followed("members_unknown", false).await;
}

/// The record says that it is committed, which is not what the concern demands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_retries_says_that_a_commit_cannot_be_followed_to_more_members() {
    cannot_be_followed("members_unknown_again", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_members_than_the_majority_are_waited_for() {
    let set = set().await;
    let world = World::new(&set.uri(), "all_members");
    let client = world.client(LEASE_MS).await;
    let coll = two_documents(&world, &client).await;
    let mut session = client.session_with(TransactionOptions { concern: Concern::Nodes(3), ..Default::default() });
    session.begin().unwrap();
    coll.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).session(&mut session).await.unwrap();
    session.commit().await.unwrap();
    for member in set.members() {
        let record = super::alone(member).await.database(&world.tx_db()).collection::<Document>("txs");
        let decided = doc! {"$or": [{"committed": {"$ne": []}}, {"low": {"$gt": 1}}]};
        assert!(record.find_one(decided).await.is_ok_and(|found| found.is_some()), "every member has the decision");
    }
    let missed = client.await_write_concern(doc! {"w": 4, "wtimeout": 1_000}).await.unwrap().unwrap();
    assert_eq!(missed.get_i32("code").unwrap(), 100, "{missed}");
    world.drop().await;
}
