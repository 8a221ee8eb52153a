//! Tests of one server on a socket: restarts, garbage collection and media of the log.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use dtranx::client::{Client, ClientOptions};
use dtranx::core::ServerId;
use dtranx::server::{LogMedium, Server};

use crate::limit::Limit;
use crate::server::{cluster, config};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn restarted_server_has_what_was_committed_and_the_client_goes_on() {
    let _limit = Limit::of(300, "answer of a server that was restarted");
    for medium in [LogMedium::Disk, LogMedium::PersistentMemory] {
        let folder = tempfile::tempdir().unwrap();
        let cluster = cluster(1);
        let mut config = config(&cluster, 1, folder.path());
        config.medium = medium;
        let mut server = Some(Server::start(&config).unwrap());
        let client = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
        for round in 0..3_u8 {
            for number in 0..20_u8 {
                client.put(vec![round, number], vec![number; 100]).unwrap();
            }
            drop(server.take());
            server = Some(Server::start(&config).unwrap());
            assert!(server.as_ref().unwrap().recovered_records() > 0);
            for number in 0..20_u8 {
                let expected = Some(Bytes::from(vec![number; 100]));
                assert_eq!(client.get(vec![round, number]).unwrap(), expected, "{medium:?} round {round}");
            }
        }
    }
}

#[test]
fn garbage_is_collected_and_the_log_stays_small() {
    let _limit = Limit::of(300, "answer of a server that collects garbage");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let config = config(&cluster, 1, folder.path());
    let server = Server::start(&config).unwrap();
    let client = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
    // These writes fill five segments, so that there is garbage to collect.
    for number in 0..160_u32 {
        client.put((number % 4).to_be_bytes().to_vec(), vec![number as u8; 512 << 10]).unwrap();
    }
    let begun = Instant::now();
    let small = loop {
        let status = client.status(ServerId(1)).unwrap();
        if status.log_segments <= 2 && status.low_water >= 160 || begun.elapsed() > PATIENCE {
            break status;
        }
        std::thread::sleep(Duration::from_millis(20));
        // The status's numbers change only with the next record, so each round writes one.
        client.put("tick", "x").unwrap();
    };
    assert!(small.log_segments <= 2, "{small:?}");
    assert!(small.low_water >= 160 && small.anomalies == 0, "{small:?}");
    drop(server);
    let _server = Server::start(&config).unwrap();
    for key in 0..4_u32 {
        let value = client.get(key.to_be_bytes().to_vec()).unwrap().unwrap();
        assert_eq!((value.len(), value[0]), (512 << 10, 156 + key as u8));
    }
}

/// Requests the metrics page until the server answers. The server does not answer a request that
/// arrives too slowly, as it may on a slow machine.
fn page(at: SocketAddr) -> String {
    let begun = Instant::now();
    loop {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut page = String::new();
        let asked = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").and_then(|()| stream.read_to_string(&mut page));
        match asked {
            Ok(1..) => return page,
            asked => assert!(begun.elapsed() < PATIENCE, "there is no page: {asked:?}"),
        }
    }
}

#[test]
fn metrics_are_served_as_text() {
    let _limit = Limit::of(300, "page of metrics");
    let folder = tempfile::tempdir().unwrap();
    let cluster = cluster(1);
    let mut config = config(&cluster, 1, folder.path());
    let at = crate::server::free_address();
    config.metrics = Some(at);
    let _server = Server::start(&config).unwrap();
    let client = Client::connect(&[cluster.servers[0].address], ClientOptions::default()).unwrap();
    client.put("a", "1").unwrap();
    let page = page(at);
    assert!(page.contains("dtranx_committed_total 1"), "{page}");
    for stage in ["network", "read", "transaction", "lock", "ack", "wal", "storage", "recovery", "gc"] {
        assert!(page.contains(&format!("dtranx_stage_events_total{{stage=\"{stage}\"}}")), "{stage}: {page}");
    }
    for queue in ["entry", "internal", "lock", "ack", "acknowledged", "recovery", "told", "wal", "storage", "gc"] {
        assert!(page.contains(&format!("dtranx_queue_length{{queue=\"{queue}\"}}")), "{queue}: {page}");
    }
}
