//! Inputs of a terminal's user for the five transactions, drawn as clauses 2.4.1 to 2.8.1 say.

mod draw_inputs;

pub use draw_inputs::Terminal;

use super::{
    ids::{Customer, District},
    kind::Kind,
};

/// The input of one transaction.
#[derive(Clone, Debug)]
pub enum Input {
    /// An order of a customer.
    NewOrder(NewOrder),
    /// A payment of a customer.
    Payment(Payment),
    /// A customer wants to see the newest order.
    OrderStatus(Who),
    /// A warehouse delivers the oldest orders of its districts.
    Delivery(Delivery),
    /// A district wants to know which items are running out.
    StockLevel(StockLevel),
}

impl Input {
    /// Kind of the transaction that has this input.
    pub fn kind(&self) -> Kind {
        match self {
            Self::NewOrder(_) => Kind::NewOrder,
            Self::Payment(_) => Kind::Payment,
            Self::OrderStatus(_) => Kind::OrderStatus,
            Self::Delivery(_) => Kind::Delivery,
            Self::StockLevel(_) => Kind::StockLevel,
        }
    }
}

/// Input of an order (clause 2.4.1).
#[derive(Clone, Debug)]
pub struct NewOrder {
    /// The customer who orders, in the terminal's warehouse.
    pub customer: Customer,
    /// Lines of the order, 5 to 15.
    pub lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub struct Line {
    /// Number of the item. One that does not exist rolls the order back.
    pub item: u32,
    /// The warehouse that supplies it.
    pub supply: u32,
    /// Quantity of the item, from 1 to 10.
    pub quantity: u32,
}

/// Input of a payment (clause 2.5.1).
#[derive(Clone, Debug)]
pub struct Payment {
    /// District in which the payment is made.
    pub to: District,
    /// The customer who pays, by number or by last name.
    pub who: Who,
    /// Amount of the payment, in cents.
    pub amount_cents: i64,
    /// The `_id` of its row. Below 0: those above are of payments that were loaded.
    pub history_id: i64,
}

/// A customer, as the user knows them.
#[derive(Clone, Debug)]
pub enum Who {
    /// The customer gives the number.
    Number(Customer),
    /// The customer gives the last name, which several customers have.
    Name {
        /// District in which customers of this name are looked for.
        district: District,
        /// Last name of the customers.
        last: String,
    },
}

/// Input of a delivery (clause 2.7.1).
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The warehouse; all its districts.
    pub warehouse: u32,
    /// Number of the carrier, from 1 to 10.
    pub carrier: u32,
}

/// Input of a stock-level query (clause 2.8.1).
#[derive(Clone, Copy, Debug)]
pub struct StockLevel {
    /// District whose newest orders are looked at: that of the terminal.
    pub district: District,
    /// Threshold of the stock's quantity, from 10 to 20.
    pub threshold: u32,
}
