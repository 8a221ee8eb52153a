//! The values that the consistency conditions need, independent of the layout of the collections.
//! `read` fills them.

use std::collections::{BTreeMap, BTreeSet};

use crate::workload::tpcc::ids::{Customer, District, Order};

/// A whole database. Amounts are in cents.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// W_YTD of each warehouse, by its number.
    pub warehouses: BTreeMap<u32, i64>,
    /// Values of each district, by its key.
    pub districts: BTreeMap<District, DistrictState>,
    /// Values of each customer, by the customer's key.
    pub customers: BTreeMap<Customer, CustomerState>,
    /// Values of each order, by its key.
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

/// Values of a district that the conditions compare.
#[derive(Clone, Copy, Debug, Default)]
pub struct DistrictState {
    /// D_YTD: sum of the payments, in cents.
    pub ytd: i64,
    /// D_NEXT_O_ID: number of the next order.
    pub next: i64,
}

/// Values of a customer that the conditions compare.
#[derive(Clone, Copy, Debug, Default)]
pub struct CustomerState {
    /// C_BALANCE: what the customer has or owes, in cents.
    pub balance: i64,
    /// C_YTD_PAYMENT: sum of the customer's payments, in cents.
    pub ytd: i64,
    /// C_DELIVERY_CNT: number of orders delivered to the customer.
    pub deliveries: i64,
}

/// Values of an order that the conditions compare.
#[derive(Clone, Copy, Debug)]
pub struct OrderState {
    /// Number of the customer in the district.
    pub customer: u32,
    /// True if `O_CARRIER_ID` has a value: the order was delivered.
    pub has_carrier: bool,
    /// O_OL_CNT: number of lines that the order says it has.
    pub line_count: i64,
}

/// The lines of an order.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinesState {
    /// Number of lines of the order.
    pub count: i64,
    /// Number of lines with a date of delivery.
    pub delivered: i64,
    /// Sum of OL_AMOUNT of the delivered lines.
    pub delivered_amount: i64,
}
