//! What the conditions are about, whatever the layout.

use std::collections::{BTreeMap, BTreeSet};

use crate::workload::tpcc::ids::{Customer, District, Order};

/// A whole database. Amounts are in cents.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// W_YTD.
    pub warehouses: BTreeMap<u32, i64>,
    /// By district.
    pub districts: BTreeMap<District, DistrictState>,
    /// By customer.
    pub customers: BTreeMap<Customer, CustomerState>,
    /// By order.
    pub orders: BTreeMap<Order, OrderState>,
    /// Rows in the table of orders that are not delivered.
    pub new_orders: BTreeSet<Order>,
    /// Lines, by the order that they name.
    pub lines: BTreeMap<Order, LinesState>,
    /// H_AMOUNT, by the district that was paid.
    pub paid_to: BTreeMap<District, i64>,
    /// H_AMOUNT, by the customer who paid.
    pub paid_by: BTreeMap<Customer, i64>,
}

/// A district.
#[derive(Clone, Copy, Debug, Default)]
pub struct DistrictState {
    /// D_YTD.
    pub ytd: i64,
    /// D_NEXT_O_ID.
    pub next: i64,
}

/// A customer.
#[derive(Clone, Copy, Debug, Default)]
pub struct CustomerState {
    /// C_BALANCE.
    pub balance: i64,
    /// C_YTD_PAYMENT.
    pub ytd: i64,
    /// C_DELIVERY_CNT.
    pub deliveries: i64,
}

/// An order.
#[derive(Clone, Copy, Debug)]
pub struct OrderState {
    /// Whose.
    pub customer: u32,
    /// Whether O_CARRIER_ID is set.
    pub has_carrier: bool,
    /// O_OL_CNT.
    pub line_count: i64,
}

/// The lines of an order.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinesState {
    /// Number of lines.
    pub count: i64,
    /// Those with a date of delivery.
    pub delivered: i64,
    /// OL_AMOUNT of these.
    pub delivered_amount: i64,
}
