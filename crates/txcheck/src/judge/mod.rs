//! Names the anomalies in a recorded history.
//!
//! | anomaly | by | what it is |
//! | --- | --- | --- |
//! | P0 | Berenson | a write over what another transaction has written and not ended yet |
//! | P1 | Berenson | a read of what another transaction has written and not committed yet |
//! | G0, G1a, G1b, G1c | Adya | write cycles; aborted and intermediate reads; cycles of information |
//! | lost update (P4) | Berenson | a version that came between a read and its reader's own write is written over |
//! | non-repeatable read (P2) | Berenson | one document, read twice, differs |
//! | G-single | Adya | a cycle with one anti-dependency: read skew, and lost updates and others besides |
//! | G2-item | Adya | a cycle with more of them, all on documents that were read: write skew |
//! | phantom (P3) | Berenson | a document that was not there at the first look is there at the second |
//! | G2 | Adya | a cycle that needs an anti-dependency on a document that was *not* there |
//! | stale read | - | a read that began after a commit was acknowledged and does not see it |
//! | missed own write, lost write | - | neither may ever happen, at any level |
//!
//! P0, P1, P2, P3 and stale reads are judged for all transactions, those that are rolled back later
//! included. Cycles and lost updates are matters of committed transactions: an update that the
//! database refused is not lost but prevented.

mod cycles;
mod dirty;
mod repeats;
#[cfg(test)]
mod tests;
mod versions;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{history::History, plan::Item};

/// The anomalies that are recognized, as in the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// P0: a write over another transaction's uncommitted write.
    DirtyWrite,
    /// P1: a read of another transaction's uncommitted write.
    DirtyRead,
    /// G0: a cycle of writes alone, by Adya.
    G0,
    /// G1a: a read of a write that was rolled back.
    G1a,
    /// G1b: a read of a value that its writer replaced later.
    G1b,
    /// G1c: a cycle of writes and reads of them.
    G1c,
    /// P4: a write that rests on a value replaced since.
    LostUpdate,
    /// P2: two reads of an item with different values.
    NonRepeatableRead,
    /// G-single: read skew, values of different moments.
    GSingle,
    /// G2-item: write skew, a cycle of several anti-dependencies.
    G2Item,
    /// P3: a predicate matches other items the second time.
    Phantom,
    /// Write skew through a predicate.
    G2,
    /// The version is not the latest committed one.
    StaleRead,
    /// A transaction does not see what it has written itself.
    MissedOwnWrite,
    /// A committed write is gone.
    LostWrite,
}

impl Anomaly {
    /// All anomalies, in the order of the table.
    pub const ALL: [Self; 15] = [
        Self::DirtyWrite,
        Self::DirtyRead,
        Self::G0,
        Self::G1a,
        Self::G1b,
        Self::G1c,
        Self::LostUpdate,
        Self::NonRepeatableRead,
        Self::GSingle,
        Self::G2Item,
        Self::Phantom,
        Self::G2,
        Self::StaleRead,
        Self::MissedOwnWrite,
        Self::LostWrite,
    ];
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DirtyWrite => "dirty write (P0)",
            Self::DirtyRead => "dirty read (P1)",
            Self::G0 => "write cycle (G0)",
            Self::G1a => "aborted read (G1a)",
            Self::G1b => "intermediate read (G1b)",
            Self::G1c => "circular information flow (G1c)",
            Self::LostUpdate => "lost update (P4)",
            Self::NonRepeatableRead => "non-repeatable read (P2)",
            Self::GSingle => "read skew (G-single)",
            Self::G2Item => "write skew (G2-item)",
            Self::Phantom => "phantom (P3)",
            Self::G2 => "write skew through a predicate (G2)",
            Self::StaleRead => "stale read",
            Self::MissedOwnWrite => "missed own write",
            Self::LostWrite => "lost write",
        })
    }
}

/// The anomalies of a history, each with the first example of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report(BTreeMap<Anomaly, String>);

impl Report {
    /// Returns true if the anomaly was found.
    pub fn has(&self, anomaly: Anomaly) -> bool {
        self.0.contains_key(&anomaly)
    }

    /// All anomalies that were found, each with an example.
    pub fn iter(&self) -> impl Iterator<Item = (Anomaly, &str)> {
        self.0.iter().map(|(anomaly, example)| (*anomaly, example.as_str()))
    }

    fn note(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        self.0.entry(anomaly).or_insert_with(example);
    }
}

/// Finds all anomalies of a history.
pub fn judge(history: &History) -> Report {
    let mut report = Report::default();
    dirty::judge(history, &mut report);
    repeats::judge(history, &mut report);
    cycles::judge(history, &mut report);
    report
}

/// Every item that anything is known of.
fn items(history: &History) -> BTreeSet<Item> {
    use crate::history::Event;
    let touched = history.events.iter().filter_map(|(_, event)| match event {
        Event::Wrote(item, _) | Event::Inserted(item, _) | Event::Deleted(item) | Event::Read(item, _) => Some(*item),
        _ => None,
    });
    touched.chain(history.initial.iter().copied()).chain(history.last.keys().copied()).collect()
}
