//! The bytes of the examples in docs/dtranx-log-format.md. A change of the format must change this
//! test and the format's version.

use std::sync::Arc;

use dtranx::core::StoreId;
use dtranx::log::{FORMAT_VERSION, LogOptions, Memory, SegmentNumber, TranxLog};

use crate::log::{options, reclaim, segment_file};

const SEGMENT_HEADER: &str = "\
    445452582d57414c040007008cd782db\
    01000000000000000010000000000000\
    00000000000000003031323334353637\
    38396162636465660000000000000000";

/// Header of the second segment, which was made ahead. It therefore does not give the number of the
/// segment's first block.
const AHEAD_HEADER: &str = "\
    445452582d57414c040007004301a182\
    02000000000000000010000000000000\
    ffffffffffffffff3031323334353637\
    38396162636465660000000000000000";

/// A block of two records, "one" and "second".
const BLOCK: &str = "\
    11000000c6793ab80000000000000000\
    00000000000000000000000000000000\
    030000006f6e65060000007365636f6e\
    64000000000000000000000000000000";

/// The seal behind that block: it has no records and states that all blocks before it are durable.
const SEAL: &str = "\
    000000001e52a9810100000000000000\
    01000000000000000000000000000000\
    00000000000000000000000000000000\
    00000000000000000000000000000000";

/// Generation 2 of the GC log, in the first half: the oldest segment is 1, the caller's bytes are
/// "lc".
const GC_HALF: &str = "\
    445452582d47434c040007004b205ee8\
    02000000000000000100000000000000\
    02000000000000003031323334353637\
    38396162636465666c63";

#[test]
fn format_version_4_has_these_bytes() {
    assert_eq!(FORMAT_VERSION, 4);
    let medium = Memory::new();
    let options = LogOptions { store: StoreId(*b"0123456789abcdef"), ..options(4096) };
    let mut opened = TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap();
    opened.log.append(b"one").unwrap();
    opened.log.append(b"second").unwrap();
    opened.log.persist().unwrap();
    opened.collector.make_ahead().unwrap();
    let oldest = SegmentNumber(1);
    reclaim(&mut opened, oldest, b"lc").unwrap();

    let segment = medium.contents(&segment_file(1)).unwrap();
    assert_eq!(segment.len(), 4096);
    assert_eq!(hex(&segment[..64]), SEGMENT_HEADER);
    assert_eq!(hex(&segment[64..128]), BLOCK);
    assert_eq!(hex(&segment[128..192]), SEAL);
    assert!(segment[192..].iter().all(|byte| *byte == 0));
    let ahead = medium.contents(&segment_file(2)).unwrap();
    assert_eq!(hex(&ahead[..64]), AHEAD_HEADER);
    assert!(ahead.len() == 4096 && ahead[64..].iter().all(|byte| *byte == 0));
    let gc_log = medium.contents("gc.log").unwrap();
    assert_eq!(gc_log.len(), 128 * 1024);
    assert_eq!(hex(&gc_log[..58]), GC_HALF);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
