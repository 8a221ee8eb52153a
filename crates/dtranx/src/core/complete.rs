//! Complete transactions of a coordinator, as far as is known: all up to a number, except some.
//!
//! A transaction that is complete stays so. A coordinator that was restarted may know less than it
//! has said before, and messages overtake each other; so what is complete by any message is
//! complete, and no later message takes it back.

use std::collections::BTreeSet;

use super::{
    id::ServerId,
    message::{MAX_INCOMPLETE, Message},
    record::Record,
};

/// The complete transactions of one coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Complete {
    through: u64,
    /// Numbers up to `through` that are not complete.
    except: BTreeSet<u64>,
}

impl Complete {
    /// All numbers up to and with this one.
    pub(crate) fn through(number: u64) -> Self {
        Self { through: number, except: BTreeSet::new() }
    }

    /// All numbers up to and with this one, except some.
    pub(crate) fn but_for(through: u64, except: impl IntoIterator<Item = u64>) -> Self {
        Self { through, except: except.into_iter().filter(|number| *number <= through).collect() }
    }

    /// The message that announces it.
    pub(crate) fn announcement(&self) -> Message {
        let (through, incomplete) = self.spelled();
        Message::LowWater { through, incomplete }
    }

    /// The record that says it of a server.
    pub(crate) fn record(&self, server: ServerId) -> Record {
        let (through, incomplete) = self.spelled();
        Record::Complete { server, through, incomplete }
    }

    /// The last number, and the exceptions up to there: as far as fits into one frame or record.
    fn spelled(&self) -> (u64, Vec<u64>) {
        let mut except = self.except.iter().copied();
        let incomplete: Vec<u64> = except.by_ref().take(MAX_INCOMPLETE).collect();
        (except.next().map_or(self.through, |next| next - 1), incomplete)
    }

    /// Number of exceptions.
    pub(crate) fn exceptions(&self) -> usize {
        self.except.len()
    }

    /// The last number that this says something about.
    pub(crate) fn last(&self) -> u64 {
        self.through
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        number <= self.through && !self.except.contains(&number)
    }

    /// The largest number such that everything up to it is complete.
    pub(crate) fn low_water(&self) -> u64 {
        self.except.first().map_or(self.through, |first| first.saturating_sub(1))
    }

    /// Adds what is complete by `announced`. Returns the exceptions that were complete by it.
    pub(crate) fn add(&mut self, announced: &Self) -> Vec<u64> {
        let (longer, shorter) =
            if announced.through >= self.through { (announced, &*self) } else { (&*self, announced) };
        let except = longer.except.iter().filter(|number| !shorter.contains(**number)).copied().collect();
        let sum = Self { through: longer.through, except };
        let freed = self.except.iter().filter(|number| sum.contains(**number)).copied().collect();
        *self = sum;
        freed
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn low_water_is_below_the_first_exception() {
        assert_eq!(Complete::default().low_water(), 0);
        assert_eq!(Complete::through(7).low_water(), 7);
        assert_eq!(Complete::but_for(9, [4, 6, 12]).low_water(), 3);
    }

    #[test]
    fn announcement_says_as_much_as_fits() {
        let known = Complete::but_for(2 * MAX_INCOMPLETE as u64 + 9, (1..=MAX_INCOMPLETE as u64 + 5).map(|n| 2 * n));
        let Message::LowWater { through, incomplete } = known.announcement() else { panic!() };
        assert_eq!((through, incomplete.len()), (2 * MAX_INCOMPLETE as u64 + 1, MAX_INCOMPLETE));
        let heard = Complete::but_for(through, incomplete);
        assert!((1..=through).all(|number| heard.contains(number) == known.contains(number)));
        assert!(postcard::to_stdvec(&known.announcement()).unwrap().len() < 4 << 20);
    }

    #[test]
    fn add_keeps_what_either_says_and_tells_what_is_new_among_exceptions() {
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..2_000 {
            let mut draw = || {
                let through = rng.random_range(0..8);
                Complete::but_for(through, (1..=through).filter(|_| rng.random()).collect::<Vec<_>>())
            };
            let (before, announced) = (draw(), draw());
            let mut sum = before.clone();
            let freed = sum.add(&announced);
            for number in 1..10 {
                assert_eq!(sum.contains(number), before.contains(number) || announced.contains(number));
                let is_new = number <= before.through && !before.contains(number) && announced.contains(number);
                assert_eq!(freed.contains(&number), is_new, "{before:?} {announced:?} {number}");
            }
        }
    }
}
