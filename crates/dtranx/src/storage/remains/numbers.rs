//! The numbers of writes, and what they say about journals that are missing.
//!
//! The engine counts: each batch gets the next number, and so does each change of a keyspace's
//! tables, which makes a new manifest. Journals are removed oldest first, once all that they have
//! is in tables. So
//! - of the numbers between the batches that are there, no more may be missing than manifests were
//!   made;
//! - no table has a number that is above those of all batches: what goes into a table is synced in
//!   its journal before;
//! - the numbers before the first batch are in tables. Here a doubt remains: when the engine merges
//!   tables, it drops deletions, with their numbers.

use std::path::{Path, PathBuf};

use super::NAMES;
use crate::damage::Damage;

/// Numbers that may be missing without a manifest: those of what failed while the engine ended.
const SLACK: u64 = 16;

/// Numbers of the writes whose entries are in tables.
#[derive(Debug, Default)]
pub(super) struct Tabled {
    /// Highest number of an entry of any keyspace.
    highest: u64,
    /// Highest number of an entry that was in a journal before it was in a table.
    from_journals: u64,
    /// Number of manifests that were made for all keyspaces together.
    changes: u64,
    /// True if a table or a manifest is lost, so that the numbers above may be too low.
    is_incomplete: bool,
}

impl Tabled {
    /// Notes how many manifests a keyspace has had.
    pub(super) fn note_changes(&mut self, changes: u64) {
        self.changes = self.changes.saturating_add(changes);
    }

    /// Notes the highest number in a table of a keyspace; `None`: it is lost.
    pub(super) fn note(&mut self, keyspace: u64, highest: Option<u64>) {
        let Some(highest) = highest else { return self.miss() };
        self.highest = self.highest.max(highest);
        // Names are written into tables at once.
        if keyspace != NAMES {
            self.from_journals = self.from_journals.max(highest);
        }
    }

    /// Notes that a table or a manifest is lost.
    pub(super) fn miss(&mut self) {
        self.is_incomplete = true;
    }
}

/// Numbers of the batches in the journals.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Number of the first batch.
    first: Option<u64>,
    /// Number of the last batch so far.
    last: Option<u64>,
    /// Count of the numbers that are missing between the batches.
    missing: u64,
    /// The gap in which most numbers are missing.
    widest: Option<Gap>,
}

/// Numbers that are missing before a batch.
#[derive(Debug)]
struct Gap {
    path: PathBuf,
    /// Offset of the batch, in bytes.
    at: u64,
    /// First number that is missing.
    from: u64,
    /// Number of the batch behind the gap.
    until: u64,
}

impl Batches {
    /// Notes the next batch, at an offset of a journal. Returns false if its number is not above
    /// that of the batch before.
    pub(super) fn note(&mut self, path: &Path, at: u64, number: u64) -> bool {
        if self.last.is_some_and(|last| number <= last) {
            return false;
        }
        if let Some(last) = self.last {
            self.note_gap(path, at, last + 1, number);
        }
        self.first.get_or_insert(number);
        self.last = Some(number);
        true
    }

    fn note_gap(&mut self, path: &Path, at: u64, from: u64, until: u64) {
        let missing = until - from;
        self.missing = self.missing.saturating_add(missing);
        if missing > self.widest.as_ref().map_or(0, |gap| gap.until - gap.from) {
            self.widest = Some(Gap { path: path.to_owned(), at, from, until });
        }
    }

    /// Compares the numbers of all batches with those in the tables. `oldest` is the first journal,
    /// `number` its number: the journal 0 is the first that a storage ever has. Returns what is
    /// missing, without saying what is lost by it.
    pub(super) fn check(mut self, tabled: &Tabled, oldest: &Path, number: u64) -> Option<Damage> {
        let is_first = number == 0;
        if is_first && let Some(first) = self.first {
            self.note_gap(oldest, 0, 0, first);
        }
        self.check_end(tabled, oldest, is_first)
            .or_else(|| self.check_gaps(tabled))
            .or_else(|| self.check_beginning(tabled, oldest).filter(|_| !is_first))
    }

    fn check_end(&self, tabled: &Tabled, oldest: &Path, is_first: bool) -> Option<Damage> {
        let tabled = tabled.from_journals;
        let folder = oldest.parent().unwrap_or(oldest).display();
        match self.last {
            Some(last) if last < tabled => {
                let what = format!(
                    "a table has the write with number {tabled}, and the journals end with number {last}: the last \
                     journal is missing, or the end of one"
                );
                Some(Damage::of(folder, what))
            }
            None if is_first && tabled > 0 => {
                let what = format!("a table has the write with number {tabled}, and the journals have none");
                Some(Damage::of(folder, what))
            }
            _ => None,
        }
    }

    fn check_gaps(&self, tabled: &Tabled) -> Option<Damage> {
        let gap = self.widest.as_ref().filter(|_| !tabled.is_incomplete)?;
        (self.missing > tabled.changes.saturating_add(SLACK)).then(|| {
            let what = format!(
                "no batch has the numbers {} to {}, and no change of a table explains that: batches before this one \
                 are lost, or its number is damaged",
                gap.from,
                gap.until - 1
            );
            Damage::at(gap.path.display(), gap.at, what)
        })
    }

    fn check_beginning(&self, tabled: &Tabled, oldest: &Path) -> Option<Damage> {
        let first = self.first.filter(|_| !tabled.is_incomplete)?;
        let missing = first.saturating_sub(tabled.highest.saturating_add(1));
        (missing.saturating_add(self.missing) > tabled.changes.saturating_add(SLACK)).then(|| {
            let what = format!(
                "no table and no journal has the writes with the numbers {} to {}: a journal before this one is \
                 missing, or these writes were deletions, which the engine has dropped since",
                tabled.highest + 1,
                first - 1
            );
            Damage::of(oldest.display(), what)
        })
    }
}
