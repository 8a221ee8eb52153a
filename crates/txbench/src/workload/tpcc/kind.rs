//! The five kinds of transaction, and the times that a terminal's user takes for each (clause
//! 5.2.5.7).

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

/// A kind of transaction of TPC-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A customer orders (clause 2.4).
    NewOrder,
    /// A customer pays (clause 2.5).
    Payment,
    /// A customer wants to see the newest order (clause 2.6).
    OrderStatus,
    /// A warehouse delivers the oldest orders of its districts (clause 2.7).
    Delivery,
    /// A district wants to know which items are running out (clause 2.8).
    StockLevel,
}

impl Kind {
    /// All kinds of transactions, in the order of the specification.
    pub const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// Name of the kind in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }

    /// Least time that the user takes to type the input.
    pub fn keying_time(self) -> Duration {
        Duration::from_secs(match self {
            Self::NewOrder => 18,
            Self::Payment => 3,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 2,
        })
    }

    /// Mean time that the user looks at the answer.
    pub fn mean_think_time(self) -> Duration {
        Duration::from_secs(match self {
            Self::NewOrder | Self::Payment => 12,
            Self::OrderStatus => 10,
            Self::Delivery | Self::StockLevel => 5,
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("no transaction has the name {name:?}; there are {known}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("refund".parse::<Kind>().is_err_and(|said| said.contains("refund") && said.contains("new-order")));
    }
}
