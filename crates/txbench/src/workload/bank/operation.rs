//! Operations of a bank: deposits, withdrawals, transfers (paper 003, section III).

use super::money::Money;

/// An operation with its place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Sequence number, from 1; no two operations have the same.
    pub(super) sequence: i64,
    pub(super) change: Change,
}

/// The change that an operation makes. Accounts are given by their ordinals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Adds the amount to one account.
    Deposit { account: u32, amount: Money },
    /// Takes the amount from one account.
    Withdrawal { account: u32, amount: Money },
    /// Two documents; `from` and `to` differ.
    Transfer { from: u32, to: u32, amount: Money },
}

/// Effect of an operation on one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub(super) account: u32,
    pub(super) by: Money,
}

impl Change {
    /// The kind, for the tables.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Deposit { .. } => "deposit",
            Self::Withdrawal { .. } => "withdrawal",
            Self::Transfer { .. } => "transfer",
        }
    }

    /// Effects on each account, the origin of a transfer first.
    pub(super) fn effects(self) -> impl Iterator<Item = Effect> {
        let (one, other) = match self {
            Self::Deposit { account, amount } => (Effect { account, by: amount }, None),
            Self::Withdrawal { account, amount } => (Effect { account, by: Money(-amount.0) }, None),
            Self::Transfer { from, to, amount } => {
                (Effect { account: from, by: Money(-amount.0) }, Some(Effect { account: to, by: amount }))
            }
        };
        std::iter::once(one).chain(other)
    }

    /// Number of documents that the operation changes.
    pub(super) fn documents(self) -> u32 {
        if matches!(self, Self::Transfer { .. }) { 2 } else { 1 }
    }
}
