//! A byte is changed, a file is missing or cut off, all over a store.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use dtranx::core::GcRecord;
use dtranx::server::Moment;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::store::Store;
use crate::limit::Limit;

/// Length of a segment's header, in bytes.
const SEGMENT_HEADER_BYTES: u64 = 64;

/// All files of a folder, with what is in them.
fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { drop(found.insert(path.clone(), fs::read(&path).unwrap())) }
    }
}

/// Offset behind the last byte of a file that is not zero.
fn used(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

/// Places in a file, spread over all that is used of it.
fn places(path: &Path, number: u64) -> impl Iterator<Item = u64> {
    let used = used(path);
    let step = (used / number).max(1) | 1;
    (0..used).step_by(step as usize)
}

fn shown(got: &super::store::Got) -> String {
    got.found.damages.list().iter().map(|damage| format!("{damage}\n")).collect()
}

/// Files of a kind below a folder, in order.
fn below(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = BTreeMap::new();
    files(folder, &mut found);
    found.into_keys().filter(|path| is_wanted(path)).collect()
}

#[test]
fn whole_stores_are_salvaged_whole_and_nothing_is_written_into_them() {
    let _limit = Limit::of(600, "salvage of a store");
    for store in [Store::young(), Store::old()] {
        let (mut before, mut after) = Default::default();
        files(&store.config.folder, &mut before);
        let got = store.check("nothing is damaged");
        assert!(got.found.damages.is_empty(), "{}", shown(&got));
        assert_eq!(&got.sure, store.last());
        files(&store.config.folder, &mut after);
        assert!(before == after, "something was written");
    }
}

#[test]
fn changed_bytes_of_the_log_are_named_and_what_is_sure_was_so_at_one_moment() {
    let _limit = Limit::of(1200, "salvage of a store");
    for (store, is_young) in [(Store::young(), true), (Store::old(), false)] {
        let segments = store.segments();
        let mut gaps = 0;
        for segment in &segments {
            for at in places(segment, if is_young { 20 } else { 6 }) {
                let got = store.check_with(segment, at, |byte| byte ^ 0x10);
                gaps += u32::from(got.found.moment != Moment::Newest);
                if is_young && got.found.moment != Moment::Newest {
                    // What is sure is not nothing: the transactions before the damage.
                    let damage = got.found.damages.list().iter().find(|damage| damage.offset.is_some()).unwrap();
                    assert!(damage.file == segment.display().to_string(), "{}", shown(&got));
                }
            }
        }
        assert!(gaps > if is_young { 5 } else { 0 }, "{gaps} gaps");
    }
}

#[test]
fn what_is_before_a_gap_is_sure_and_what_is_behind_it_is_named() {
    let _limit = Limit::of(600, "salvage of a store");
    let store = Store::young();
    let segment = &store.segments()[0];
    let middle = used(segment) / 2;
    let got = store.check_with(segment, middle, |byte| !byte);
    assert!(matches!(got.found.moment, Moment::Before(_)), "{}", shown(&got));
    assert!(got.sure.len() > 10 && got.found.behind > 10, "{} sure, {} behind", got.sure.len(), got.found.behind);
    assert!(got.found.newer.total >= 14, "{:?}", got.found.newer);
    assert_ne!(&got.sure, store.last());
    assert!(shown(&got).contains("its records are lost, and the"), "{}", shown(&got));
}

#[test]
fn changed_bytes_of_the_items_are_named_and_what_the_log_has_is_sure() {
    let _limit = Limit::of(1200, "salvage of a store");
    for (store, is_young) in [(Store::young(), true), (Store::old(), false)] {
        let items = store.path("items");
        let is_small = |path: &Path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name == "current" || name.starts_with('v') && path.parent().unwrap() != items
        };
        let is_data = |path: &Path| path.ends_with("tables") || path.extension().is_some_and(|end| end == "jnl");
        let is_table = |path: &Path| path.parent().unwrap().ends_with("tables");
        let small = below(&items, is_small);
        let data = below(&items, |path| is_data(path) || is_table(path));
        assert!(small.len() >= 4 && !data.is_empty(), "{small:?} {data:?}");
        assert!(is_young || data.iter().filter(|path| path.starts_with(items.join("keyspaces/2"))).count() == 1);
        let mut uncertain = 0;
        for (path, number) in small.iter().map(|path| (path, 8)).chain(data.iter().map(|path| (path, 16))) {
            for at in places(path, number) {
                let got = store.check_with(path, at, |byte| byte ^ 4);
                assert_eq!(got.found.moment, Moment::Newest, "the log is whole");
                uncertain += got.uncertain.len();
                if is_young {
                    assert_eq!(&got.sure, store.last(), "the log has everything");
                }
                let recent = |key: &&String| key.starts_with('a') || key.starts_with('b');
                assert_eq!(got.sure.keys().filter(recent).count(), 14, "the log has these");
            }
        }
        assert!(is_young || uncertain > 0, "no damage has made an old key uncertain");
    }
}

