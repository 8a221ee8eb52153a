//! The transaction order-status (clause 2.6): a customer's balance and newest order. It only reads.

use super::{
    customer, orders,
    orders::Shown,
    work::{Work, number},
};
use crate::{
    error::OpResult,
    workload::tpcc::{ids::Customer, input::Who},
};

/// Output of the terminal (clause 2.6.3.3), in part.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The customer who wants to see the order.
    pub customer: Customer,
    /// Balance of the customer, in cents.
    pub balance_cents: i64,
    /// Their newest order; every customer has one.
    pub newest: Option<Shown>,
}

/// Runs the transaction without its begin and its end.
///
/// # Errors
/// The target's errors.
pub async fn run_order_status(work: &mut Work<'_>, who: &Who) -> OpResult<Answer> {
    let (customer, row) = customer::find(work, who, &["C_BALANCE", "C_FIRST", "C_MIDDLE", "C_LAST"]).await?;
    let newest = orders::newest(work, customer).await?;
    Ok(Answer { customer, balance_cents: number(&row, "C_BALANCE")?, newest })
}
