//! Stale reads (paper 000, 5.4.3): how long ago everything committed in a collection was surely
//! finished.
//!
//! Safe versions are the latest *finished* ones. If a settling of the whole collection began at `S`
//! and has ended, then every transaction whose commit was answered before `S` is finished there; a
//! read of safe versions that begins at `now` is then at most `now - S` old, whatever has been
//! committed since, and needs no further command.
//!
//! A read that may be `t` old looks at `S`: recent enough, and it costs its own command only. When
//! more than half of `t` has passed, the collection is settled again in the background, so that
//! reads in a row never wait. Otherwise (the first one, or one after a long pause) the read settles
//! the collection itself. So it does when another read has shown since `S` what was committed and
//! not finished: no read goes back behind that.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use bson::Document;

use super::{Pending, Settled};
use crate::{coordinator::request::query_options::QueryOptions, error::Result, options::Namespace};

/// Greatest number of collections remembered.
const MAX_COLLECTIONS: usize = 10_000;

/// When one collection was settled, and what has been read of it.
#[derive(Clone, Copy, Debug, Default)]
struct SettledTimes {
    /// Time at which the last settling that has ended began.
    settled: Option<Instant>,
    /// Time at which this client last read something that is committed and not finished: safe
    /// versions that were settled before would go back behind that.
    seen: Option<Instant>,
    /// A settling is under way in the background.
    refreshing: bool,
}

/// Times at which each collection was settled as a whole.
#[derive(Default)]
pub(crate) struct Freshness {
    known: Mutex<HashMap<Namespace, SettledTimes>>,
}

impl Freshness {
    fn change<T>(&self, ns: &Namespace, change: impl FnOnce(&mut SettledTimes) -> T) -> Option<T> {
        let mut known = self.known.lock().ok()?;
        if known.len() >= MAX_COLLECTIONS && !known.contains_key(ns) {
            known.clear();
        }
        Some(change(known.entry(ns.clone()).or_default()))
    }

    fn note(&self, ns: &Namespace, began: Instant) {
        self.change(ns, |known| known.settled = known.settled.max(Some(began)));
    }

    /// A read has shown something that is committed and not finished.
    pub(super) fn saw_unfinished(&self, ns: &Namespace) {
        self.change(ns, |known| known.seen = Some(Instant::now()));
    }

    /// Returns whether it is fresh enough, and whether it is time to settle it again.
    fn look(&self, ns: &Namespace, limit: Duration) -> (bool, bool) {
        let looked = self.change(ns, |known| {
            let age = known.settled.map(|settled| settled.elapsed());
            let fresh = age.is_some_and(|age| age <= limit) && known.settled > known.seen;
            let refresh = fresh && !known.refreshing && age.is_some_and(|age| age > limit / 2);
            known.refreshing |= refresh;
            (fresh, refresh)
        });
        looked.unwrap_or_default()
    }
}

impl Pending {
    /// Notes that a read has shown something that is committed and not finished.
    pub(crate) fn saw_unfinished(&self, ns: &Namespace) {
        self.freshness.saw_unfinished(ns);
    }

    /// Makes safe versions of `ns` at most `limit` old, but for those that cannot be finished.
    /// Sends nothing if they are known to be.
    pub(crate) async fn freshen(&self, ns: &Namespace, limit: Duration) -> Result<Settled> {
        let (fresh, refresh) = self.freshness.look(ns, limit);
        if let Some(this) = self.this.upgrade().filter(|_| refresh) {
            let ns = ns.clone();
            self.runtime.spawn(async move {
                if let Err(error) = this.settle_whole(&ns).await {
                    tracing::debug!(%ns, %error, "a collection could not be settled for stale reads");
                }
                this.freshness.change(&ns, |known| known.refreshing = false);
            });
        }
        if fresh { Ok(Settled::default()) } else { self.settle_whole(ns).await }
    }

    /// With something that cannot be finished the safe versions stay as old as they are.
    async fn settle_whole(&self, ns: &Namespace) -> Result<Settled> {
        let began = Instant::now();
        let settled = self.settle_now(ns, &Document::new(), &QueryOptions::default(), None).await?;
        if settled.unfinished.is_empty() {
            self.freshness.note(ns, began);
        }
        Ok(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn look_is_fresh_within_the_limit_and_asks_for_one_refresh_after_half_of_it() {
        let (freshness, ns) = (Freshness::default(), Namespace::new("db", "c"));
        let limit = Duration::from_secs(1_000);
        assert_eq!(freshness.look(&ns, limit), (false, false));
        let ago = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap();
        freshness.note(&ns, ago(900));
        assert_eq!(freshness.look(&ns, limit), (true, true));
        assert_eq!(freshness.look(&ns, limit), (true, false), "one refresh at a time");
        freshness.note(&ns, ago(100));
        freshness.note(&ns, ago(2_000));
        assert_eq!(freshness.look(&ns, limit), (true, false), "an older settling takes nothing back");
        assert_eq!(freshness.look(&ns, Duration::from_secs(50)), (false, false));
        freshness.saw_unfinished(&ns);
        assert_eq!(freshness.look(&ns, limit), (false, false), "somebody has seen more");
        freshness.note(&ns, Instant::now());
        assert_eq!(freshness.look(&ns, limit), (true, false));
    }
}
