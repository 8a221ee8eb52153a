//! Transactions of this client that are being decided: whether they are committed is known to the
//! server before it is to the client.

use std::collections::HashMap;

use crate::options::Namespace;

/// The most collections of which decisions are counted.
const MAX_COLLECTIONS: usize = 10_000;

/// Numbers of the decisions of transactions that have written to one collection.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Number of the last one that has begun, among those of all collections.
    last: u64,
    /// Number of transactions that are being decided.
    open: usize,
}

/// Decisions by the collections that their transactions have written to.
#[derive(Default)]
pub(super) struct Decisions {
    /// Number of those that have ever begun.
    begun: u64,
    /// That number when collections were forgotten the last time.
    forgotten: u64,
    known: HashMap<Namespace, Known>,
}

impl Decisions {
    pub(super) fn begin(&mut self, written: &[Namespace]) {
        self.begun += 1;
        if self.known.len() >= MAX_COLLECTIONS {
            self.known.retain(|_, known| known.open > 0);
            self.forgotten = self.begun;
        }
        for ns in written {
            let known = self.known.entry(ns.clone()).or_default();
            known.last = self.begun;
            known.open += 1;
        }
    }

    pub(super) fn end(&mut self, written: &[Namespace]) {
        for ns in written {
            if let Some(known) = self.known.get_mut(ns) {
                known.open = known.open.saturating_sub(1);
            }
        }
    }

    /// Returns true if a transaction is being decided that has written to this collection.
    pub(super) fn are_open(&self, ns: &Namespace) -> bool {
        self.known.get(ns).is_some_and(|known| known.open > 0)
    }

    /// Number of the last decision that has begun in one of these collections.
    pub(super) fn last(&self, collections: &[&Namespace]) -> u64 {
        let last = |ns: &&Namespace| self.known.get(ns).map_or(0, |known| known.last);
        collections.iter().map(last).max().unwrap_or(0).max(self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_changes_the_number_of_the_collections_that_it_has_written_to() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Namespace::new("db", name));
        let mut decisions = Decisions::default();
        let numbers = |decisions: &Decisions| [&a, &b, &c].map(|ns| decisions.last(&[ns]));
        decisions.begin(&[a.clone(), b.clone()]);
        decisions.begin(std::slice::from_ref(&b));
        assert_eq!((numbers(&decisions), decisions.last(&[&a, &c])), ([1, 2, 0], 1));
        decisions.end(std::slice::from_ref(&b));
        assert!(decisions.are_open(&a) && decisions.are_open(&b) && !decisions.are_open(&c));
        decisions.end(&[a.clone(), b.clone()]);
        assert_eq!(numbers(&decisions), [1, 2, 0]);
        assert!(!decisions.are_open(&a) && !decisions.are_open(&b));
    }

    #[test]
    fn forgotten_collections_do_not_get_an_earlier_number() {
        let a = Namespace::new("db", "a");
        let mut decisions = Decisions::default();
        for _ in 0..5 {
            decisions.begin(std::slice::from_ref(&a));
            decisions.end(std::slice::from_ref(&a));
        }
        decisions.begin(std::slice::from_ref(&a));
        let before = decisions.last(&[&a]);
        decisions.end(std::slice::from_ref(&a));
        for n in 0..=MAX_COLLECTIONS {
            let other = [Namespace::new("db", &n.to_string())];
            decisions.begin(&other);
            decisions.end(&other);
        }
        decisions.begin(std::slice::from_ref(&a));
        assert!(decisions.last(&[&a]) > before);
    }
}
