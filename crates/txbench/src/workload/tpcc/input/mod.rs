//! What a terminal's user types in: the inputs of the five transactions, drawn as clauses 2.4.1 to 2.8.1 say.

mod draw_inputs;

pub use draw_inputs::Terminal;

use super::{
    ids::{Customer, District},
    kind::Kind,
};

/// The input of one transaction.
#[derive(Clone, Debug)]
pub enum Input {
    /// A customer orders.
    NewOrder(NewOrder),
    /// A customer pays.
    Payment(Payment),
    /// A customer asks for the newest order.
    OrderStatus(Who),
    /// A warehouse delivers.
    Delivery(Delivery),
    /// A district asks what is running out.
    StockLevel(StockLevel),
}

impl Input {
    /// Which transaction it is for.
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

/// An order (clause 2.4.1).
#[derive(Clone, Debug)]
pub struct NewOrder {
    /// Who orders, in the terminal's warehouse.
    pub customer: Customer,
    /// What: 5 to 15 lines.
    pub lines: Vec<Line>,
}

/// A line of an order.
#[derive(Clone, Debug)]
pub struct Line {
    /// Which item. One that does not exist rolls the order back.
    pub item: u32,
    /// The warehouse that supplies it.
    pub supply: u32,
    /// 1 to 10.
    pub quantity: u32,
}

/// A payment (clause 2.5.1).
#[derive(Clone, Debug)]
pub struct Payment {
    /// Where it is made.
    pub to: District,
    /// Who pays.
    pub who: Who,
    /// How much.
    pub amount_cents: i64,
    /// The `_id` of its row. Below 0: those above are of payments that were loaded.
    pub history_id: i64,
}

/// A customer, as the user knows them.
#[derive(Clone, Debug)]
pub enum Who {
    /// By the number.
    Number(Customer),
    /// By the last name; several have the same.
    Name {
        /// Where they are customers.
        district: District,
        /// Their last name.
        last: String,
    },
}

/// A delivery (clause 2.7.1).
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// The warehouse; all its districts.
    pub warehouse: u32,
    /// 1 to 10.
    pub carrier: u32,
}

/// A question for what is running out (clause 2.8.1).
#[derive(Clone, Copy, Debug)]
pub struct StockLevel {
    /// The terminal's own district.
    pub district: District,
    /// 10 to 20.
    pub threshold: u32,
}
