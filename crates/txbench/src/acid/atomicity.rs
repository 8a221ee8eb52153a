//! Atomicity (clause 3.2.2): a payment that commits is there in all its rows, one that is rolled
//! back in none.

use bson::DateTime;

use super::{Verdict, actor::End, outcome, report::TestReport, stage::Stage};
use crate::{
    error::OpResult,
    workload::tpcc::{
        check::State,
        ids::{Customer, District},
        input::{Payment, Who},
        tx::payment,
    },
};

const AMOUNT_CENTS: i64 = 4_321;
const DISTRICT: District = District { warehouse: 1, number: 10 };
const CUSTOMER: Customer = Customer { district: DISTRICT, number: 5 };

pub(super) async fn test_atomicity(stage: &Stage) -> Vec<TestReport> {
    let commit = outcome(async || pay(stage, End::Commit, -10).await).await;
    let rollback = outcome(async || pay(stage, End::Rollback, -11).await).await;
    vec![
        TestReport::new("3.2.2.1", "a payment that commits has changed customer, district and warehouse", commit),
        TestReport::new("3.2.2.2", "a payment that is rolled back has changed none of them", rollback),
    ]
}

async fn pay(stage: &Stage, end: End, history_id: i64) -> OpResult<Verdict> {
    let before = stage.state().await?;
    let mut actor = stage.actor().await?;
    actor.begin().await?;
    let input = Payment { to: DISTRICT, who: Who::Number(CUSTOMER), amount_cents: AMOUNT_CENTS, history_id };
    payment::run_payment(&mut actor.work(), &input, DateTime::now()).await?;
    actor.end(end).await?;
    let after = stage.state().await?;
    let expected = if end == End::Commit { AMOUNT_CENTS } else { 0 };
    Ok(changes(&before, &after).into_iter().try_for_each(|(what, change)| match change == expected {
        true => Ok(()),
        false => Err(format!("{what} has changed by {change}, not by {expected}")),
    }))
}

/// Differences by which the payment has raised each sum.
fn changes(before: &State, after: &State) -> [(&'static str, i64); 5] {
    let change = |of: fn(&State) -> i64| of(after) - of(before);
    [
        ("W_YTD", change(|state| state.warehouses.get(&1).copied().unwrap_or_default())),
        ("D_YTD", change(|state| state.districts.get(&DISTRICT).map_or(0, |district| district.ytd))),
        ("C_YTD_PAYMENT", change(|state| state.customers.get(&CUSTOMER).map_or(0, |customer| customer.ytd))),
        (
            "C_BALANCE, downwards",
            change(|state| state.customers.get(&CUSTOMER).map_or(0, |customer| -customer.balance)),
        ),
        ("the sum of H_AMOUNT", change(|state| state.paid_by.get(&CUSTOMER).copied().unwrap_or_default())),
    ]
}
