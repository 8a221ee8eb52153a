//! Whole transactions: one alone, one that only reads, many at a time.

use std::{collections::BTreeMap, sync::Arc};

use bson::doc;
use futures_util::future::join_all;
use mongotx::{ClientOptions, Session, Step};

use super::{LIMIT, cost, increment, warm, warm_up};
use crate::quiet::{self, Both, Gate, commands_of};

#[tokio::test]
async fn transaction_of_k_updates_alone_is_k_and_one_commands_and_one_to_finish() {
    let gate = Gate::before(&[Step::BeforeFinish]);
    let (client, coll) = warm(ClientOptions { hook: Some(gate.clone()), ..quiet::options() }).await;
    for k in [1, 2, 5] {
        gate.shut();
        let mut session = client.session();
        let transaction = async {
            session.begin().unwrap();
            for id in 1..=k {
                increment(&mut session, &coll, id).await;
            }
            session.commit().await.unwrap();
        };
        let before_the_answer = commands_of(&client, transaction).await;
        assert_eq!(before_the_answer, BTreeMap::from([("update".to_owned(), k as u64 + 1)]), "k = {k}");
        let after_it = async {
            gate.open();
            assert!(client.flush(LIMIT).await);
        };
        assert_eq!(cost(&client, after_it).await, 1, "k = {k}");
    }
}

#[tokio::test]
async fn read_only_transaction_at_read_committed_is_its_reads() {
    let (client, coll) = warm(quiet::options()).await;
    let mut session = client.session();
    let transaction = async {
        session.begin().unwrap();
        for id in 1..=3 {
            coll.find_one(doc! {"_id": id}).session(&mut session).await.unwrap();
        }
        session.commit().await.unwrap();
    };
    assert_eq!(commands_of(&client, transaction).await, BTreeMap::from([("find".to_owned(), 3)]));
    assert!(client.flush(LIMIT).await);
}

/// The record's writer is held at its first decision until all transactions have requested their
/// commit.
#[tokio::test]
async fn commits_of_32_at_a_time_share_two_record_writes_and_two_to_finish() {
    let (decision, finish) = (Gate::before(&[Step::BeforeDecision]), Gate::before(&[Step::BeforeFinish]));
    let hook = Arc::new(Both(decision.clone(), finish.clone()));
    let (client, coll) = warm(ClientOptions { hook: Some(hook), ..quiet::options() }).await;
    let mut sessions: Vec<Session> = (0..32).map(|_| client.session()).collect();
    for (at, session) in sessions.iter_mut().enumerate() {
        session.begin().unwrap();
        increment(session, &coll, at as i32 + 1).await;
    }
    decision.shut();
    finish.shut();
    let before = client.metrics();
    let mut commits = Box::pin(join_all(sessions.iter_mut().map(Session::commit)));
    tokio::select! {
        biased;
        _ = &mut commits => panic!("committed without a decision"),
        () = decision.until_held() => {}
    }
    decision.open();
    commits.await.into_iter().for_each(|done| done.unwrap());
    finish.open();
    assert!(client.flush(LIMIT).await);
    let after = client.metrics();
    let record_writes = after.record_writes - before.record_writes;
    let all = after.commands_sent() - before.commands_sent();
    let to_finish = all - record_writes;
    println!("32 commits: {record_writes} record writes, {to_finish} commands to finish");
    assert!(record_writes <= 2, "{record_writes}");
    assert!(to_finish <= 2, "{to_finish}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_of_32_tasks_cost_no_more_than_alone() {
    const TASKS: i32 = 32;
    const EACH: i32 = 10;
    const K: u64 = 2;
    let (client, _) = warm(quiet::options()).await;
    // A document for each update: no statement meets what is not finished yet.
    let coll = quiet::collection(&client, TASKS * EACH * K as i32).await;
    warm_up(&client, &coll).await;
    let before = client.metrics();
    let tasks = (0..TASKS).map(|task| {
        let (client, coll) = (client.clone(), coll.clone());
        tokio::spawn(async move {
            let mut session = client.session();
            for at in 0..EACH {
                session.begin().unwrap();
                let first = 2 * (task * EACH + at) + 1;
                increment(&mut session, &coll, first).await;
                increment(&mut session, &coll, first + 1).await;
                session.commit().await.unwrap();
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
    assert!(client.flush(LIMIT).await);
    let after = client.metrics();
    let transactions = (TASKS * EACH) as u64;
    let record_writes = after.record_writes - before.record_writes;
    let others = after.commands_sent() - before.commands_sent() - record_writes - transactions * K;
    let each = |count: u64| count as f64 / transactions as f64;
    println!("{TASKS} tasks, k = {K}: record writes {:.2}, after the answer {:.2}", each(record_writes), each(others));
    assert!(record_writes <= 2 * transactions, "decisions are shared: {record_writes}");
    assert!(others <= transactions, "finishing is shared: {others}");
}