#[test]
fn changed_bytes_of_identity_and_gc_log_are_named() {
    let _limit = Limit::of(600, "salvage of a store");
    let store = Store::young();
    for at in places(&store.path("identity.toml"), 20) {
        let got = store.check_with(&store.path("identity.toml"), at, |byte| byte ^ 1);
        assert!(shown(&got).contains("identity.toml: "), "{}", shown(&got));
        assert_eq!(&got.sure, store.last());
    }
    for at in places(&store.config.log_folder.join("gc.log"), 20) {
        store.check_with(&store.config.log_folder.join("gc.log"), at, |byte| byte ^ 0x80);
    }
    let old = Store::old();
    for at in places(&old.config.log_folder.join("gc.log"), 12) {
        old.check_with(&old.config.log_folder.join("gc.log"), at, |byte| byte ^ 0x80);
    }
}

/// Returns true for a manifest that its keyspace does not use any more, and the engine has not
/// removed yet.
fn is_replaced_manifest(path: &Path) -> bool {
    let number: Option<u64> =
        path.file_name().unwrap().to_str().unwrap().strip_prefix('v').and_then(|n| n.parse().ok());
    let current = || u64::from_le_bytes(fs::read(path.with_file_name("current")).unwrap()[..8].try_into().unwrap());
    number.is_some_and(|number| number != current())
}

#[test]
fn missing_files_and_folders_are_named() {
    let _limit = Limit::of(1200, "salvage of a store");
    for store in [Store::young(), Store::old()] {
        let aside = store.folder.path().join("aside");
        let mut parts = below(&store.config.folder, |_| true);
        parts.extend(["log", "items", "items/keyspaces", "items/keyspaces/2"].map(|name| store.path(name)));
        for part in parts {
            let name = part.file_name().unwrap().to_str().unwrap().to_owned();
            // Nothing is lost with these: locks, the engine's mark, a segment that has a header
            // only, a manifest that another one has replaced.
            let is_unused = name.starts_with("segment-") && used(&part) <= SEGMENT_HEADER_BYTES;
            let is_spare = name == "lock" || name == "version" || is_unused || is_replaced_manifest(&part);
            fs::rename(&part, &aside).unwrap();
            let got = store.check(&format!("{} is missing", part.display()));
            assert!(is_spare || !got.found.damages.is_empty(), "{name}");
            fs::rename(&aside, &part).unwrap();
        }
    }
}

#[test]
fn files_that_are_cut_off_are_named() {
    let _limit = Limit::of(1200, "salvage of a store");
    for store in [Store::young(), Store::old()] {
        let is_wanted = |path: &Path| {
            let is_journal = path.extension().is_some_and(|end| end == "jnl");
            // A journal that is cut off looks like that of a killed server; the log has what is
            // lost.
            !is_journal && fs::metadata(path).unwrap().len() > 0
        };
        for path in below(&store.config.folder, is_wanted) {
            let (whole, used) = (fs::read(&path).unwrap(), used(&path));
            for length in [0, used / 3, used / 2, used - 1] {
                OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
                store.check(&format!("{} has {length} bytes", path.display()));
            }
            fs::write(&path, whole).unwrap();
        }
    }
}

