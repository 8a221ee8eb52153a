//! Corpus of log files, made by the log itself.

use std::sync::Arc;

use dtranx::log::{LogOptions, Medium, Memory, Opened, SegmentNumber, TranxLog};

use crate::corpus::replay::Corpus;
use crate::corpus::wire::{gc_record, records};

const SERVER: u16 = 7;
const SEGMENT: &str = "segment-00000000000000000001.wal";

fn open(medium: &Memory) -> Opened {
    let options = LogOptions::new(SERVER, 4096);
    TranxLog::open(Arc::new(medium.clone()), &options, |_, _| Ok(())).unwrap()
}

/// Makes a segment with some records: all in one block, or each made durable in a block of its own.
fn segment(each_durable: bool) -> Vec<u8> {
    let medium = Memory::new();
    let mut log = open(&medium).log;
    for (_, record) in records() {
        log.append(&postcard::to_stdvec(&record).unwrap()).unwrap();
        if each_durable {
            log.persist().unwrap();
        }
    }
    log.persist().unwrap();
    medium.contents(SEGMENT).unwrap()
}

/// Makes the second segment ahead of its use; the number of records is that of both segments
/// together.
fn made_ahead(records: u64) -> Vec<u8> {
    let medium = Memory::new();
    let Opened { mut log, collector, .. } = open(&medium);
    collector.make_ahead().unwrap();
    for number in 0..records {
        log.append(&[number as u8; 600]).unwrap();
        log.persist().unwrap();
    }
    medium.contents("segment-00000000000000000002.wal").unwrap()
}

/// Cuts off the zeros at a segment's end. The size in the header is wrong then; the harness
/// corrects it.
fn short(mut segment: Vec<u8>) -> Vec<u8> {
    let used = segment.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    segment.truncate(used.next_multiple_of(64));
    segment
}

pub(crate) fn segments() -> Corpus {
    let medium = Memory::new();
    drop(open(&medium));
    let fresh = medium.contents(SEGMENT).unwrap();
    let (mut torn, mut damaged) = (segment(true), segment(true));
    let end = short(torn.clone()).len();
    torn[end - 64..].fill(0);
    damaged[64..128].fill(0);
    let entries = [
        ("made_ahead", made_ahead(0)),
        ("made_ahead_used", short(made_ahead(9))),
        ("whole", segment(true)),
        ("fresh", fresh),
        ("torn", torn),
        ("damaged", damaged),
        ("short_one_block", short(segment(false))),
        ("short_blocks", short(segment(true))),
    ];
    entries.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// GC logs of one and two generations: the two halves one after the other, with the first half's
/// length before it.
pub(crate) fn gc_logs() -> Corpus {
    let entry = |writes: usize| {
        let medium = Memory::new();
        let mut opened = open(&medium);
        for _ in 0..writes {
            opened.collector.write(&postcard::to_stdvec(&gc_record()).unwrap()).unwrap();
        }
        let bytes = medium.contents("gc.log").unwrap();
        let [first, second] = [&bytes[..64 * 1024], &bytes[64 * 1024..]].map(|half| {
            let used = half.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            &half[..used]
        });
        [&(first.len() as u16).to_le_bytes()[..], first, second].concat()
    };
    [("new", 0), ("one", 1), ("both", 2)].map(|(name, writes)| (name.to_owned(), entry(writes))).into_iter().collect()
}

/// Returns true if a log with this segment, filled up to the full size, can be opened.
pub(crate) fn is_read(segment: &[u8]) -> bool {
    let mut whole = segment.to_vec();
    whole.resize(4096, 0);
    let medium = Memory::new();
    drop(open(&medium));
    let mut file = medium.open(SEGMENT).unwrap();
    file.write(0, &whole).unwrap();
    let options = LogOptions::new(SERVER, 4096);
    TranxLog::open(Arc::new(medium), &options, |_: SegmentNumber, _| Ok(())).is_ok()
}
