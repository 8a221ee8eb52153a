//! Test of a commit whose answer is lost: the client sends it again, and the server carries it out
//! once.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use dtranx::client::{Client, ClientOptions};
use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::ServerId;
use dtranx::server::{Server, ServerConfig};

use crate::limit::Limit;

/// A proxy to the server that can drop all bytes on the way back.
#[derive(Clone, Default)]
struct Way {
    swallows: Arc<AtomicBool>,
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
                let (near, far) = (near.unwrap(), TcpStream::connect(server).unwrap());
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
            if is_back && self.swallows.load(Ordering::SeqCst) {
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

#[test]
fn lost_answer_is_given_again_and_the_commit_is_done_once() {
    let _limit = Limit::of(120, "answer to the commit");
    let folder = tempfile::tempdir().unwrap();
    let listen = crate::server::free_address();
    let way = Way::default();
    let members = vec![Member { id: ServerId(1), address: way.open(listen) }];
    let cluster = Cluster::hashed("test", members);
    let mut config = ServerConfig::new(cluster.clone(), ServerId(1), folder.path());
    config.listen = Some(listen);
    let _server = Server::start(&config).unwrap();
    let options = ClientOptions { request_ms: 60_000, ..ClientOptions::default() };
    let client = Client::connect(&[cluster.servers[0].address], options.clone()).unwrap();
    // The watcher connects directly, past the proxy.
    let direct = Cluster::hashed("test", vec![Member { id: ServerId(1), address: listen }]);
    let watcher = Client::of_cluster(direct, options).unwrap();
    client.put("a", "1").unwrap();

    let mut tranx = client.begin();
    tranx.get("a").unwrap();
    tranx.put("a", "2").unwrap();
    way.swallows.store(true, Ordering::SeqCst);
    let committing = thread::spawn(move || tranx.commit());
    let begun = Instant::now();
    // The test goes on once the proxy has dropped the answer to the commit.
    while watcher.status(ServerId(1)).unwrap().committed < 2 || way.swallowed_bytes.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(50), "the commit does not arrive, or is not answered");
        thread::sleep(Duration::from_millis(5));
    }
    // The transaction is committed, but the client does not know. A second execution would be
    // refused, because its read is stale by now.
    way.swallows.store(false, Ordering::SeqCst);
    way.break_all();
    let committed = committing.join().unwrap().unwrap();
    assert_eq!(watcher.get("a").unwrap().unwrap(), "2");
    assert!(committed.tranx.is_some());
}
