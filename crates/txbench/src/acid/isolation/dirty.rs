//! Tests 1 to 6: a transaction is stopped before its end, another one meets it, and then the first
//! commits or is rolled back.

use bson::DateTime;

use super::{district, order};
use crate::{
    acid::{
        Verdict,
        actor::{End, When, meet},
        stage::Stage,
    },
    error::{BenchError, OpResult},
    workload::tpcc::{
        ids::Customer,
        input::{Delivery, Payment, Who},
        tx::{delivery, new_order, order_status, payment},
    },
};

const AMOUNT_CENTS: i64 = 777;

/// Tests 1 and 2 of the specification.
pub(super) async fn new_order_and_order_status(stage: &Stage, test: u32, end: End) -> OpResult<Verdict> {
    let customer = Customer { district: district(test), number: 3 };
    let (mut first, mut second) = (stage.actor().await?, stage.actor().await?);
    first.begin().await?;
    let made = new_order::run_new_order(&mut first.work(), &order(customer), DateTime::now()).await?.order.number;
    let who = Who::Number(customer);
    let (when, seen, ()) = meet(
        &mut second,
        async |work| Ok(order_status::run_order_status(work, &who).await?.newest.map(|order| order.number)),
        async || first.end(end).await,
    )
    .await?;
    let after = order_status::run_order_status(&mut second.work(), &who).await?.newest.map(|order| order.number);
    let (seen_it, there) = (seen == Some(made), after == Some(made));
    Ok(match (when, end) {
        (When::Before, _) if seen_it => Err(format!("order {made} was seen while it was not committed")),
        (When::After, End::Commit) if !seen_it => Err(format!("order {made} was not seen after it was committed")),
        (_, End::Commit) if !there => Err(format!("order {made} was committed and is not there")),
        (_, End::Rollback) if seen_it || there => Err(format!("order {made} was rolled back and is seen")),
        _ => Ok(()),
    })
}

/// Tests 3 and 4 of the specification.
pub(super) async fn two_new_orders(stage: &Stage, test: u32, end: End) -> OpResult<Verdict> {
    let district = district(test);
    let next = async || -> OpResult<i64> {
        let state = stage.state().await?;
        Ok(state.districts.get(&district).map_or(0, |district| district.next))
    };
    let (mut first, mut second) = (stage.actor().await?, stage.actor().await?);
    let before = next().await?;
    first.begin().await?;
    let input = order(Customer { district, number: 3 });
    let one = new_order::run_new_order(&mut first.work(), &input, DateTime::now()).await?.order.number;
    let (_, two, ()) = meet(
        &mut second,
        async |work| Ok(new_order::run_new_order(work, &input, DateTime::now()).await?.order.number),
        async || first.end(end).await,
    )
    .await?;
    let (expected_two, expected_next) = match end {
        End::Commit => (one + 1, before + 2),
        End::Rollback => (before, before + 1),
    };
    let after = next().await?;
    Ok(match (one, two, after) == (before, expected_two, expected_next) {
        true => Ok(()),
        false => Err(format!(
            "D_NEXT_O_ID was {before}; the orders got {one} and {two}, and it is {after}; \
             {before}, {expected_two} and {expected_next} were to be expected"
        )),
    })
}

/// Tests 5 and 6 of the specification.
pub(super) async fn delivery_and_payment(stage: &Stage, test: u32, end: End) -> OpResult<Verdict> {
    let district = district(test);
    let before = stage.state().await?;
    let oldest = before.new_orders.iter().find(|order| order.district == district);
    let oldest = oldest.ok_or_else(|| BenchError::Failed(format!("district {test} has nothing to be delivered")))?;
    let number = before.orders.get(oldest).map_or(0, |order| order.customer);
    let customer = Customer { district, number };
    let (mut first, mut second) = (stage.actor().await?, stage.actor().await?);
    first.begin().await?;
    delivery::run_delivery(&mut first.work(), &Delivery { warehouse: 1, carrier: 7 }, DateTime::now()).await?;
    let history_id = -20 - i64::from(test);
    let input = Payment { to: district, who: Who::Number(customer), amount_cents: AMOUNT_CENTS, history_id };
    meet(
        &mut second,
        async |work| payment::run_payment(work, &input, DateTime::now()).await,
        async || first.end(end).await,
    )
    .await?;
    let after = stage.state().await?;
    let delivered = after.lines.get(oldest).map_or(0, |lines| lines.delivered_amount);
    let balance = |of: &crate::workload::tpcc::check::State| of.customers.get(&customer).map_or(0, |of| of.balance);
    let change = balance(&after) - balance(&before);
    let is_delivered = !after.new_orders.contains(oldest);
    Ok(match (is_delivered, change == delivered - AMOUNT_CENTS) {
        (true, _) if end == End::Rollback => Err("the order is delivered, though that was rolled back".to_owned()),
        (false, _) if end == End::Commit => Err("the order is not delivered, though that was committed".to_owned()),
        (_, true) => Ok(()),
        (_, false) => {
            Err(format!("C_BALANCE has changed by {change}; {delivered} were delivered and {AMOUNT_CENTS} paid"))
        }
    })
}
