//! Isolation (clause 3.4.2): nine tests with two transactions each, in a district of their own
//! each.

mod dirty;
mod repeatable;

use self::{
    dirty::{delivery_and_payment, new_order_and_order_status, two_new_orders},
    repeatable::{new_order_under_delivery, new_order_under_order_status, price_under_new_order},
};
use super::{actor::End, outcome, report::TestReport, stage::Stage};
use crate::workload::tpcc::{
    ids::{Customer, District},
    input::{Line, NewOrder},
};

/// Distance from the first item of one test to that of the next.
const ITEMS_APART: u32 = 10;

pub(super) async fn test_isolation(stage: &Stage) -> Vec<TestReport> {
    use End::{Commit, Rollback};
    let tests = [
        (
            "order-status does not see a new order before it commits, and sees it afterwards",
            outcome(async || new_order_and_order_status(stage, 1, Commit).await).await,
        ),
        (
            "order-status never sees a new order that is rolled back",
            outcome(async || new_order_and_order_status(stage, 2, Rollback).await).await,
        ),
        (
            "two new orders of a district get two numbers, one after the other",
            outcome(async || two_new_orders(stage, 3, Commit).await).await,
        ),
        (
            "the number of a new order that is rolled back goes to the next",
            outcome(async || two_new_orders(stage, 4, Rollback).await).await,
        ),
        (
            "a payment and a delivery of the same customer both reach the balance",
            outcome(async || delivery_and_payment(stage, 5, Commit).await).await,
        ),
        (
            "a delivery that is rolled back leaves the payment alone",
            outcome(async || delivery_and_payment(stage, 6, Rollback).await).await,
        ),
        (
            "a new order reads the same price twice while the price is changed",
            outcome(async || price_under_new_order(stage, 7).await).await,
        ),
        (
            "a delivery that found no order to be delivered finds none again",
            outcome(async || new_order_under_delivery(stage, 8).await).await,
        ),
        (
            "order-status finds the same newest order again while another is made",
            outcome(async || new_order_under_order_status(stage, 9).await).await,
        ),
    ];
    let report = |(number, (asks, outcome))| TestReport::new(&format!("3.4.2.{number}"), asks, outcome);
    (1_u32..).zip(tests).map(report).collect()
}

/// A district of the only warehouse.
fn district(number: u32) -> District {
    District { warehouse: 1, number }
}

/// An order by this customer, of items that no other test orders.
fn order(customer: Customer) -> NewOrder {
    let first = customer.district.number * ITEMS_APART;
    let lines = (first..first + 5).map(|item| Line { item, supply: 1, quantity: 3 });
    NewOrder { customer, lines: lines.collect() }
}
