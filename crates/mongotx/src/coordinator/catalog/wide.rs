//! Counters that decide whether queries look for all writers of a collection first (decision 0065).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Queries that go without a wide probe, if that was in vain time and again.
const MOST_WITHOUT: u32 = 64;

/// Counts queries that go without a wide probe after one that was in vain: one, then two, then
/// four. It lives as long as what is known of the collection.
#[derive(Debug, Default)]
pub(crate) struct WideProbes {
    /// Queries that are to go without.
    left: AtomicU32,
    /// As many were to go without after the last wide probe that was in vain.
    last: AtomicU32,
}

impl WideProbes {
    /// Returns true if the next query is to look for all writers.
    pub(crate) fn is_next_wide(&self) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Notes whether the answer to a wide probe could be used.
    pub(crate) fn note(&self, was_used: bool) {
        let last = self.last.load(Relaxed);
        if was_used {
            self.last.store(last / 2, Relaxed);
            return;
        }
        let without = (last * 2).clamp(1, MOST_WITHOUT);
        // Of several looks at a time one counts.
        if self.left.compare_exchange(0, without, Relaxed, Relaxed).is_ok() {
            self.last.store(without, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queries that go without before the next wide probe.
    fn without(looks: &WideProbes) -> usize {
        std::iter::repeat_with(|| looks.is_next_wide()).take_while(|is_wide| !is_wide).count()
    }

    #[test]
    fn looks_in_vain_become_rare_and_those_that_are_used_make_them_the_rule_again() {
        let looks = WideProbes::default();
        assert_eq!(without(&looks), 0);
        for expected in [1, 2, 4, 8, 16, 32, 64, 64] {
            looks.note(false);
            assert_eq!(without(&looks), expected);
        }
        looks.note(true);
        assert_eq!((without(&looks), without(&looks)), (0, 0));
        looks.note(false);
        looks.note(false);
        assert_eq!(without(&looks), 64, "two at a time");
        (0..7).for_each(|_| looks.note(true));
        looks.note(false);
        assert_eq!(without(&looks), 1);
    }
}