#[test]
fn links_are_named_and_not_followed_unless_they_are_the_folders_themselves() {
    let _limit = Limit::of(600, "salvage of a store");
    let store = Store::young();
    let aside = store.folder.path().join("aside");
    let link = |part: &Path| {
        fs::rename(part, &aside).unwrap();
        symlink(&aside, part).unwrap();
    };
    let unlink = |part: &Path| {
        fs::remove_file(part).unwrap();
        fs::rename(&aside, part).unwrap();
    };
    let mut parts = vec![store.segments().remove(0)];
    parts.extend(["identity.toml", "log/gc.log", "items/0.jnl", "items/keyspaces"].map(|name| store.path(name)));
    for part in parts {
        link(&part);
        let got = store.check(&format!("{} is a link", part.display()));
        assert!(shown(&got).contains("is a symbolic link to "), "{}", shown(&got));
        unlink(&part);
    }
    for part in ["log", "items"].map(|name| store.path(name)) {
        link(&part);
        assert!(store.check("a folder is on another disk").found.is_whole());
        unlink(&part);
    }
}

/// Several places at once, each of some hundred bytes, in any files.
#[test]
fn bytes_changed_at_random_all_over_are_survived() {
    let _limit = Limit::of(1200, "salvage of a store");
    for store in [Store::young(), Store::old()] {
        let files = below(&store.config.folder, |path| used(path) > 0);
        for seed in 0..12 {
            let mut random = StdRng::seed_from_u64(seed);
            let mut before = Vec::new();
            for _ in 0..random.random_range(1..6) {
                let path = &files[random.random_range(0..files.len())];
                let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
                let at = random.random_range(0..used(path));
                let length = random.random_range(1..400).min(file.metadata().unwrap().len() - at) as usize;
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, at).unwrap();
                let noise: Vec<u8> = (0..length).map(|_| random.random()).collect();
                file.write_all_at(&noise, at).unwrap();
                before.push((file, at, bytes));
            }
            store.check(&format!("seed {seed}"));
            for (file, at, bytes) in before.into_iter().rev() {
                file.write_all_at(&bytes, at).unwrap();
            }
        }
        assert!(store.check("it is as it was").found.is_whole());
    }
}

#[test]
fn items_that_know_more_than_the_log_show_that_its_end_is_lost() {
    let _limit = Limit::of(600, "salvage of a store");
    let store = Store::young();
    // The newest segments with anything in them are gone, with all traces in those before.
    for segment in store.segments().into_iter().skip(1) {
        fs::remove_file(segment).unwrap();
    }
    let got = store.check("the newest segments are gone");
    assert!(matches!(got.found.moment, Moment::Before(_)), "{}", shown(&got));
    assert!(shown(&got).contains("whose commit the log does not have: its end is lost"), "{}", shown(&got));
}

/// Writes a state of the GC log, as docs/dtranx-log-format.md describes it, with a later generation
/// than the one that is there.
fn write_gc_log(store: &Store, state: &GcRecord) {
    let path = store.config.log_folder.join("gc.log");
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    let state = postcard::to_stdvec(state).unwrap();
    // Generation 1 is in the second half.
    let mut later = bytes[half..half + 120].to_vec();
    later[12..16].fill(0);
    later[16..24].copy_from_slice(&2_u64.to_le_bytes());
    later[32..36].copy_from_slice(&(state.len() as u32).to_le_bytes());
    later.extend(state);
    let checksum = crc32c::crc32c(&later);
    later[12..16].copy_from_slice(&checksum.to_le_bytes());
    bytes[..later.len()].copy_from_slice(&later);
    fs::write(path, bytes).unwrap();
}

#[test]
fn gc_log_that_knows_more_than_the_log_shows_that_its_end_is_lost() {
    let _limit = Limit::of(600, "salvage of a store");
    let store = Store::young();
    let me = store.config.server;
    let record = |used| GcRecord { reserved_through: used, low_water: vec![(me, used)], ..GcRecord::default() };
    write_gc_log(&store, &record(50));
    assert!(store.check("the log has reserved more").found.is_whole());
    write_gc_log(&store, &record(1 << 40));
    let got = store.check("a record that reserves numbers is lost");
    assert!(matches!(got.found.moment, Moment::Before(_)), "{}", shown(&got));
    assert!(shown(&got).contains("numbers up to 1099511627776"), "{}", shown(&got));
}
