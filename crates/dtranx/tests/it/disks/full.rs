//! Tests of a server process on small disks: the log's, the storage's, and one too small for the GC
//! log.

use crate::disks::ledger::Ledger;
use crate::disks::limited;
use crate::disks::process::{Setup, assert_said};
use crate::disks::small::SmallDisk;
use crate::limit::Limit;

/// Errors of a full disk. The storage's engine does not always report the error of a write in the
/// background, so the second one is accepted, too.
const NO_ROOM: [&str; 2] = ["No space left on device", "in the background failed; 0 bytes are free there"];

/// Checks a server that has room again: every acknowledged transaction is there, no transaction is
/// there in part, and more can be written.
fn goes_on(setup: &Setup, ledger: &mut Ledger) {
    let _server = setup.start().unwrap();
    let client = Ledger::client(setup.address);
    ledger.check(&client);
    assert!(ledger.write(&client));
    ledger.check(&client);
}

#[test]
fn full_disk_of_the_log_ends_the_server_and_loses_nothing() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    // The disk has room for two segments and the GC log.
    let Some(mut disk) = SmallDisk::mount(47 << 10) else { return limited::log() };
    let mut setup = Setup::new();
    setup.log_folder = disk.path().join("log");
    let mut ledger = Ledger::default();
    let mut server = setup.start().unwrap();
    ledger.write_until_the_end(setup.address, || server.has_ended());
    assert_said(&server.end(), &setup.log_folder, &["no room for"]);
    // A start needs a new segment, for which there is still no room.
    assert_said(&setup.start().unwrap_err(), &setup.log_folder, &["no room for"]);
    disk.remount("size=160m");
    goes_on(&setup, &mut ledger);
}

#[test]
fn full_disk_of_the_storage_ends_the_server_and_loses_nothing() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let Some(mut disk) = SmallDisk::mount(20 << 10) else { return limited::storage() };
    let mut setup = Setup::new();
    setup.folder = disk.path().join("data");
    let mut ledger = Ledger::default();
    let mut server = setup.start().unwrap();
    ledger.write_until_the_end(setup.address, || server.has_ended());
    assert_said(&server.end(), &setup.folder, &NO_ROOM);
    // A start has to apply the log's transactions, for which there is still no room.
    assert_said(&setup.start().unwrap_err(), &setup.folder, &NO_ROOM);
    disk.remount("size=200m");
    goes_on(&setup, &mut ledger);
}

#[test]
fn disk_without_room_for_the_gc_log_is_reported_at_the_start() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    let Some(mut disk) = SmallDisk::mount(64) else { return limited::log() };
    let mut setup = Setup::new();
    setup.log_folder = disk.path().join("log");
    assert_said(&setup.start().unwrap_err(), &setup.log_folder.join("gc.log"), &["no room for"]);
    // The disk now has room for the GC log, but not for a segment.
    disk.remount("size=4m");
    assert_said(&setup.start().unwrap_err(), &setup.log_folder.join("segment-"), &["no room for"]);
    disk.remount("size=64m");
    let _server = setup.start().unwrap();
    assert!(Ledger::default().write(&Ledger::client(setup.address)));
}
