//! Transactions of this client that are being decided: whether they are committed is known to the
//! server before it is to the client.

use std::collections::HashMap;

use crate::options::Namespace;

/// The most collections of which decisions are counted.
const MAX_COLLECTIONS: usize = 10_000;

/// Decisions of one collection.
#[derive(Clone, Copy, Default)]
struct Count {
    /// Number of those that have ever begun.
    begun: u64,
    /// Number of transactions that are being decided.
    open: usize,
}

/// Decisions by the collections that their transactions have written to.
#[derive(Default)]
pub(super) struct Decisions {
    counts: HashMap<Namespace, Count>,
    /// Counts decisions of collections that were forgotten.
    forgotten: u64,
}

impl Decisions {
    pub(super) fn begin(&mut self, written: &[Namespace]) {
        if self.counts.len() >= MAX_COLLECTIONS {
            self.counts.retain(|_, count| count.open > 0);
            self.forgotten += 1;
        }
        for ns in written {
            let count = self.counts.entry(ns.clone()).or_default();
            count.begun += 1;
            count.open += 1;
        }
    }

    pub(super) fn end(&mut self, written: &[Namespace]) {
        for ns in written {
            if let Some(count) = self.counts.get_mut(ns) {
                count.open = count.open.saturating_sub(1);
            }
        }
    }

    /// Is a transaction being decided that has written to this collection?
    pub(super) fn are_open(&self, ns: &Namespace) -> bool {
        self.counts.get(ns).is_some_and(|count| count.open > 0)
    }

    /// A number that changes when a decision begins in one of these collections.
    pub(super) fn number(&self, collections: &[&Namespace]) -> u64 {
        let begun = |ns: &&Namespace| self.counts.get(ns).map_or(0, |count| count.begun);
        collections.iter().map(begun).sum::<u64>() + self.forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_decision_changes_the_number_of_the_collections_that_it_has_written_to() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Namespace::new("db", name));
        let mut decisions = Decisions::default();
        let numbers = |decisions: &Decisions| [&a, &b, &c].map(|ns| decisions.number(&[ns]));
        decisions.begin(&[a.clone(), b.clone()]);
        decisions.begin(std::slice::from_ref(&b));
        assert_eq!((numbers(&decisions), decisions.number(&[&a, &c])), ([1, 2, 0], 1));
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
        decisions.begin(std::slice::from_ref(&a));
        let before = decisions.number(&[&a]);
        decisions.end(std::slice::from_ref(&a));
        for n in 0..=MAX_COLLECTIONS {
            let other = [Namespace::new("db", &n.to_string())];
            decisions.begin(&other);
            decisions.end(&other);
        }
        decisions.begin(std::slice::from_ref(&a));
        assert!(decisions.number(&[&a]) > before);
    }
}
