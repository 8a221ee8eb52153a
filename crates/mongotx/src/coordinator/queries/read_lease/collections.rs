//! Collections as a read lease knows them: in which server process each was settled, how long its
//! queries have probes, and when what is left there is finished for queries.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use bson::oid::ObjectId;

use crate::{backoff::Backoff, options::Namespace};

/// Pauses before another query without a probe, in a collection where decisions have made the last
/// one worthless.
const BUSY_PAUSES: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(2));
/// Pause between two times that what is left in a collection is finished for queries: what is
/// committed meanwhile is finished together.
const FINISHING: Duration = Duration::from_millis(10);
/// Time for which a collection that could not be settled is left alone, and one whose settling was
/// given up.
const UNSETTLED: Duration = Duration::from_secs(10);
const GIVEN_UP: Duration = Duration::from_secs(1);
/// The most collections that are remembered.
const MAX_COLLECTIONS: usize = 10_000;

/// Knowledge about one collection in this lease.
enum CollectionState {
    /// The collection was settled in this server process. `Some`: its queries have probes until
    /// this time; the back-off gives the length of the next such period.
    Settled(ObjectId, Option<(Instant, Backoff)>),
    /// The collection could not be settled. No attempt is made before this time.
    Unsettled(Instant),
}

/// Result of settling a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettlingEnd {
    /// Nothing that is decided is left there.
    Clean,
    /// Something is left there that could not be finished.
    NotClean,
    /// The task that settled it was stopped.
    GivenUp,
}

/// Work that has to be done before a collection is asked without a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preparation {
    Nothing,
    /// The caller is to settle the collection: it is noted that it does.
    Settle,
    /// The collection is being settled, or could not be a moment ago.
    Wait,
}

/// The collections of a lease, and pauses in them that outlive it.
#[derive(Default)]
pub(super) struct Collections {
    known: HashMap<Namespace, CollectionState>,
    settling: HashSet<Namespace>,
    /// Collections in which the last query has met what this client has left, and the time before
    /// which that is not finished for another one.
    met: HashMap<Namespace, Instant>,
    /// Collections in which a query beside what is left was in vain, and the time until which there
    /// is no other.
    in_vain: HashMap<Namespace, (Instant, Backoff)>,
}

impl Collections {
    /// Returns true if queries of the collection have probes now, whether it is settled or not.
    pub(super) fn is_probed(&self, ns: &Namespace, now: Instant) -> bool {
        let until = match self.known.get(ns) {
            Some(CollectionState::Settled(_, Some((until, _))) | CollectionState::Unsettled(until)) => Some(*until),
            Some(CollectionState::Settled(_, None)) | None => None,
        };
        until.is_some_and(|until| now < until)
    }

    /// Returns true if the collection was settled in this server process.
    pub(super) fn is_settled(&self, ns: &Namespace, process: ObjectId) -> bool {
        matches!(self.known.get(ns), Some(CollectionState::Settled(settled, _)) if *settled == process)
    }

    /// Work that has to be done before the collection is asked in this server process.
    pub(super) fn prepare(&mut self, ns: &Namespace, process: ObjectId) -> Preparation {
        if self.is_settled(ns, process) {
            return Preparation::Nothing;
        }
        let is_paused =
            matches!(self.known.get(ns), Some(CollectionState::Unsettled(until)) if Instant::now() < *until);
        if is_paused || !self.settling.insert(ns.clone()) {
            return Preparation::Wait;
        }
        Preparation::Settle
    }

    /// Settling this collection has ended, whatever came of it.
    pub(super) fn stop_settling(&mut self, ns: &Namespace) {
        self.settling.remove(ns);
    }

    /// Remembers how settling the collection in this server process has ended.
    pub(super) fn note_settled(&mut self, ns: &Namespace, process: ObjectId, settled: SettlingEnd) {
        if self.known.len() >= MAX_COLLECTIONS {
            self.known.clear();
        }
        let known = match settled {
            SettlingEnd::Clean => CollectionState::Settled(process, None),
            SettlingEnd::NotClean => CollectionState::Unsettled(Instant::now() + UNSETTLED),
            SettlingEnd::GivenUp => CollectionState::Unsettled(Instant::now() + GIVEN_UP),
        };
        self.known.insert(ns.clone(), known);
    }

