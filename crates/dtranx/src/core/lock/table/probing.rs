//! Probes, which hold no lock and wait until each of their keys was free at some instant.

use std::collections::BTreeSet;

use super::{Acquired, LockTable, MAX_KEY_WAITERS, Probe, Times, WaitOver, key_limit, share};
use crate::core::{id::WorkId, item::Key, refusal::Refusal};

impl LockTable {
    /// Starts a probe, which is granted once each of the keys was not exclusively locked at some
    /// instant.
    pub(in crate::core::lock) fn probe(
        &mut self,
        work: WorkId,
        keys: Vec<Key>,
        is_of_peer: bool,
        times: Times,
    ) -> Acquired {
        if self.probes.contains_key(&work) {
            return Acquired::Waits;
        }
        let locked: BTreeSet<Key> = keys.into_iter().filter(|key| self.is_exclusively_locked(key)).collect();
        let most = share(MAX_KEY_WAITERS, is_of_peer);
        let is_full = |key: &Key| self.keys.get(key).is_some_and(|entry| entry.probed.len() >= most);
        if locked.is_empty() {
            return Acquired::Granted;
        }
        if let Some(limit) = self.full_table(is_of_peer).or_else(|| locked.iter().any(is_full).then(|| key_limit(most)))
        {
            return Acquired::Refused(Refusal::Overloaded { limit });
        }
        for key in &locked {
            self.keys.entry(key.clone()).or_default().probed.insert(work);
        }
        let deadline_ms = times.now_ms.saturating_add(times.wait_ms);
        self.probes.insert(work, Probe { locked, deadline_ms });
        self.timers.insert((deadline_ms, work));
        Acquired::Waits
    }

    /// Removes a waiting probe. Returns one of the keys that it still waits for.
    pub(in crate::core::lock) fn forget_probe(&mut self, work: WorkId) -> Option<Key> {
        let Probe { locked, deadline_ms } = self.probes.remove(&work)?;
        for key in &locked {
            self.change(key, |entry| {
                entry.probed.remove(&work);
            });
        }
        self.timers.remove(&(deadline_ms, work));
        locked.into_iter().next()
    }

    pub(super) fn has_seen_free(&mut self, probe: WorkId, key: &Key, over: &mut Vec<WaitOver>) {
        let Some(Probe { locked, deadline_ms }) = self.probes.get_mut(&probe) else { return };
        locked.remove(key);
        if locked.is_empty() {
            self.timers.remove(&(*deadline_ms, probe));
            self.probes.remove(&probe);
            over.push(WaitOver::Granted(probe));
        }
    }
}
