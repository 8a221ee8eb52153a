//! Forecast of whether a transaction commits right behind an insert, from what came behind the
//! inserts like it: into the same collection, after as many reads and writes.
//!
//! No correctness rests on it. A wrong one costs the server reads that are not needed
//! (`crate::command::isolation::validation_ahead`).

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
};

use crate::options::Namespace;

/// Number of kinds of inserts that are distinguished; others share a place with one of them.
const PLACES: usize = 256;
/// Number of commits in a row after which another is expected.
const EXPECTED: u8 = 2;

/// For each kind of insert, the number of commits in a row that came right behind one.
pub(crate) struct Forecast([AtomicU8; PLACES]);

impl Default for Forecast {
    fn default() -> Self {
        Self([const { AtomicU8::new(0) }; PLACES])
    }
}

impl Forecast {
    /// The forecast for an insert into `ns` by a transaction that has made `reads` reads, and holds
    /// `held` documents.
    pub(crate) fn after(self: &Arc<Self>, ns: &Namespace, reads: usize, held: usize) -> InsertForecast {
        // The same in every process, so that a run can be repeated.
        let mut hasher = DefaultHasher::new();
        (&ns.db, &ns.coll, reads, held).hash(&mut hasher);
        InsertForecast { forecast: Arc::clone(self), place: hasher.finish() as usize % PLACES }
    }
}

/// The forecast for one insert.
pub(crate) struct InsertForecast {
    forecast: Arc<Forecast>,
    place: usize,
}

impl InsertForecast {
    fn place(&self) -> &AtomicU8 {
        &self.forecast.0[self.place]
    }

    /// Returns true if a commit is expected to come next.
    pub(crate) fn is_commit(&self) -> bool {
        self.place().load(Relaxed) >= EXPECTED
    }

    /// Notes the event that came next.
    pub(crate) fn note(&self, is_commit: bool) {
        let count = |commits: u8| Some(if is_commit { commits.saturating_add(1) } else { 0 });
        let _ = self.place().fetch_update(Relaxed, Relaxed, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_expected_after_two_in_a_row() {
        let (forecast, ns) = (Arc::<Forecast>::default(), Namespace::new("d", "c"));
        let guess = || forecast.after(&ns, 1, 3);
        let expected = [(true, false), (true, true), (true, true), (false, false), (true, false), (true, true)];
        for (is_commit, is_expected) in expected {
            guess().note(is_commit);
            assert_eq!(guess().is_commit(), is_expected);
        }
        assert!(!forecast.after(&ns, 2, 3).is_commit(), "after another number of reads");
        (0..1_000).for_each(|_| guess().note(true));
        assert!(guess().is_commit());
    }
}
