//! A primary that is stopped (SIGSTOP) before a decision. Another one is elected meanwhile, and
//! then the old one goes on where it stood: with a message in its hands, taking itself for the
//! primary until it hears of the other.

use std::time::Duration;

use bson::{Document, doc};
use local_mongod::Server;
use mongotx::{Client, ErrorKind, Outcome, Result, Step, TxId};

use super::{set, until_steps_down};
use crate::common::{LIMIT, hooks::Gate, until, world::World};

/// Long enough that no lease ends in these tests.
const LEASE_MS: u64 = 120_000;

/// Time that the old primary stands still after the other one was elected.
#[derive(Clone, Copy, PartialEq)]
enum Still {
    /// The old primary stands still for half a second.
    Shortly,
    /// The old primary stands still until another client has committed. (The third member notices
    /// only after some ten seconds that it has to follow another primary.)
    WhileOthersCommit,
}

/// Another client commits a change of the third document.
async fn set_third(world: &World, client: &Client) -> Result<()> {
    let mut session = client.session();
    session.begin()?;
    let third = world.collection(client, "a");
    third.update_one(doc! {"_id": 3}, doc! {"$set": {"n": 1}}).session(&mut session).await?;
    session.commit().await
}

/// Adds one to both documents.
async fn add_to_both(world: World, client: Client) -> (Option<TxId>, Result<()>) {
    let coll = world.collection(&client, "a");
    let mut session = client.session();
    session.begin().unwrap();
    let mut tx = None;
    for id in [1, 2] {
        let done = coll.update_one(doc! {"_id": id}, doc! {"$inc": {"n": 1}}).session(&mut session).await;
        tx = session.id().or(tx);
        if let Err(error) = done {
            return (tx, Err(error));
        }
    }
    (tx, session.commit().await)
}

/// The three documents as another client sees them.
async fn seen(world: &World, client: &Client) -> Vec<i32> {
    let all = until("the documents", async || {
        let found = world.collection(client, "a").find(doc! {}).sort(doc! {"_id": 1}).await.ok()?;
        found.try_collect().await.ok()
    });
    all.await.iter().map(|found: &Document| found.get_i32("n").unwrap()).collect()
}

/// The primary stands still when everything is written but the decision; the transaction goes on at
/// once.
async fn stopped(still: Still) {
    let set = set().await;
    let world = World::new(&set.uri(), "stopped");
    let raw = world.raw().await.database(&world.db).collection::<Document>("a");
    raw.insert_many([1, 2, 3].map(|id| doc! {"_id": id, "n": 0})).await.unwrap();
    let (gate, hook) = Gate::at(Step::BeforeDecision, 1, false);
    let client = world.client_with(LEASE_MS, hook).await;
    let commit = tokio::spawn(add_to_both(world.clone(), client));
    gate.reached().await;
    let old = set.primary().await.unwrap();
    old.pause().unwrap();
    gate.open();
    let others: Vec<&Server> = set.members().iter().filter(|member| member.port() != old.port()).collect();
    set.elect(&others).await.unwrap();
    let rival = world.client(1_000).await;
    match still {
        Still::Shortly => tokio::time::sleep(Duration::from_millis(500)).await,
        Still::WhileOthersCommit => until("others to commit", async || set_third(&world, &rival).await.ok()).await,
    }
    old.resume().unwrap();
    let (id, answer) = tokio::time::timeout(LIMIT, commit).await.expect("the transaction ends").unwrap();
    until_steps_down(old).await;
    set.heal().await;
    let outcome = until("a outcome", async || rival.abort(id.unwrap()).await.ok()).await;
    match &answer {
        Ok(()) => assert_eq!(outcome, Outcome::Committed, "P9: acknowledged"),
        Err(error) if error.kind() == ErrorKind::Indeterminate => {}
        Err(error) => assert_ne!(outcome, Outcome::Committed, "P9: refused: {error}"),
    }
    let (n, third) = (i32::from(outcome == Outcome::Committed), i32::from(still == Still::WhileOthersCommit));
    assert_eq!(seen(&world, &rival).await, [n, n, third], "P1, P3: answer {answer:?}, and it is {outcome:?}");
    // P10: no lock is in any client's way.
    let all = world.collection(&rival, "a");
    let added = until("the locks to go", async || all.update_many(doc! {}, doc! {"$inc": {"n": 1}}).await.ok()).await;
    assert_eq!(added.matched_count, 3);
    world.drop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primary_that_stands_still_before_the_decision_loses_nothing() {
    stopped(Still::Shortly).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn primary_that_stands_still_before_the_decision_while_others_commit_loses_nothing() {
    stopped(Still::WhileOthersCommit).await;
}
