//! Tests of folders that cannot be written, are removed, or belong to another server.

use std::fs;
use std::time::{Duration, Instant};

use crate::disks::ledger::Ledger;
use crate::disks::process::{Setup, assert_said};
use crate::disks::small::SmallDisk;
use crate::limit::Limit;

#[test]
fn folder_in_which_nothing_can_be_made_is_named() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    nothing_can_be_made();
}

fn nothing_can_be_made() {
    let mut setup = Setup::new();
    // Not even root may create folders in `/sys`.
    setup.log_folder = "/sys/dtranx".into();
    assert_said(&setup.start().unwrap_err(), &setup.log_folder, &["cannot create the folder"]);
    let mut setup = Setup::new();
    setup.folder = "/sys/dtranx".into();
    assert_said(&setup.start().unwrap_err(), &setup.folder, &["cannot create"]);
}

#[test]
fn disk_that_is_read_only_is_named_and_loses_nothing() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let Some(mut disk) = SmallDisk::mount(64 << 10) else { return nothing_can_be_made() };
    let mut setup = Setup::new();
    setup.log_folder = disk.path().join("log");
    let mut ledger = Ledger::default();
    {
        let _server = setup.start().unwrap();
        let client = Ledger::client(setup.address);
        (0..10).for_each(|_| assert!(ledger.write(&client)));
    }
    disk.remount("ro");
    assert_said(&setup.start().unwrap_err(), &setup.log_folder, &["Read-only file system"]);
    disk.remount("rw");
    let _server = setup.start().unwrap();
    ledger.check(&Ledger::client(setup.address));
}

#[test]
fn folder_of_the_log_removed_under_a_server_ends_it() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let setup = Setup::new();
    let server = setup.start().unwrap();
    assert!(Ledger::default().write(&Ledger::client(setup.address)));
    // The removal fails while the server creates a file in the folder, and is tried again.
    let begun = Instant::now();
    while setup.log_folder.exists() {
        let removed = fs::remove_dir_all(&setup.log_folder);
        assert!(removed.is_ok() || begun.elapsed() < Duration::from_secs(20), "{removed:?}");
    }
    assert_said(&server.end(), &setup.log_folder, &["was removed or replaced"]);
}

#[test]
fn folder_of_the_log_replaced_under_a_server_ends_it() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let setup = Setup::new();
    let server = setup.start().unwrap();
    let aside = setup.log_folder.with_extension("aside");
    fs::rename(&setup.log_folder, &aside).unwrap();
    fs::create_dir(&setup.log_folder).unwrap();
    fs::write(setup.log_folder.join("lock"), "").unwrap();
    assert_said(&server.end(), &setup.log_folder, &["was removed or replaced"]);
    // With its log folder back, the server starts and serves again.
    fs::remove_dir_all(&setup.log_folder).unwrap();
    fs::rename(&aside, &setup.log_folder).unwrap();
    let _server = setup.start().unwrap();
    assert!(Ledger::default().write(&Ledger::client(setup.address)));
}

#[test]
fn folder_of_the_log_that_another_server_uses_is_refused_and_unharmed() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let setup = Setup::new();
    let mut ledger = Ledger::default();
    let first = setup.start().unwrap();
    let client = Ledger::client(setup.address);
    (0..10).for_each(|_| assert!(ledger.write(&client)));
    let mut second = Setup::new();
    second.log_folder = setup.log_folder.clone();
    assert_said(&second.start().unwrap_err(), &setup.log_folder, &["is in use by another server"]);
    assert!(ledger.write(&client));
    // The folder is free after the first server's end, however it ended.
    drop(first);
    let _first = setup.start().unwrap();
    ledger.check(&Ledger::client(setup.address));
}
