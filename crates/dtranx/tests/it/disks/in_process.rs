//! Tests of full disks under a server that runs within a program.

use std::time::{Duration, Instant};

use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::ServerId;
use dtranx::server::{Server, ServerConfig};

use crate::disks::ledger::Ledger;
use crate::disks::process::{Setup, assert_said};
use crate::disks::small::SmallDisk;
use crate::limit::Limit;

/// Starts a server again, with retries. Another test may start a child process just when the
/// previous server ends; the child inherits the server's open folder and port for a moment.
fn start_again(config: &ServerConfig) -> Server {
    let begun = Instant::now();
    loop {
        match Server::start(config) {
            Ok(server) => return server,
            Err(error) => {
                let is_in_use = error.to_string().contains("in use");
                assert!(is_in_use && begun.elapsed() < Duration::from_secs(60), "{error}");
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn full_disk_is_reported_to_whoever_waits_for_the_server() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let Some(mut disk) = SmallDisk::mount(47 << 10) else { return crate::disks::limited::log() };
    let setup = Setup::new();
    let member = Member { id: ServerId(1), address: setup.address };
    let mut config = ServerConfig::new(Cluster::hashed("disks", vec![member]), ServerId(1), &setup.folder);
    config.segment_bytes = 16 << 20;
    config.gc_interval_ms = 3_600_000;
    config.log_folder = disk.path().join("log");
    let mut ledger = Ledger::default();
    let server = Server::start(&config).unwrap();
    let mut ended = None;
    ledger.write_until_the_end(setup.address, || {
        ended = server.wait(Duration::ZERO).err();
        ended.is_some()
    });
    let error = ended.unwrap();
    assert_said(&error.to_string(), &config.log_folder, &["no room for"]);
    assert!(error.to_string().contains("the wal stage failed"), "{error}");
    drop(server);
    disk.remount("size=160m");
    let _server = start_again(&config);
    ledger.check(&Ledger::client(setup.address));
}
