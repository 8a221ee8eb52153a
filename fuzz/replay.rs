//! A fuzzer's corpus without a fuzzer: compared with what the encoder makes, replayed, and changed
//! at random a bounded number of times. For the tests of the crates that are fuzzed.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses a part of it, and may panic")]

use std::{
    collections::BTreeMap,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use rand::{Rng, RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};

/// The entries of a target, by the names of their files.
pub(crate) type Corpus = BTreeMap<String, Vec<u8>>;

/// A target: its name, its function, and its encoder's entries.
pub(crate) type Target = (&'static str, fn(&[u8]), Corpus);

/// The stored corpus is what the encoder makes; with the variable `UPDATE_CORPUS` it is written
/// anew. Entries that are not `exact` need only be there.
pub(crate) fn compare(targets: &[Target], exact: impl Fn(&str) -> bool) {
    for (target, _, corpus) in targets {
        let folder = folder(target);
        let update = std::env::var_os("UPDATE_CORPUS").is_some();
        if update {
            std::fs::create_dir_all(&folder).unwrap();
        }
        for (name, bytes) in corpus {
            let file = folder.join(name);
            if update {
                std::fs::write(&file, bytes).unwrap();
            }
            let stored = std::fs::read(&file).unwrap_or_default();
            assert!(!stored.is_empty() && (!exact(name) || stored == *bytes), "{}", file.display());
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), corpus.len(), "strange files in {}", folder.display());
    }
}

fn folder(target: &str) -> PathBuf {
    // From the crate whose test this is.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Runs each target on each entry, and on changed entries: `changes` times for the whole target.
/// `finish` puts right what nearly every change would break, so that the rest is read, too.
pub(crate) fn replay(targets: Vec<Target>, changes: usize, finish: impl Fn(&mut Vec<u8>, &mut StdRng)) {
    for (target, run, corpus) in targets {
        let entries: Vec<Vec<u8>> = corpus.into_values().collect();
        let mut random = StdRng::seed_from_u64(5);
        for (n, entry) in entries.iter().enumerate() {
            run(entry);
            for round in 0..changes / entries.len() {
                let mut changed = change(entry, &entries, &mut random);
                finish(&mut changed, &mut random);
                let outcome = catch_unwind(|| run(&changed));
                assert!(outcome.is_ok(), "{target}: entry {n}, round {round}: {changed:02x?}");
            }
        }
    }
}

/// One to four changes at random places: a bit, a byte, a number that lengths are confused with, a
/// piece cut out, doubled or taken from another entry.
pub(crate) fn change(entry: &[u8], entries: &[Vec<u8>], random: &mut impl Rng) -> Vec<u8> {
    const NUMBERS: [i32; 10] = [0, 1, -1, 4, 5, 16, 255, 48_000_000, i32::MAX, i32::MIN];
    let mut bytes = entry.to_vec();
    for _ in 0..random.random_range(1..=4) {
        if bytes.len() < 4 {
            break;
        }
        let at = random.random_range(0..bytes.len() - 3);
        let end = random.random_range(at..=bytes.len());
        match random.random_range(0..7) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes[at] = random.random(),
            2 => bytes[at..at + 4].copy_from_slice(&NUMBERS.choose(random).unwrap().to_le_bytes()),
            3 => drop(bytes.drain(at..end)),
            4 => bytes.extend_from_within(at..end),
            5 => bytes.truncate(at),
            _ => {
                let other = entries.choose(random).unwrap();
                let from = random.random_range(0..other.len());
                bytes.splice(at..end, other[from..].iter().copied());
            }
        }
    }
    bytes
}
