//! Results of look-ups of collections, and the commands that may be working by them.
//!
//! Before a unique index is made, the result of this client's last look-up is forgotten, and then
//! every command that still works by it is waited for: also one that has sent its look-up before
//! and has no answer yet, and one that holds a result forgotten long ago.

use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{Collection, FRESH, MAX_CACHED};
use crate::{coordinator::stamps::moment::Moment, options::Namespace};

/// Number of groups that collections are counted in: a collection that is forgotten costs others of
/// its group another look-up.
const GROUPS: usize = 256;

/// Results of this client's last look-up of each collection.
#[derive(Default)]
pub(super) struct CollectionCache {
    state: Mutex<State>,
    groups: RandomState,
}

/// The look-ups that are remembered, and which of them count no more.
struct State {
    /// Time of the last look-up of each collection, and its result.
    fresh: HashMap<Namespace, (Moment, Arc<Collection>)>,
    /// All that was handed out and may be in use.
    handed_out: HashMap<Namespace, Vec<Weak<Collection>>>,
    /// For each group of collections, how often one was forgotten.
    forgotten: [u64; GROUPS],
    /// Look-ups that were sent up to this moment do not count any more.
    outdated: Option<Moment>,
}

impl Default for State {
    fn default() -> Self {
        Self { fresh: HashMap::new(), handed_out: HashMap::new(), forgotten: [0; GROUPS], outdated: None }
    }
}

/// A look-up that is under way.
#[derive(Clone, Copy)]
pub(super) struct PendingLookUp {
    at: Moment,
    forgotten: u64,
}

impl CollectionCache {
    fn state(&self) -> MutexGuard<'_, State> {
        // Each of the three is whole whenever something could panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn group(&self, ns: &Namespace) -> usize {
        usize::try_from(self.groups.hash_one(ns) % GROUPS as u64).unwrap_or(0)
    }

    /// The result of the last look-up, if that was a moment ago.
    pub(super) fn get(&self, ns: &Namespace) -> Option<Arc<Collection>> {
        let state = self.state();
        let (asked, found) = state.fresh.get(ns)?;
        let counts = asked.elapsed() < FRESH && state.outdated.is_none_or(|outdated| asked.is_after(outdated));
        counts.then(|| Arc::clone(found))
    }

    /// Look-ups that were sent up to this moment do not count any more.
    pub(super) fn outdate(&self, at: Moment) {
        let mut state = self.state();
        if state.outdated.is_none_or(|outdated| at.is_after(outdated)) {
            state.outdated = Some(at);
        }
    }

    /// Notes that a look-up is about to be sent.
    pub(super) fn begin(&self, ns: &Namespace) -> PendingLookUp {
        PendingLookUp { at: Moment::now(), forgotten: self.state().forgotten[self.group(ns)] }
    }

    /// Takes the server's answer. `None` if the collection was forgotten meanwhile: the answer may
    /// be older than that. If the collection `is_there`, the answer is used again for a while.
    pub(super) fn learn(
        &self,
        ns: &Namespace,
        begun: PendingLookUp,
        is_there: bool,
        found: Collection,
    ) -> Option<Arc<Collection>> {
        let mut state = self.state();
        if state.forgotten[self.group(ns)] != begun.forgotten {
            return None;
        }
        if state.handed_out.len() >= MAX_CACHED {
            state.fresh.clear();
            state.handed_out.retain(|_, all| all.iter().any(|one| one.strong_count() > 0));
        }
        let found = Arc::new(found);
        let handed_out = state.handed_out.entry(ns.clone()).or_default();
        handed_out.retain(|one| one.strong_count() > 0);
        handed_out.push(Arc::downgrade(&found));
        let is_newer = state.fresh.get(ns).is_none_or(|(asked, _)| !asked.is_after(begun.at));
        if is_there && is_newer {
            state.fresh.insert(ns.clone(), (begun.at, Arc::clone(&found)));
        }
        Some(found)
    }

    /// Forgets the collection, so that the next look-up reads from the server. Returns the results
    /// by which commands may still be working.
    pub(super) fn forget(&self, ns: &Namespace) -> Vec<Weak<Collection>> {
        let mut state = self.state();
        let group = self.group(ns);
        state.forgotten[group] += 1;
        state.fresh.remove(ns);
        let Some(all) = state.handed_out.get_mut(ns) else { return Vec::new() };
        all.retain(|one| one.strong_count() > 0);
        let all = all.clone();
        if all.is_empty() {
            state.handed_out.remove(ns);
        }
        all
    }

    /// Forgets all collections of a database.
    pub(super) fn forget_database(&self, db: &str) {
        let mut state = self.state();
        state.forgotten.iter_mut().for_each(|count| *count += 1);
        state.fresh.retain(|ns, _| ns.db != db);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(cache: &CollectionCache, ns: &Namespace) -> Arc<Collection> {
        cache.learn(ns, cache.begin(ns), true, Collection::default()).unwrap()
    }

    #[test]
    fn an_answer_from_before_it_was_forgotten_is_not_learned() {
        let (cache, ns) = (CollectionCache::default(), Namespace::new("db", "c"));
        let begun = cache.begin(&ns);
        cache.forget(&ns);
        assert!(cache.learn(&ns, begun, true, Collection::default()).is_none());
        let begun = cache.begin(&ns);
        cache.forget_database("db");
        assert!(cache.learn(&ns, begun, true, Collection::default()).is_none());
        assert!(cache.get(&ns).is_none());
        learn(&cache, &ns);
        assert!(cache.get(&ns).is_some());
    }

    #[test]
    fn what_is_outdated_does_not_count_and_what_was_asked_later_does() {
        let (cache, ns) = (CollectionCache::default(), Namespace::new("db", "c"));
        let begun = cache.begin(&ns);
        let outdated = Moment::now();
        cache.learn(&ns, begun, true, Collection::default()).unwrap();
        assert!(cache.get(&ns).is_some());
        cache.outdate(outdated);
        assert!(cache.get(&ns).is_none(), "it was answered later, and asked earlier");
        let later = learn(&cache, &ns);
        cache.outdate(begun.at);
        let is_later = |found: Option<Arc<Collection>>| found.is_some_and(|found| Arc::ptr_eq(&found, &later));
        assert!(is_later(cache.get(&ns)), "nothing that is later is outdated by what was earlier");
        cache.learn(&ns, begun, true, Collection::default()).unwrap();
        assert!(is_later(cache.get(&ns)), "an answer that took longer to come is older");
    }

    #[test]
    fn whoever_holds_what_was_forgotten_before_is_waited_for_too() {
        let (cache, ns) = (CollectionCache::default(), Namespace::new("db", "c"));
        let first = learn(&cache, &ns);
        cache.forget(&ns);
        let second = learn(&cache, &ns);
        assert_eq!(cache.forget(&ns).len(), 2);
        drop(first);
        assert_eq!(cache.forget(&ns).len(), 1);
        drop(second);
        assert!(cache.forget(&ns).is_empty());
        let missing = cache.learn(&ns, cache.begin(&ns), false, Collection::default());
        assert!(cache.get(&ns).is_none());
        assert_eq!(cache.forget(&ns).len(), 1);
        drop(missing);
    }
}
