//! The operations, drawn from a seed. Each is drawn for itself, so that any of them can be had
//! without those before it, and a client makes its own part alone.

use std::str::FromStr;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde::{Deserialize, Serialize};

use super::{
    money::Money,
    operation::{Change, Operation},
};

/// The largest amount that is drawn. Amounts are spread evenly over the orders of magnitude from 1
/// to this.
const LARGEST: f64 = 100_000_000.0;

/// Deposits, withdrawals and transfers, in percent of all operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Percentage of deposits among operations.
    pub deposits: u8,
    /// Percentage of withdrawals among operations.
    pub withdrawals: u8,
    /// Percentage of transfers among operations.
    pub transfers: u8,
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Result<Vec<u8>, _> = text.split(',').map(str::parse).collect();
        match parts.as_deref() {
            Ok([deposits, withdrawals, transfers])
                if u32::from(*deposits) + u32::from(*withdrawals) + u32::from(*transfers) == 100 =>
            {
                Ok(Self { deposits: *deposits, withdrawals: *withdrawals, transfers: *transfers })
            }
            _ => {
                Err("percentages of deposits, withdrawals and transfers are expected, 100 together: 40,40,20"
                    .to_owned())
            }
        }
    }
}

impl std::fmt::Display for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{},{}", self.deposits, self.withdrawals, self.transfers)
    }
}

/// A generator that draws operations from a seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Generator {
    pub(super) seed: u64,
    /// Number of accounts, at least 2.
    pub(super) accounts: u32,
    pub(super) mix: Mix,
}

impl Generator {
    /// The operation at this place, from 0. Its sequence number is one more.
    pub(super) fn operation(&self, at: u64) -> Operation {
        // Places lie far apart in the space of seeds: those of two seeds do not meet.
        let mut random = StdRng::seed_from_u64(self.seed.wrapping_add((at + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let kind = random.random_range(0..100_u8);
        let account = random.random_range(0..self.accounts);
        let amount = Money(LARGEST.powf(random.random_range(0.0..1.0)) as i64);
        let Mix { deposits, withdrawals, .. } = self.mix;
        let change = match kind {
            _ if kind < deposits => Change::Deposit { account, amount },
            _ if kind < deposits + withdrawals => Change::Withdrawal { account, amount },
            _ => {
                let to = (account + random.random_range(1..self.accounts)) % self.accounts;
                Change::Transfer { from: account, to, amount }
            }
        };
        Operation { sequence: at as i64 + 1, change }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn operations(seed: u64, accounts: u32, mix: &str) -> Vec<Operation> {
        let generator = Generator { seed, accounts, mix: mix.parse().unwrap() };
        (0..20_000).map(|at| generator.operation(at)).collect()
    }

    #[test]
    fn the_mix_is_as_asked() {
        for (mix, shares) in [("40,40,20", [0.4, 0.4, 0.2]), ("10,0,90", [0.1, 0.0, 0.9]), ("0,0,100", [0.0, 0.0, 1.0])]
        {
            let mut counts: BTreeMap<&str, f64> = BTreeMap::new();
            for operation in operations(1, 10, mix) {
                *counts.entry(operation.change.kind()).or_default() += 1.0 / 20_000.0;
            }
            for (kind, share) in ["deposit", "withdrawal", "transfer"].into_iter().zip(shares) {
                let found = counts.get(kind).copied().unwrap_or(0.0);
                // Four standard deviations of 20,000 draws are less.
                assert!((found - share).abs() < 0.015, "{mix}: {kind} {found}");
            }
        }
    }

    #[test]
    fn accounts_are_chosen_alike_and_a_transfer_is_between_two() {
        let mut counts = [0_u32; 10];
        for operation in operations(2, 10, "25,25,50") {
            operation.change.effects().for_each(|effect| counts[effect.account as usize] += 1);
            if let Change::Transfer { from, to, .. } = operation.change {
                assert_ne!(from, to);
            }
        }
        let mean = counts.iter().sum::<u32>() / 10;
        assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 10), "{counts:?}");
    }

    #[test]
    fn amounts_are_positive_and_of_every_magnitude() {
        let mut magnitudes: BTreeMap<usize, u32> = BTreeMap::new();
        for operation in operations(3, 2, "100,0,0") {
            let Change::Deposit { amount, .. } = operation.change else { panic!("{operation:?}") };
            assert!(amount > Money(0) && amount <= Money::LARGEST);
            *magnitudes.entry(amount.0.to_string().len()).or_default() += 1;
        }
        assert_eq!(magnitudes.len(), 8);
        assert!(magnitudes.values().all(|count| count.abs_diff(2_500) < 250), "{magnitudes:?}");
    }

    #[test]
    fn the_same_seed_makes_the_same_operations_and_another_makes_others() {
        assert_eq!(operations(7, 10, "40,40,20"), operations(7, 10, "40,40,20"));
        assert_ne!(operations(7, 10, "40,40,20"), operations(8, 10, "40,40,20"));
        let sequences = operations(7, 10, "40,40,20").into_iter().map(|operation| operation.sequence);
        assert!(sequences.eq(1..=20_000));
    }

    #[test]
    fn a_mix_that_is_not_whole_is_refused() {
        for text in ["", "40,40", "40,40,30", "40,40,20,0", "a,b,c", "-20,60,60", "200,200,200"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }
}
