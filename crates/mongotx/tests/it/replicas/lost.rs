//! What only the old primary has is gone after the failover: nothing of it may have been acknowledged, and nothing that was
//! acknowledged may rest on it.

use std::sync::Arc;

use bson::{Document, doc};
use futures_util::future::BoxFuture;
use mongotx::{Client, Collection, Concern, ErrorKind, Fate, Step, StepHook, TransactionOptions};

use super::{set, until_has};
use crate::common::{hooks::Gate, until, world::World};

/// Long enough that no lease ends in these tests.
const LEASE_MS: u64 = 120_000;

/// `{_id: 1, n: 0}` and `{_id: 2, n: 0}`, on all members.
async fn two_documents(world: &World, client: &Client) -> Collection<Document> {
    let coll = world.collection(client, "a");
    coll.insert_many(&[doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}]).await.unwrap();
    coll
}

/// What another client sees of both.
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

/// Both at every step.
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

/// The decision reaches the primary alone, which steps down before anybody has it. The owner finishes nothing, as if it had
/// died: what it was told counts, and what a rival finds.
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
    // The owner asks the new primary, and may send it the decision again.
    let told = commit.await.unwrap();
    let other = world.client(1_000).await;
    let fate = until("a fate", async || other.kill(id).await.ok()).await;
    assert_eq!(told.is_ok(), fate == Fate::Committed, "{concern:?}: P9: told {told:?}, and it is {fate:?}");
    let expected = if fate == Fate::Committed { [1, 1] } else { [0, 0] };
    assert_eq!(seen(&world).await, expected, "{concern:?}: P1, P3: told {told:?}");
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
    let (done, mut session) = second.await.unwrap();
    set.heal().await;
    set.fail_over_to(old).await.unwrap();
    set.heal().await;
    let committed = session.commit().await;
    assert_eq!(seen(&world).await, [0, 0], "P1; the second write: {done:?}; the commit: {committed:?}");
    assert!(done.is_err(), "the prepared write was lost");
    assert!(done.unwrap_err().contains_label("TransientTransactionError"));
    assert!(committed.is_err());
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_write_of_the_old_primary_alone_is_told_as_what_it_is() {
    let set = set().await;
    let world = World::new(&set.uri(), "lost_write");
    let client = world.client(LEASE_MS).await;
    let coll = two_documents(&world, &client).await;
    let (old, next) = set.roles().await;
    set.stop_replication(next).await.unwrap();
    let inner = coll.clone();
    let write = tokio::spawn(async move { inner.update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}}).await });
    until_has(old, &world.db, "a", doc! {"_id": 1, "n": 1}).await;
    set.fail_over_to(next).await.unwrap();
    let told = write.await.unwrap().unwrap_err();
    set.heal().await;
    assert_eq!(told.kind(), ErrorKind::Indeterminate, "{told}");
    assert_eq!(told.progress().unwrap().modified, 1, "{told}");
    let answer = told.unreplicated_answer().unwrap();
    assert_eq!(answer.answer.get_i32("nModified").unwrap(), 1);
    assert!(answer.concern_error.get_i32("code").is_ok(), "{}", answer.concern_error);
    assert_eq!(seen(&world).await, [0, 0], "it was lost");
    world.drop().await;
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
