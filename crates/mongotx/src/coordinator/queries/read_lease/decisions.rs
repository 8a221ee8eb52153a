//! Transactions of this client that are being decided: whether they are committed is known to the
//! server before it is to the client. And those that have begun to be decided last, with what they
//! have changed: a query may show what they have left where it is (decision 0077).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use protocol::TxId;

use crate::{
    coordinator::request::{fields::Fields, own_key::OwnKey},
    options::Namespace,
};

/// The most collections of which decisions are counted.
const MAX_COLLECTIONS: usize = 10_000;
/// Decisions of one collection that are remembered one by one, and of all collections.
const REMEMBERED: usize = 128;
const MAX_REMEMBERED: usize = 16_384;

/// Changes that a transaction has made in one collection.
#[derive(Clone, Debug)]
pub(crate) struct CollectionChanges {
    pub(crate) ns: Namespace,
    /// Fields that it has changed; all of them if it has inserted or removed a document.
    pub(crate) fields: Fields,
    /// Documents that it has written to. `None`: more than are remembered, or some whose `_id`
    /// equals others.
    pub(crate) documents: Option<Arc<[OwnKey]>>,
}

/// Fields on which it depends which documents a query finds, and how the server scans for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundBy {
    /// The `_id` alone, which no document changes: the query fetches also what comes and goes.
    Id,
    Fields(Fields),
}

impl FoundBy {
    /// Returns true if a change of these fields makes a difference.
    pub(super) fn is_disturbed_by(&self, changed: &Fields) -> bool {
        match self {
            Self::Id => false,
            Self::Fields(fields) => changed.meet(fields),
        }
    }
}

/// A transaction that has begun to be decided, and its changes in one collection.
#[derive(Clone, Debug)]
pub(crate) struct BegunDecision {
    number: u64,
    pub(crate) id: TxId,
    pub(super) fields: Fields,
    pub(super) documents: Option<Arc<[OwnKey]>>,
    /// True while the decision is under way.
    is_open: bool,
}

/// Decisions of transactions that have written to one collection.
#[derive(Default)]
struct CollectionDecisions {
    /// Number of the last one that has begun, among those of all collections.
    last: u64,
    /// Number of transactions that are being decided.
    open: usize,
    /// The last ones that have begun, without those at the front whose documents are clean.
    recent: VecDeque<BegunDecision>,
    /// Number of the last one that is remembered no more, or 0.
    dropped: u64,
    /// True if one is remembered no more that may have left something.
    has_older: bool,
}

/// Decisions by the collections that their transactions have written to.
#[derive(Default)]
pub(super) struct Decisions {
    /// Number of those that have ever begun.
    begun: u64,
    /// Number of decisions that had begun when collections were forgotten the last time.
    forgotten: u64,
    known: HashMap<Namespace, CollectionDecisions>,
    /// Number of decisions that are remembered, in all collections.
    remembered: usize,
}

impl Decisions {
    /// Notes that a transaction begins to be decided. Returns its number. `is_left` says whether a
    /// transaction that was decided has left something in a collection.
    pub(super) fn begin(
        &mut self,
        id: TxId,
        written: &[CollectionChanges],
        is_left: impl Fn(&Namespace, TxId) -> bool,
    ) -> u64 {
        self.begun += 1;
        if self.remembered + written.len() > MAX_REMEMBERED {
            self.known.values_mut().for_each(CollectionDecisions::forget);
            self.remembered = 0;
        }
        if self.known.len() >= MAX_COLLECTIONS {
            self.known.retain(|_, known| known.open > 0);
            self.remembered = self.known.values().map(|known| known.recent.len()).sum();
            self.forgotten = self.begun;
        }
        let (number, is_forgotten) = (self.begun, self.forgotten > 0);
        for CollectionChanges { ns, fields, documents } in written {
            let new = || CollectionDecisions { has_older: is_forgotten, ..CollectionDecisions::default() };
            let known = self.known.entry(ns.clone()).or_insert_with(new);
            known.last = number;
            known.open += 1;
            if known.recent.len() >= REMEMBERED
                && let Some(first) = known.recent.pop_front()
            {
                known.dropped = first.number;
                known.has_older |= first.is_open || is_left(ns, first.id);
                self.remembered -= 1;
            }
            let (fields, documents) = (fields.clone(), documents.clone());
            known.recent.push_back(BegunDecision { number, id, fields, documents, is_open: true });
            self.remembered += 1;
        }
        number
    }

