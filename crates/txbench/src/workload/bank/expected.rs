//! The balances that accounts must have: all acknowledged operations added up, by the tallies of
//! the clients.

use std::collections::{BTreeMap, BTreeSet};

use super::{money::Money, operation::Operation, source::Source, tally::Tally};
use crate::error::BenchError;

/// Greatest number of operations in doubt on one account whose outcomes are all tried out.
const DOUBTS: usize = 12;

/// An account as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) balance: Money,
    pub(super) last_sequence: Option<i64>,
}

/// The content that the check must find.
pub(super) struct Expected {
    balances: Vec<Money>,
    /// For each account, true if an acknowledged operation was on it.
    touched: Vec<bool>,
    /// True if the sequence number found is that of an operation on this account that happened, or
    /// may have.
    last_is_known: Vec<bool>,
    /// Amounts of the operations in doubt, by account.
    doubts: BTreeMap<u32, Vec<Money>>,
    /// Number of operations that happened.
    pub(super) done: u64,
}

impl Expected {
    /// Goes through the operations of all clients again. `found` are the accounts by ordinal;
    /// `resolved` are those in doubt that are known to have happened; with `all_resolved` the
    /// others have not.
    pub(super) fn add_up(
        source: &Source,
        tallies: &BTreeMap<u32, Tally>,
        found: &[Found],
        resolved: &BTreeSet<i64>,
        all_resolved: bool,
    ) -> Result<Self, BenchError> {
        let accounts = source.accounts.len();
        let mut expected = Self {
            balances: (0..accounts).map(|at| source.accounts.initial(at)).collect(),
            touched: vec![false; accounts as usize],
            last_is_known: vec![false; accounts as usize],
            doubts: BTreeMap::new(),
            done: 0,
        };
        for (index, tally) in tallies {
            let (without, unknown): (BTreeSet<i64>, BTreeSet<i64>) =
                (tally.without.iter().copied().collect(), tally.unknown.iter().copied().collect());
            for (at, operation) in (0..tally.taken).zip(source.replay(*index, tally.of, true)) {
                let operation = operation?;
                match unknown.contains(&at) {
                    _ if without.contains(&at) => {}
                    true if !all_resolved => expected.doubt(operation, found),
                    true if !resolved.contains(&operation.sequence) => {}
                    _ => expected.add(operation, found),
                }
            }
        }
        Ok(expected)
    }

    fn add(&mut self, operation: Operation, found: &[Found]) {
        self.done += 1;
        for effect in operation.change.effects() {
            let at = effect.account as usize;
            self.balances[at].0 += effect.by.0;
            self.touched[at] = true;
            self.last_is_known[at] |= found[at].last_sequence == Some(operation.sequence);
        }
    }

    fn doubt(&mut self, operation: Operation, found: &[Found]) {
        for effect in operation.change.effects() {
            let at = effect.account as usize;
            self.doubts.entry(effect.account).or_default().push(effect.by);
            self.last_is_known[at] |= found[at].last_sequence == Some(operation.sequence);
        }
    }

    /// Balance that the account must have, without operations in doubt.
    pub(super) fn balance(&self, account: u32) -> Money {
        self.balances[account as usize]
    }

    /// Sum of all accounts, likewise; and whether no operation is in doubt.
    pub(super) fn sum(&self) -> (i128, bool) {
        (self.balances.iter().map(|balance| i128::from(balance.0)).sum(), self.doubts.is_empty())
    }

    /// The fault of an account, if it has one.
    pub(super) fn wrong(&self, account: u32, found: Found) -> Option<String> {
        let at = account as usize;
        let doubts = self.doubts.get(&account).map_or(&[][..], Vec::as_slice);
        let balance = self.balances[at];
        if !possible(found.balance.0 - balance.0, doubts) {
            let doubtful = if doubts.is_empty() { String::new() } else { format!(" ({} in doubt)", doubts.len()) };
            return Some(format!("holds {}, its operations add up to {balance}{doubtful}", found.balance));
        }
        match found.last_sequence {
            None if self.touched[at] => Some("has no LastTxnSequence".to_owned()),
            Some(sequence) if !self.last_is_known[at] => {
                Some(format!("has LastTxnSequence {sequence}, which is no operation on it that was acknowledged"))
            }
            _ => None,
        }
    }
}

