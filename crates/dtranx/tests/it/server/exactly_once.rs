//! Tests of a commit that is lost, or whose answer is: the client sends it again, and the server
//! carries it out once. A server that was restarted meanwhile is asked what became of it.

use std::future::Future;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions, Committed, Error};
use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::{Refusal, ServerId};
use dtranx::server::{Server, ServerConfig};
use tempfile::TempDir;

use crate::limit::Limit;

/// A proxy to the server that can drop all bytes on the way back, or there.
#[derive(Clone, Default)]
struct Way {
    swallows: Arc<AtomicBool>,
    swallows_requests: Arc<AtomicBool>,
    swallowed_bytes: Arc<AtomicUsize>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    fn open(&self, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let way = self.clone();
        // The thread ends with the process.
        thread::spawn(move || {
            for near in listener.incoming() {
                let near = near.unwrap();
                // While the server is down, callers are closed at once.
                let Ok(far) = TcpStream::connect(server) else { continue };
                let (here, there) = (way.clone(), way.clone());
                let ends = (near.try_clone().unwrap(), far.try_clone().unwrap());
                way.streams.lock().unwrap().push(near.try_clone().unwrap());
                thread::spawn(move || here.copy(near, far, false));
                thread::spawn(move || there.copy(ends.1, ends.0, true));
            }
        });
        address
    }

    fn copy(&self, mut from: TcpStream, mut to: TcpStream, is_back: bool) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            let swallows = if is_back { &self.swallows } else { &self.swallows_requests };
            if swallows.load(Ordering::SeqCst) {
                self.swallowed_bytes.fetch_add(read, Ordering::SeqCst);
            } else if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    fn break_all(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// One server behind a way, a client that reaches it through the way, and one that watches it from
/// outside.
struct Place {
    folder: TempDir,
    listen: SocketAddr,
    cluster: Cluster,
    way: Way,
    client: Client,
    watcher: Client,
}

impl Place {
    fn open(request_ms: u64) -> (Self, Server) {
        let (folder, way, listen) = (tempfile::tempdir().unwrap(), Way::default(), crate::server::free_address());
        let members = |address| vec![Member { id: ServerId(1), address }];
        let cluster = Cluster::hashed("test", members(way.open(listen)));
        let direct = Cluster::hashed("test", members(listen));
        let client = |cluster, request_ms| {
            Client::of_cluster(cluster, ClientOptions { request_ms, ..ClientOptions::default() }).unwrap()
        };
        let (client, watcher) = (client(cluster.clone(), request_ms), client(direct, 60_000));
        let place = Self { folder, listen, cluster, way, client, watcher };
        let server = place.start();
        place.watcher.put("a", "1").unwrap();
        (place, server)
    }

    fn start(&self) -> Server {
        let mut config = ServerConfig::new(self.cluster.clone(), ServerId(1), self.folder.path());
        config.listen = Some(self.listen);
        Server::start(&config).unwrap()
    }

    /// Commits `a = 2` after reading `a`. It is carried out, and its answer is lost on the way.
    fn commit_without_answer(&self) -> JoinHandle<Result<Committed, Error>> {
        let mut tranx = self.client.begin();
        tranx.get("a").unwrap();
        tranx.put("a", "2").unwrap();
        self.way.swallows.store(true, Ordering::SeqCst);
        let committing = thread::spawn(move || tranx.commit());
        let begun = Instant::now();
        let is_lost = || self.way.swallowed_bytes.load(Ordering::SeqCst) > 0;
        while self.watcher.status(ServerId(1)).unwrap().committed < 2 || !is_lost() {
            assert!(begun.elapsed() < Duration::from_secs(50), "the commit does not arrive, or is not answered");
            thread::sleep(Duration::from_millis(5));
        }
        committing
    }
}

#[test]
fn lost_answer_is_given_again_and_the_commit_is_done_once() {
    let _limit = Limit::of(120, "answer to the commit");
    let (place, _server) = Place::open(60_000);
    let committing = place.commit_without_answer();
    // The transaction is committed, but the client does not know. A second execution would be
    // refused, because its read is stale by now.
    place.way.swallows.store(false, Ordering::SeqCst);
    place.way.break_all();
    let committed = committing.join().unwrap().unwrap();
    assert_eq!(place.watcher.get("a").unwrap().unwrap(), "2");
    assert!(committed.tranx.is_some());
}

#[test]
fn commit_that_is_asked_about_while_its_server_is_down_is_found_by_its_next_life() {
    let _limit = Limit::of(120, "answer to the commit");
    let (place, server) = Place::open(3_000);
    let committing = place.commit_without_answer();
    drop(server);
    let Err(Error::Unknown(unknown)) = committing.join().unwrap() else { panic!("there is an answer") };
    // The client asks again while it has no connection. The next one is to the restarted server,
    // which would refuse the commit: what the transaction read was replaced by itself.
    let mut again = pin!(unknown.ask_again_async(Instant::now() + Duration::from_secs(60)));
    assert!(again.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    place.way.swallows.store(false, Ordering::SeqCst);
    let _server = place.start();
    let committed = pollster::block_on(again).unwrap();
    let tranx = committed.tranx.unwrap();
    assert_eq!(place.watcher.get("a").unwrap().unwrap(), "2");
    // Who commits next gets a larger number: the answer names the transaction itself.
    let mut next = place.watcher.begin();
    next.put("a", "3").unwrap();
    assert!(next.commit().unwrap().tranx > Some(tranx));
    assert_eq!(place.watcher.status(ServerId(1)).unwrap().refused, 0, "it was sent to the restarted server");
}

/// Restarts the server while a client commits, of whose request it gets nothing.
fn lose_request<T: Send + 'static>(commit: impl FnOnce(Client) -> T + Send + 'static) -> (T, String) {
    let (place, server) = Place::open(60_000);
    let client = place.client.clone();
    client.get("a").unwrap();
    place.way.swallows_requests.store(true, Ordering::SeqCst);
    let committing = thread::spawn(move || commit(client));
    let begun = Instant::now();
    while place.way.swallowed_bytes.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(50), "the client sends nothing");
        thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    place.way.swallows_requests.store(false, Ordering::SeqCst);
    let _server = place.start();
    let outcome = committing.join().unwrap();
    let value = place.watcher.get("a").unwrap().unwrap();
    (outcome, String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn commit_that_its_server_never_got_is_refused_by_its_next_life() {
    let _limit = Limit::of(120, "answer to the commit");
    let (committed, value) = lose_request(|client| {
        let mut tranx = client.begin();
        tranx.put("a", "2").unwrap();
        tranx.commit()
    });
    let Err(Error::Refused(refusal)) = committed else { panic!("{committed:?}") };
    assert_eq!((refusal, value.as_str()), (Refusal::Restarted { server: ServerId(1) }, "1"));
}

#[test]
fn transaction_that_its_server_never_got_is_committed_by_its_next_life() {
    let _limit = Limit::of(120, "answer to the commit");
    let (committed, value) = lose_request(|client| client.put("a", "2"));
    committed.unwrap();
    assert_eq!(value, "2");
}
