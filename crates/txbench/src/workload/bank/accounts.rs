//! The accounts: their numbers and what they hold before the first operation (paper 003, listing
//! 3).

use std::{borrow::Cow, collections::HashMap, path::Path};

use serde::{Deserialize, Serialize};

use super::money::Money;
use crate::{error::BenchError, workload::documents::Documents};

/// The most accounts there may be.
pub(super) const MOST: u32 = 1_000_000;

/// The ten accounts of the paper's data, in the order of its listing 3.
const OF_THE_PAPER: [&str; 10] = [
    "409000611074",
    "409000493201",
    "409000425051",
    "409000405747",
    "409000438611",
    "409000493210",
    "409000438620",
    "1196711",
    "1196428",
    "409000362497",
];
/// The number of the eleventh account; the others follow.
const FIRST_OTHER: u64 = 500_000_000_000;

/// An account before the first operation, as listing 3 shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Initial {
    #[serde(rename = "Account")]
    pub(super) number: String,
    #[serde(rename = "Balance")]
    pub(super) balance: Money,
}

/// The accounts of a bank; each has an ordinal, from 0.
#[derive(Debug)]
pub(super) enum Accounts {
    /// The accounts of the paper, and as many more as are needed, all empty. They take no memory.
    Counted(u32),
    /// The accounts of a file.
    Named { initial: Vec<Initial>, ordinals: HashMap<String, u32> },
}

impl Accounts {
    /// Reads the accounts of a file in the form of listing 3.
    ///
    /// # Errors
    /// [`BenchError::Refused`], with the line and the fault.
    pub(super) fn read(option: &str, path: &Path) -> Result<Self, BenchError> {
        let mut documents: Documents<Initial> = Documents::open(option, path)?;
        let (mut initial, mut ordinals): (Vec<Initial>, HashMap<String, u32>) = Default::default();
        while let Some(account) = documents.next().transpose()? {
            let ordinal = initial.len() as u32;
            if ordinal == MOST {
                return Err(documents.refused(documents.line(), format_args!("at most {MOST} accounts are allowed")));
            }
            if ordinals.insert(account.number.clone(), ordinal).is_some() {
                let what = format_args!("the account {} is there twice", account.number);
                return Err(documents.refused(documents.line(), what));
            }
            initial.push(account);
        }
        match initial.len() {
            0 | 1 => Err(documents.refused(documents.line(), "at least two accounts are needed")),
            _ => Ok(Self::Named { initial, ordinals }),
        }
    }

    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Counted(n) => *n,
            Self::Named { initial, .. } => initial.len() as u32,
        }
    }

    /// The account's number: its `_id`, and the value of `Account`.
    pub(super) fn number(&self, ordinal: u32) -> Cow<'_, str> {
        match self {
            Self::Counted(_) => match OF_THE_PAPER.get(ordinal as usize) {
                Some(number) => Cow::Borrowed(number),
                None => Cow::Owned((FIRST_OTHER + u64::from(ordinal)).to_string()),
            },
            Self::Named { initial, .. } => Cow::Borrowed(&initial[ordinal as usize].number),
        }
    }

    /// Ordinal of the account with this number.
    pub(super) fn ordinal(&self, number: &str) -> Option<u32> {
        match self {
            Self::Counted(n) => {
                let of_the_paper = OF_THE_PAPER.iter().position(|known| *known == number).map(|at| at as u64);
                let other = || number.parse::<u64>().ok()?.checked_sub(FIRST_OTHER);
                let ordinal = u32::try_from(of_the_paper.or_else(other)?).ok()?;
                (ordinal < *n && self.number(ordinal) == number).then_some(ordinal)
            }
            Self::Named { ordinals, .. } => ordinals.get(number).copied(),
        }
    }

    /// Balance of the account before the first operation.
    pub(super) fn initial(&self, ordinal: u32) -> Money {
        match self {
            Self::Counted(_) => Money(0),
            Self::Named { initial, .. } => initial[ordinal as usize].balance,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_are_different_and_are_found_again() {
        let accounts = Accounts::Counted(10_000);
        let numbers: HashSet<String> = (0..10_000).map(|at| accounts.number(at).into_owned()).collect();
        assert_eq!(numbers.len(), 10_000);
        assert!((0..10_000).all(|at| accounts.ordinal(&accounts.number(at)) == Some(at)));
        for number in ["500000010000", "500000000005", "0", "", "+500000000011", "x"] {
            assert_eq!(accounts.ordinal(number), None, "{number}");
        }
        assert_eq!(Accounts::Counted(8).ordinal("1196428"), None);
    }

    #[test]
    fn a_file_of_accounts_is_read_with_its_balances() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), r#"[{"Account": "a", "Balance": 0}, {"Account": "b", "Balance": -1.5}]"#).unwrap();
        let accounts = Accounts::read("--files", file.path()).unwrap();
        assert_eq!((accounts.len(), accounts.ordinal("b"), accounts.initial(1)), (2, Some(1), Money(-150)));
    }

    #[test]
    fn a_wrong_file_of_accounts_is_refused_with_the_line() {
        for (text, said) in [
            (
                "[{\"Account\": \"a\", \"Balance\": 0},\n{\"Account\": \"a\", \"Balance\": 1}]",
                "line 2: the account a is there twice",
            ),
            ("[{\"Account\": \"a\", \"Balance\": 0}]", "at least two accounts"),
            ("[{\"Account\": \"a\"}]", "line 1: missing field `Balance`"),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            let error = Accounts::read("--files", file.path()).unwrap_err().to_string();
            assert!(error.starts_with("--files: ") && error.contains(said), "{error}");
        }
    }
}