    /// Notes that the decision with this number is over.
    pub(super) fn end(&mut self, number: u64, written: &[CollectionChanges]) {
        for CollectionChanges { ns, .. } in written {
            if let Some(known) = self.known.get_mut(ns) {
                known.open = known.open.saturating_sub(1);
                let mut latest = known.recent.iter_mut().rev();
                latest.find(|one| one.number == number).into_iter().for_each(|one| one.is_open = false);
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

    /// Number of the last decision that has begun in any collection.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The same, if no transaction is being decided that has written to this collection.
    pub(super) fn begun_and_over(&self, ns: &Namespace) -> Option<u64> {
        (!self.are_open(ns)).then_some(self.begun)
    }

    /// Notes that nothing was left in the collection when decisions up to this number had begun,
    /// and those in the collection were over.
    pub(super) fn nothing_is_left(&mut self, ns: &Namespace, by: u64) {
        if let Some(known) = self.known.get_mut(ns).filter(|known| known.open == 0 && known.last <= by) {
            self.remembered -= known.recent.len();
            known.forget();
            known.has_older = false;
        }
    }

    /// The decisions that are under way in the collection, if no change that makes a difference may
    /// be left there, or is about to be: `is_left` says whether a transaction that was decided has
    /// left something. Forgets those that have not.
    pub(super) fn beside(
        &mut self,
        ns: &Namespace,
        found_by: &FoundBy,
        is_left: impl Fn(TxId) -> bool,
    ) -> Option<Vec<BegunDecision>> {
        let known = self.known.get_mut(ns)?;
        while let Some(first) = known.recent.front().filter(|one| !one.is_open && !is_left(one.id)) {
            known.dropped = first.number;
            known.recent.pop_front();
            self.remembered -= 1;
        }
        let is_disturbed =
            |one: &BegunDecision| found_by.is_disturbed_by(&one.fields) && (one.is_open || is_left(one.id));
        if known.has_older || known.recent.iter().any(is_disturbed) {
            return None;
        }
        let open: Vec<BegunDecision> = known.recent.iter().filter(|one| one.is_open).cloned().collect();
        (open.len() == known.open).then_some(open)
    }

    /// The decisions of this collection that have begun after the one with this number. `None`:
    /// some of them are not remembered.
    pub(super) fn since(&self, ns: &Namespace, number: u64) -> Option<Vec<BegunDecision>> {
        let known = self.known.get(ns).filter(|known| known.dropped <= number && self.forgotten <= number)?;
        Some(known.recent.iter().filter(|one| one.number > number).cloned().collect())
    }
}

impl CollectionDecisions {
    /// Forgets the decisions one by one: any of them may have left something.
    fn forget(&mut self) {
        self.dropped = self.recent.back().map_or(self.dropped, |last| last.number);
        self.has_older |= !self.recent.is_empty();
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use protocol::ClientId;

    use super::*;

    fn written(ns: &Namespace) -> CollectionChanges {
        CollectionChanges { ns: ns.clone(), fields: Fields::All, documents: None }
    }

    fn id(seq: u64) -> TxId {
        TxId { client: ClientId([1; 12]), seq }
    }

    #[test]
    fn each_decision_changes_the_number_of_the_collections_that_it_has_written_to() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Namespace::new("db", name));
        let mut decisions = Decisions::default();
        let numbers = |decisions: &Decisions| [&a, &b, &c].map(|ns| decisions.last(&[ns]));
        let (both, second) = ([written(&a), written(&b)], [written(&b)]);
        let begun = [decisions.begin(id(1), &both, |_, _| true), decisions.begin(id(2), &second, |_, _| true)];
        assert_eq!((begun, numbers(&decisions), decisions.last(&[&a, &c])), ([1, 2], [1, 2, 0], 1));
        decisions.end(begun[1], &second);
        assert!(decisions.are_open(&a) && decisions.are_open(&b) && !decisions.are_open(&c));
        decisions.end(begun[0], &both);
        assert_eq!(numbers(&decisions), [1, 2, 0]);
        assert!(!decisions.are_open(&a) && !decisions.are_open(&b));
    }

    #[test]
    fn forgotten_collections_do_not_get_an_earlier_number_and_may_have_older_changes() {
        let a = Namespace::new("db", "a");
        let mut decisions = Decisions::default();
        let decided = |decisions: &mut Decisions, ns: &Namespace| {
            let number = decisions.begin(id(1), &[written(ns)], |_, _| true);
            decisions.end(number, &[written(ns)]);
            decisions.last(&[&a])
        };
        let before = decided(&mut decisions, &a);
        for n in 0..=MAX_COLLECTIONS {
            decided(&mut decisions, &Namespace::new("db", &n.to_string()));
        }
        assert!(decisions.since(&a, before).is_none(), "some are forgotten");
        assert!(
            decisions.beside(&a, &FoundBy::Fields(Fields::none()), |_| true).is_none(),
            "it may have left anything"
        );
        assert!(decided(&mut decisions, &a) > before);
        assert!(decisions.beside(&a, &FoundBy::Fields(Fields::none()), |_| true).is_none(), "before, too");
        let over = decisions.begun_and_over(&a).unwrap();
        decisions.nothing_is_left(&a, over);
        assert!(decisions.beside(&a, &FoundBy::Fields(Fields::none()), |_| true).is_some());
    }

    #[test]
    fn the_last_decisions_are_remembered_and_it_is_known_which_are_not() {
        let a = Namespace::new("db", "a");
        let mut decisions = Decisions::default();
        let since = |decisions: &Decisions, number| {
            let since = decisions.since(&a, number);
            since.map(|since| since.iter().map(|one| one.number).collect::<Vec<_>>())
        };
        for n in 1..=3 {
            decisions.begin(id(n), &[written(&a)], |_, _| true);
        }
        assert_eq!((since(&decisions, 1), since(&decisions, 3)), (Some(vec![2, 3]), Some(vec![])));
        for n in 4..=REMEMBERED as u64 + 1 {
            decisions.begin(id(n), &[written(&a)], |_, _| true);
        }
        assert!(since(&decisions, 0).is_none() && since(&decisions, 1).is_some());
    }

    #[test]
    fn what_is_left_or_being_decided_stands_beside_queries_of_other_fields() {
        let a = Namespace::new("db", "a");
        let field = |name: &str| Fields::Of(Arc::new([name.to_owned()].into()));
        let of = |fields| [CollectionChanges { ns: a.clone(), fields, documents: None }];
        let open = |decisions: &mut Decisions, name: &str, left: &[u64]| {
            let open = decisions.beside(&a, &FoundBy::Fields(field(name)), |id| left.contains(&id.seq));
            open.map(|open| open.iter().map(|one| one.id.seq).collect::<Vec<_>>())
        };
        let mut decisions = Decisions::default();
        let first = decisions.begin(id(1), &of(field("x")), |_, _| true);
        assert_eq!((open(&mut decisions, "x", &[]), open(&mut decisions, "y", &[])), (None, Some(vec![1])));
        decisions.begin(id(2), &of(field("z")), |_, _| true);
        decisions.end(first, &of(field("x")));
        assert_eq!((open(&mut decisions, "x", &[1]), open(&mut decisions, "y", &[1])), (None, Some(vec![2])));
        assert_eq!(open(&mut decisions, "x", &[]), Some(vec![2]), "it is clean, and forgotten");
        assert!(decisions.since(&a, 0).is_none() && decisions.since(&a, 1).is_some());
        assert_eq!(open(&mut decisions, "z", &[]), None);
        decisions.begin(id(3), &of(Fields::All), |_, _| true);
        assert_eq!(open(&mut decisions, "y", &[]), None, "a document comes or goes");
        assert!(decisions.beside(&a, &FoundBy::Id, |_| true).is_some_and(|open| open.len() == 2));
    }

    #[test]
    fn one_that_is_stuck_and_forgotten_keeps_queries_away() {
        let a = Namespace::new("db", "a");
        let mut decisions = Decisions::default();
        for n in 1..=REMEMBERED as u64 + 1 {
            let none = [CollectionChanges { ns: a.clone(), fields: Fields::none(), documents: None }];
            let number = decisions.begin(id(n), &none, |_, _| true);
            if n > 1 {
                decisions.end(number, &none);
            }
        }
        assert!(decisions.beside(&a, &FoundBy::Fields(Fields::none()), |_| false).is_none());
    }
}
