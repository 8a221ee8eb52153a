//! The same for a server within a program.

use std::time::Duration;

use dtranx::cluster::{Cluster, Server as Member};
use dtranx::core::ServerId;
use dtranx::server::{Server, ServerConfig};

use crate::ledger::Ledger;
use crate::process::{Setup, assert_said};
use crate::small::SmallDisk;

#[test]
fn full_disk_is_told_to_whoever_waits_for_the_server() {
    let Some(mut disk) = SmallDisk::mount(47 << 10) else { return crate::limited::log() };
    let setup = Setup::new();
    let member = Member { id: ServerId(1), address: setup.address };
    let mut config = ServerConfig::new(Cluster::hashed("disks", vec![member]), ServerId(1), &setup.folder);
    config.segment_bytes = 16 << 20;
    config.gc_interval_ms = 3_600_000;
    config.log_folder = disk.path().join("log");
    let mut ledger = Ledger::default();
    let server = Server::start(&config).unwrap();
    ledger.write_until_it_fails(&Ledger::client(setup.address));
    let error = server.wait(Duration::from_secs(60)).unwrap_err();
    assert_said(&error.to_string(), &config.log_folder, &["no room for"]);
    assert!(error.to_string().contains("the wal stage failed"), "{error}");
    drop(server);
    disk.remount("size=160m");
    let _server = Server::start(&config).unwrap();
    ledger.check(&Ledger::client(setup.address));
}
