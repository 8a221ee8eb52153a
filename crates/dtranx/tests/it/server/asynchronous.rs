//! Tests of the asynchronous client: many transactions on one thread without a runtime, dropped
//! futures, and limits.

use std::future::Future;
use std::net::TcpListener;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dtranx::client::{AsyncClient, Client, ClientOptions, Error, MAX_WAITING, Result};
use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::{KeyRange, LimitError, ServerId};
use dtranx::server::{Embedded, Server};
use futures_timer::Delay;
use futures_util::future::{Either, join_all, select};

use crate::limit::Limit;
use crate::server::{cluster, config, free_address};

/// Longest wait for any future.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a future, up to [`PATIENCE`]. `what` names the missing result in the panic.
fn wait_for<F: Future>(what: &str, future: F) -> F::Output {
    match pollster::block_on(select(pin!(future), Delay::new(PATIENCE))) {
        Either::Left((output, _)) => output,
        Either::Right(_) => panic!("still no {what} after {PATIENCE:?}"),
    }
}

/// Polls a future once, without a waker, and drops it. Returns whether it was ready.
fn poll_once<F: Future>(future: F) -> bool {
    pin!(future).as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn number(value: Option<Bytes>) -> u32 {
    value.map_or(0, |value| u32::from_be_bytes(*value.first_chunk().unwrap()))
}

/// Adds one to the counters at two keys, in one transaction.
async fn count(client: &AsyncClient, left: u32, right: u32) -> Result<()> {
    client
        .transact(async move |tranx| {
            let found = tranx.multi_get([left.to_be_bytes().to_vec(), right.to_be_bytes().to_vec()]).await?;
            for (key, value) in [left, right].into_iter().zip(found) {
                tranx.put(key.to_be_bytes().to_vec(), (number(value) + 1).to_be_bytes().to_vec())?;
            }
            Ok(())
        })
        .await
}

/// A cluster of one server that does not run.
fn no_server() -> Cluster {
    Cluster::hashed("test", vec![Member { id: ServerId(1), address: free_address() }])
}

#[test]
fn many_from_one_thread_on_three_servers_all_count_once() {
    let _limit = Limit::of(120, "answer of the servers");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(3);
    let servers: Vec<_> = (1..=3).map(|id| Server::start(&config(&cluster, id, folder.path())).unwrap()).collect();
    let addresses: Vec<_> = cluster.servers.iter().map(|server| server.address).collect();
    let options = ClientOptions { attempts: 10_000, request_ms: 20_000, ..ClientOptions::default() };
    wait_for("answer to all 200 transactions", async {
        let client = AsyncClient::connect(&addresses, options).await.unwrap();
        // Neighbouring transactions share a counter, so that some are refused and tried again.
        let all = (0..200_u32).map(|at| count(&client, at, at + 1));
        join_all(all).await.into_iter().for_each(|done| done.unwrap());
        let found = client.scan(&KeyRange::all(), 500).await.unwrap();
        let counted: Vec<u32> = found.items.into_iter().map(|(_, value)| number(Some(value))).collect();
        assert_eq!(counted.len(), 201);
        assert_eq!((counted[0], counted[200]), (1, 1));
        assert!(counted[1..200].iter().all(|count| *count == 2), "{counted:?}");
    });
    drop(servers);
}

#[test]
fn dropped_commit_is_done_once_or_not_at_all() {
    let _limit = Limit::of(120, "answer of the server");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let _server = Server::start(&config(&cluster, 1, folder.path())).unwrap();
    let watcher = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
    let client = watcher.asynchronous();
    watcher.put("ready", "").unwrap();

    let mut tranx = client.begin();
    tranx.put("never", "polled").unwrap();
    drop(tranx.commit());
    let mut tranx = client.begin();
    tranx.put("once", "polled").unwrap();
    // The commit is sent now, and may even be answered on a slow machine.
    poll_once(tranx.commit());

    let until = Instant::now() + PATIENCE;
    while watcher.get("once").unwrap().is_none() {
        assert!(Instant::now() < until, "what was sent is not carried out");
    }
    assert_eq!(watcher.get("never").unwrap(), None);
    let committed = watcher.status(ServerId(1)).unwrap().committed;
    watcher.put("last", "x").unwrap();
    assert_eq!(watcher.status(ServerId(1)).unwrap().committed, committed + 1, "nothing more came of it");
}

#[test]
fn dropped_reads_leave_a_transaction_as_it_was() {
    let _limit = Limit::of(120, "answer of the engine");
    let store = Embedded::in_memory().unwrap();
    let client = store.client(ClientOptions::default());
    client.put("a", "1").unwrap();
    let mut tranx = client.asynchronous().begin();
    for _ in 0..100 {
        poll_once(tranx.get("a"));
        poll_once(tranx.scan(KeyRange::all(), 10));
    }
    client.put("a", "2").unwrap();
    // Dropped reads that were answered at once are part of the transaction and stale by now. The
    // other dropped reads were never made.
    let read = wait_for("answer to a read", tranx.get("a")).unwrap().unwrap();
    tranx.put("b", "x").unwrap();
    match wait_for("answer to a commit", tranx.commit()) {
        Ok(_) => assert_eq!(read, "2"),
        Err(Error::Refused(_)) => assert_eq!(client.get("b").unwrap(), None),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn futures_may_move_between_threads() {
    let _limit = Limit::of(120, "answer of the engine");
    fn may_move<F: Future + Send>(future: F) -> F {
        future
    }
    let store = Embedded::in_memory().unwrap();
    let client = store.client(ClientOptions::default()).asynchronous();
    let all = may_move(async move {
        count(&client, 1, 2).await.unwrap();
        client.put("a", "1").await.unwrap();
        client.get("a").await.unwrap();
        client.delete("a").await.unwrap();
        client.scan(&KeyRange::all(), 1).await.unwrap();
        let (mut first, second) = (client.begin(), client.begin());
        assert_eq!(number(first.get(1_u32.to_be_bytes().to_vec()).await.unwrap()), 1);
        first.commit().await.unwrap();
        second.abort();
    });
    wait_for("answer to one of the requests", all);
}

#[test]
fn silent_server_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = Member { id: ServerId(1), address: listener.local_addr().unwrap() };
    let options = ClientOptions { request_ms: 300, ..ClientOptions::default() };
    let client = AsyncClient::of_cluster(Cluster::hashed("test", vec![member]), options).unwrap();
    let refused = wait_for("end of the request's time", client.get("a")).unwrap_err();
    assert!(matches!(refused, Error::Unavailable { server: ServerId(1), .. }), "{refused}");
}

#[test]
fn requests_beyond_the_limit_are_refused() {
    let options = ClientOptions { request_ms: 600_000, ..ClientOptions::default() };
    let client = AsyncClient::of_cluster(no_server(), options).unwrap();
    let mut waiting: Vec<_> = (0..MAX_WAITING).map(|_| Box::pin(client.get("a"))).collect();
    for one in &mut waiting {
        assert!(!poll_once(one.as_mut()));
    }
    let refused = wait_for("refusal by the limit", client.get("a")).unwrap_err().to_string();
    assert!(refused.contains("65536 requests are under way already"), "{refused}");
}

#[test]
fn limits_are_refused_by_name() {
    let _limit = Limit::of(120, "refusal by a limit");
    let store = Embedded::in_memory().unwrap();
    let client = store.client(ClientOptions::default()).asynchronous();
    let mut tranx = client.begin();
    assert!(matches!(
        wait_for("refusal", tranx.get(vec![0; 5000])),
        Err(Error::Limit(LimitError::KeyTooLong { bytes: 5000 }))
    ));
    for limit in [0, 1000] {
        let refused = wait_for("refusal", tranx.scan(KeyRange::all(), limit));
        assert!(matches!(refused, Err(Error::Limit(LimitError::TooManyItems { .. }))), "limit {limit}");
    }
    assert!(wait_for("commit", tranx.commit()).unwrap().tranx.is_none(), "nothing was read or written");
}

#[test]
fn store_that_has_ended_says_so() {
    let _limit = Limit::of(120, "refusal by a store that has ended");
    let store = Embedded::in_memory().unwrap();
    let client = store.client(ClientOptions::default());
    client.put("a", "1").unwrap();
    drop(store);
    let refused = client.get("a").unwrap_err().to_string();
    assert!(refused.contains("the engine has ended"), "{refused}");
}