/// Returns true if some of the operations in doubt add up to this difference. With too many of them
/// this cannot be computed, and counts as possible.
fn possible(difference: i64, doubts: &[Money]) -> bool {
    if doubts.len() > DOUBTS {
        return true;
    }
    (0..1_u32 << doubts.len()).any(|chosen| {
        let is_chosen = |at: &usize| chosen >> at & 1 == 1;
        (0..doubts.len()).filter(is_chosen).map(|at| doubts[at].0).sum::<i64>() == difference
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::{super::generator::Generator, *};

    const OPERATIONS: u64 = 60;

    /// The accounts after all operations but these; the tallies of two clients.
    fn state(left_out: &[i64]) -> (Source, Vec<Found>, BTreeMap<u32, Tally>) {
        let source = Source::drawn(Generator { seed: 2, accounts: 4, mix: "30,30,40".parse().unwrap() }, OPERATIONS);
        let mut found = vec![Found { balance: Money(0), last_sequence: None }; 4];
        for operation in source.replay(0, 1, false).map(Result::unwrap) {
            if left_out.contains(&operation.sequence) {
                continue;
            }
            for effect in operation.change.effects() {
                let account = &mut found[effect.account as usize];
                account.balance.0 += effect.by.0;
                account.last_sequence = Some(operation.sequence);
            }
        }
        let mut tally = Tally::new(2);
        tally.taken = OPERATIONS as i64 / 2;
        (source, found, BTreeMap::from([(0, tally.clone()), (1, tally)]))
    }

    fn wrong(source: &Source, found: &[Found], tallies: &BTreeMap<u32, Tally>) -> Vec<Option<String>> {
        let expected = Expected::add_up(source, tallies, found, &BTreeSet::new(), false).unwrap();
        found.iter().enumerate().map(|(at, found)| expected.wrong(at as u32, *found)).collect()
    }

    #[test]
    fn all_operations_done_are_as_expected() {
        let (source, found, tallies) = state(&[]);
        assert_eq!(wrong(&source, &found, &tallies), [const { None }; 4]);
    }

    #[test]
    fn an_operation_that_is_missing_is_found() {
        let (source, found, tallies) = state(&[17]);
        let wrong = wrong(&source, &found, &tallies);
        assert!(wrong.iter().flatten().next().unwrap().contains("add up to"), "{wrong:?}");
    }

    #[test]
    fn an_operation_that_was_given_up_must_not_be_there() {
        // The second client has the even sequence numbers: its operation 4 has the tenth.
        let (source, found, mut tallies) = state(&[10]);
        tallies.get_mut(&1).unwrap().without.push(4);
        assert_eq!(wrong(&source, &found, &tallies), [const { None }; 4]);
        let (source, found, _) = state(&[]);
        assert!(wrong(&source, &found, &tallies).iter().any(Option::is_some));
    }

    #[test]
    fn an_operation_in_doubt_may_be_there_or_not_and_no_other() {
        let (_, _, mut tallies) = state(&[]);
        tallies.get_mut(&1).unwrap().unknown.push(4);
        for (left_out, is_wrong) in [(vec![], false), (vec![10], false), (vec![12], true), (vec![10, 12], true)] {
            let (source, found, _) = state(&left_out);
            assert_eq!(wrong(&source, &found, &tallies).iter().any(Option::is_some), is_wrong, "{left_out:?}");
        }
    }

    #[test]
    fn a_doubt_that_is_resolved_is_none() {
        let (source, found, mut tallies) = state(&[]);
        tallies.get_mut(&1).unwrap().unknown.push(4);
        let wrong = |resolved: &[i64]| {
            let resolved = resolved.iter().copied().collect();
            let expected = Expected::add_up(&source, &tallies, &found, &resolved, true).unwrap();
            (0..4).any(|at| expected.wrong(at, found[at as usize]).is_some())
        };
        assert!(!wrong(&[10]) && wrong(&[]));
    }

    #[test]
    fn a_sequence_number_must_be_one_of_the_accounts_operations() {
        let (source, mut found, tallies) = state(&[]);
        found[2].last_sequence = Some(OPERATIONS as i64 + 1);
        assert!(wrong(&source, &found, &tallies)[2].as_ref().unwrap().contains("LastTxnSequence 61"));
        found[2].last_sequence = None;
        assert!(wrong(&source, &found, &tallies)[2].as_ref().unwrap().contains("no LastTxnSequence"));
    }
}