    /// Notes the answer to a query without a probe. After one that a decision has disturbed, the
    /// collection has probes for a while, twice as long each time.
    pub(super) fn note_answer(&mut self, ns: &Namespace, is_undisturbed: bool) {
        let Some(CollectionState::Settled(_, busy)) = self.known.get_mut(ns) else { return };
        *busy = if is_undisturbed { None } else { Some(paused(*busy, Instant::now())) };
    }

    /// Notes whether a query beside what is left was answered so. After one in vain the collection
    /// has none for a while, twice as long each time.
    pub(super) fn note_beside(&mut self, ns: &Namespace, is_answered: bool) {
        if is_answered {
            self.in_vain.remove(ns);
            return;
        }
        if self.in_vain.len() >= MAX_COLLECTIONS {
            self.in_vain.clear();
        }
        let pause = paused(self.in_vain.get(ns).copied(), Instant::now());
        self.in_vain.insert(ns.clone(), pause);
    }

    /// Returns true if a query beside what is left was in vain in this collection a moment ago.
    pub(super) fn was_in_vain(&self, ns: &Namespace) -> bool {
        self.in_vain.get(ns).is_some_and(|(until, _)| Instant::now() < *until)
    }

    /// Notes a query that has met what this client has left in the collection. Returns true if that
    /// is to be finished now: not for the very first such query, which may be the only one, and not
    /// again within a short time.
    pub(super) fn meets_left(&mut self, ns: &Namespace) -> bool {
        let now = Instant::now();
        if self.met.len() >= MAX_COLLECTIONS {
            self.met.retain(|_, until| now < *until);
        }
        match self.met.insert(ns.clone(), now + FINISHING) {
            Some(until) if now < until => {
                self.met.insert(ns.clone(), until);
                false
            }
            before => before.is_some(),
        }
    }

    /// Forgets what holds for one lease only.
    pub(super) fn lose(&mut self) {
        self.known.clear();
        self.met.clear();
    }
}

/// The pause after this one: the time until which it lasts. While that one lasts, it stands: the
/// queries that were under way when it began are mostly disturbed by the same decision.
fn paused(before: Option<(Instant, Backoff)>, now: Instant) -> (Instant, Backoff) {
    match before {
        Some((until, backoff)) if now < until => (until, backoff),
        before => {
            let mut backoff = before.map_or(BUSY_PAUSES, |(_, backoff)| backoff);
            (now + backoff.next_pause(), backoff)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_finished_for_queries_from_time_to_time() {
        let (mut collections, ns) = (Collections::default(), Namespace::new("db", "c"));
        let mut meets = || collections.meets_left(&ns);
        assert_eq!([meets(), meets()], [false; 2], "not at once");
        let mut times = 0;
        let begun = Instant::now();
        while times < 3 {
            times += u32::from(meets());
        }
        assert!(begun.elapsed() >= 2 * FINISHING, "it is finished together");
    }

    #[test]
    fn queries_beside_what_is_left_pause_after_one_in_vain() {
        let (mut collections, ns) = (Collections::default(), Namespace::new("db", "c"));
        assert!(!collections.was_in_vain(&ns));
        collections.note_beside(&ns, false);
        assert!(collections.was_in_vain(&ns));
        collections.note_beside(&ns, true);
        assert!(!collections.was_in_vain(&ns));
    }

    #[test]
    fn a_pause_is_longer_than_the_one_before_and_is_not_made_longer_while_it_lasts() {
        let begun = Instant::now();
        let first = paused(None, begun);
        assert_eq!(paused(Some(first), begun), first, "as others that were under way");
        let second = paused(Some(first), first.0);
        assert!(second.0 > first.0);
        assert_ne!(second.1, first.1, "the next one is longer");
    }
}
