//! Promises of a pool about its connections.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use bson::rawdoc;
use mongowire::{Failure, PoolLimits};
use tokio::io::AsyncWriteExt;

use crate::{LIMIT, fake::Fake, limits, pool, settings};

#[tokio::test]
async fn the_connection_used_last_is_used_next() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (pool, begun) = pool(settings(&server.uri()).await, limits(3));
    let (one, two) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let (first, second) = (one.number(), two.number());
    assert_eq!((first, second, begun.load(SeqCst)), (1, 3, 4));
    drop(one);
    drop(two);
    assert_eq!(pool.get().await.unwrap().number(), second);
    assert_eq!(pool.get().await.unwrap().number(), second);
    assert_eq!(begun.load(SeqCst), 4);
}

#[tokio::test]
async fn there_are_no_more_than_the_limit_and_the_error_names_it() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let brief = PoolLimits { most: 2, wait: Duration::from_millis(20), idle: None };
    let (pool, _) = pool(settings(&server.uri()).await, brief);
    let held = (pool.get().await.unwrap(), pool.get().await.unwrap());
    let failure = pool.get().await.err().unwrap();
    assert!(matches!(failure, Failure::Busy { most: 2, .. }) && !failure.is_maybe_done());
    assert!(failure.to_string().contains("all 2 connections"), "{failure}");
    drop(held);
    pool.get().await.unwrap();
}

#[tokio::test]
async fn idle_connections_do_not_pile_up() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let brief = PoolLimits { idle: Some(Duration::from_millis(20)), ..limits(10) };
    let (pool, begun) = pool(settings(&server.uri()).await, brief);
    let many = (pool.get().await.unwrap(), pool.get().await.unwrap(), pool.get().await.unwrap());
    let last = many.2.number();
    drop(many);
    tokio::time::sleep(Duration::from_millis(40)).await;
    // Puts its own back, and lets those go that were not used.
    assert_eq!(pool.get().await.unwrap().number(), last);
    let (_kept, new) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    assert_eq!((new.number(), begun.load(SeqCst)), (7, 8));
}

#[tokio::test]
async fn a_connection_that_says_something_by_itself_is_not_used() {
    for unasked in [&b"x"[..], b""] {
        let (fake, settings) = Fake::new().await;
        let (pool, _) = pool(settings, limits(1));
        let (lent, client) = tokio::join!(pool.get(), fake.greet());
        drop(lent);
        let mut client = client;
        client.stream.write_all(unasked).await.unwrap();
        if unasked.is_empty() {
            client.stream.shutdown().await.unwrap();
        }
        // The bytes are on their way for a moment.
        let (lent, _other) = loop {
            let greeted = async { tokio::time::timeout(Duration::from_millis(20), fake.greet()).await };
            match tokio::join!(pool.get(), greeted) {
                (Ok(lent), Ok(other)) => break (lent, other),
                (lent, _) => drop(lent),
            }
        };
        assert_eq!(lent.number(), 3);
    }
}

#[tokio::test]
async fn connections_from_before_a_clearing_are_not_used_again() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (pool, begun) = pool(settings(&server.uri()).await, limits(2));
    let (lent, idle) = (pool.get().await.unwrap(), pool.get().await.unwrap());
    drop(idle);
    pool.clear();
    drop(lent);
    assert_eq!((pool.get().await.unwrap().number(), begun.load(SeqCst)), (5, 6));
}

#[tokio::test]
async fn a_closed_pool_gives_none() {
    let server = local_mongod::shared_standalone().await.unwrap();
    let (pool, _) = pool(settings(&server.uri()).await, limits(2));
    let mut lent = pool.get().await.unwrap();
    pool.close();
    lent.run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap();
    drop(lent);
    assert!(matches!(pool.get().await, Err(Failure::Closed)));
}

/// A pool that is used in a runtime that ends leaves its connections usable for others.
#[test]
fn connections_outlive_the_runtime_of_whoever_used_them_first() {
    let long = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let server = long.block_on(local_mongod::Server::standalone()).unwrap();
    let (pool, begun) = long.block_on(async { pool(settings(&server.uri()).await, limits(1)) });
    for _ in 0..2 {
        let brief = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        brief.block_on(async {
            pool.get().await.unwrap().run_command(Some("admin"), &rawdoc! {"ping": 1}, &[], LIMIT).await.unwrap();
        });
    }
    assert_eq!(begun.load(SeqCst), 2);
}
