//! The fuzzer's corpus of messages and log files. These tests replay it and change it at random, a
//! bounded number of times, without a fuzzer.
#[path = "../../../../../fuzz/dtranx.rs"]
mod harness;
mod log;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;
mod wire;

use rand::RngExt;
use replay::{Target, compare, replay};

/// Number of random changes to all entries of a target that only decodes messages.
const CHANGES: usize = 60_000;
/// Number of random changes to all entries of a target that opens logs, which takes longer.
const CHANGES_OF_LOGS: usize = 6_000;

fn messages() -> Vec<Target> {
    vec![("dtranx_frames", harness::frames, wire::frames()), ("dtranx_payload", harness::payload, wire::payloads())]
}

fn logs() -> Vec<Target> {
    vec![("dtranx_segment", harness::segment, log::segments()), ("dtranx_gc_log", harness::gc_log, log::gc_logs())]
}

#[test]
fn corpus_is_what_the_encoder_makes() {
    compare(&messages(), |_| true);
    compare(&logs(), |_| true);
}

#[test]
fn messages_and_what_becomes_of_them_are_errors_or_messages() {
    replay(messages(), CHANGES, |_, _| {});
}

#[test]
fn logs_and_what_becomes_of_them_are_errors_or_logs() {
    // Unwritten room of a file is zero, so half of the changed files get some at their end.
    replay(logs(), CHANGES_OF_LOGS, |changed, random| {
        if random.random_bool(0.5) {
            changed.resize(changed.len().next_multiple_of(64) + 256, 0);
        }
    });
}

/// With a corpus of bytes that are refused, the tests above would only exercise refusals.
#[test]
fn every_entry_is_read_and_none_is_refused() {
    for entry in wire::payloads().values() {
        assert!(wire::is_read(entry), "{entry:02x?}");
    }
    for entry in wire::frames().values() {
        assert!(wire::count_frames(entry) > 0, "{entry:02x?}");
    }
    // Segments made ahead have another number in their header, which only the harness corrects.
    for (name, entry) in log::segments().into_iter().filter(|(name, _)| !name.starts_with("made_ahead")) {
        assert_eq!(log::is_read(&entry), !name.starts_with("damaged"), "{name}");
    }
}
