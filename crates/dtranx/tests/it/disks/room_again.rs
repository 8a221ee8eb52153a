//! Test of a storage whose disk is full for a while: it must not lose writes of that time
//! unnoticed.

use dtranx::core::{Key, ServerId, TranxId, Value, Write};
use dtranx::storage::{Lsm, LsmOptions, Storage};
use rustix::fs::statvfs;

use crate::disks::small::SmallDisk;

const SERVER: ServerId = ServerId(1);
/// Size of a value, in bytes. It exceeds the engine's buffer before its journal and is no multiple
/// of a page, so that the disk becomes full within a value.
const VALUE_BYTES: usize = 100_000;
const WRITES: u64 = 100;

fn version(number: u64) -> TranxId {
    TranxId { server: SERVER, number }
}

fn key(number: u64) -> Key {
    Key::new(number.to_be_bytes().to_vec()).unwrap()
}

#[test]
fn write_that_found_no_room_is_reported_even_if_there_is_room_at_once() {
    // Without mounts there is no disk that can grow again, so there is nothing to test.
    let Some(mut disk) = SmallDisk::mount(4 << 10) else { return };
    let folder = disk.path().join("items");
    let storage = Lsm::open(&folder, SERVER, LsmOptions::default()).unwrap();
    let write = |number: u64| {
        let value = Some(Value::new(vec![number as u8; VALUE_BYTES]).unwrap());
        storage.apply(&[(version(number), vec![Write { key: key(number), value }])])
    };
    let mut taken = 0;
    while taken < WRITES && write(taken).is_ok() {
        taken += 1;
        if statvfs(disk.path()).unwrap().f_bavail == 0 {
            disk.remount("size=200m");
        }
    }
    disk.remount("size=200m");
    let is_durable = storage.persist().is_ok();
    drop(storage);
    let storage = Lsm::open(&folder, SERVER, LsmOptions::default()).unwrap();
    let missing = (0..taken).filter(|number| storage.get(&key(*number)).unwrap().is_none()).count();
    assert!(!is_durable || missing == 0, "called durable, and {missing} of {taken} writes are missing");
    assert!(taken < WRITES && !is_durable, "4 MiB had room for {taken} writes of {VALUE_BYTES} bytes");
}
