//! Tests of full disks, simulated by a limit on the size of files, which needs no privileges. A
//! server cannot distinguish the limit from a disk on which a file cannot grow.

use crate::disks::ledger::Ledger;
use crate::disks::process::{Setup, assert_said};
use crate::limit::Limit;

const TOO_LARGE: &str = "File too large";

/// Limit of a file's size, in blocks of 512 bytes. The storage's files fit; the log's segments are
/// larger.
const LIMIT_BLOCKS: &str = "131072";

/// Runs a server whose next log segment exceeds the limit.
pub(crate) fn log() {
    let mut setup = Setup::new();
    let mut ledger = Ledger::default();
    {
        let _server = setup.start().unwrap();
        let client = Ledger::client(setup.address);
        (0..10).for_each(|_| assert!(ledger.write(&client)));
    }
    setup.segment_mib = 128;
    assert_said(&setup.start_limited(LIMIT_BLOCKS).unwrap_err(), &setup.log_folder.join("segment-"), &["no room for"]);
    let _server = setup.start().unwrap();
    ledger.check(&Ledger::client(setup.address));
}

/// Runs a server whose storage's journal cannot grow. The log is mapped and not written, so that
/// the limit does not affect it.
pub(crate) fn storage() {
    let mut setup = Setup::new();
    setup.medium = "persistent-memory";
    let mut ledger = Ledger::default();
    let mut server = setup.start().unwrap();
    let client = Ledger::client(setup.address);
    (0..10).for_each(|_| assert!(ledger.write(&client)));
    server.limit_files(1 << 20);
    ledger.write_until_the_end(setup.address, || server.has_ended());
    assert_said(&server.end(), &setup.folder, &[TOO_LARGE, "in the background failed"]);
    let _server = setup.start().unwrap();
    let client = Ledger::client(setup.address);
    ledger.check(&client);
    assert!(ledger.write(&client));
}

#[test]
fn segment_over_the_limit_of_files_is_reported_and_loses_nothing() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    log();
}

#[test]
fn storage_over_the_limit_of_files_ends_the_server_and_loses_nothing() {
    let _limit = Limit::of(300, "server that starts, answers or ends");
    storage();
}
