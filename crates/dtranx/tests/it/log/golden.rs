//! The bytes of the examples in docs/dtranx-log-format.md. A change of the format must change this
//! test and the format's version.

use std::sync::Arc;

use dtranx::core::StoreId;
use dtranx::log::{FORMAT_VERSION, LogOptions, Memory, Position, SegmentNumber, State, TranxLog, payload};

use crate::log::{options, reclaim, segment_file};

const SEGMENT_HEADER: &str = "\
    445452582d57414c080007008a79964c\
    01000000000000000010000000000000\
    00000000000000003031323334353637\
    38396162636465660000000000000000";

/// Header of the second segment, which was made ahead. It therefore does not give the number of the
/// segment's first block.
const AHEAD_HEADER: &str = "\
    445452582d57414c0800070045afb515\
    02000000000000000010000000000000\
    ffffffffffffffff3031323334353637\
    38396162636465660000000000000000";

/// A block of two records, "one" and "second": entry 1 of a server that runs alone.
const BLOCK: &str = "\
    110000008f9421a50000000000000000\
    00000000000000000000000000000000\
    01000000000000000000000000000000\
    030000006f6e65060000007365636f6e\
    64000000000000000000000000000000\
    00000000000000000000000000000000\
    00000000000000000000000000000000\
    00000000000000000000000000000000";

/// The seal behind that block: it has no records and states that all blocks before it are durable.
const SEAL: &str = "\
    0000000080bb6e2f0100000000000000\
    01000000000000000000000000000000\
    00000000000000000000000000000000\
    00000000000000000000000000000000";

/// Generation 2 of the GC log, in the first half: the oldest segment is 1, the caller's bytes are
/// "lc".
const GC_HALF: &str = "\
    445452582d47434c080007005e768cba\
    02000000000000000100000000000000\
    02000000000000003031323334353637\
    38396162636465660000000000000000\
    00000000000000000000000000000000\
    00000000000000000000000000000000\
    00000000000000000000000000000000\
    00000000000000006c63";

/// Entry 1 of term 3 in a group, with the record "third".
const ENTRY: &str = "\
    09000000c3a2bd6d0000000000000000\
    00000000000000000000000000000000\
    01000000000000000300000000000000\
    05000000746869726400000000000000";

/// State of a member in term 3, in which it has not voted, and nothing is known to be committed.
const STATE: &str = "\
    08000000f8d44b110100000000000000\
    00000000000000000000000000000000\
    00000000000000000300000000000000\
    00000000000000000000000000000000";

/// State of a member in term 3, in which it has voted for the member 9, and entry 1 is committed.
const STATE_WITH_VOTE: &str = "\
    10000000d5ef658d0200000000000000\
    00000000000000000000000000000000\
    00000000000000000300000000000000\
    01000000000000000900000000000000";

/// Generation 2 of that member's GC log, with the newest state.
const GC_HALF_OF_MEMBER: &str = "\
    445452582d47434c08000700e269179a\
    02000000000000000100000000000000\
    02000000010000003031323334353637\
    38396162636465660000000000000000\
    00000000000000000300000000000000\
    01000000000000000900000000000000\
    00000000000000000000000000000000\
    00000000000000006c63";

#[test]
fn format_version_8_has_these_bytes() {
    assert_eq!(FORMAT_VERSION, 8);
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
    assert_eq!(hex(&segment[64..192]), BLOCK);
    assert_eq!(hex(&segment[192..256]), SEAL);
    assert!(segment[256..].iter().all(|byte| *byte == 0));
    let ahead = medium.contents(&segment_file(2)).unwrap();
    assert_eq!(hex(&ahead[..64]), AHEAD_HEADER);
    assert!(ahead.len() == 4096 && ahead[64..].iter().all(|byte| *byte == 0));
    let gc_log = medium.contents("gc.log").unwrap();
    assert_eq!(gc_log.len(), 128 * 1024);
    assert_eq!(hex(&gc_log[..122]), GC_HALF);
}

#[test]
fn blocks_of_a_member_have_these_bytes() {
    let medium = Memory::new();
    let options = LogOptions { store: StoreId(*b"0123456789abcdef"), is_member: true, ..options(4096) };
    let mut opened = TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap();
    let (entry, term) = (Position { term: 3, index: 1 }, 3);
    opened.log.append_entry(entry, &payload([&b"third"[..]])).unwrap();
    opened.log.append_state(State { term, vote: None, committed: 0 }).unwrap();
    opened.log.append_state(State { term, vote: Some(9), committed: 1 }).unwrap();
    opened.log.persist().unwrap();
    opened.collector.write(b"lc").unwrap();

    let segment = medium.contents(&segment_file(1)).unwrap();
    assert_eq!(hex(&segment[64..128]), ENTRY);
    assert_eq!(hex(&segment[128..192]), STATE);
    assert_eq!(hex(&segment[192..256]), STATE_WITH_VOTE);
    assert_eq!(hex(&medium.contents("gc.log").unwrap()[..122]), GC_HALF_OF_MEMBER);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
