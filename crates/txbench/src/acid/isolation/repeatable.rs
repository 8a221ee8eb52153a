//! Tests 7 to 9: a transaction reads, another one changes what it has read or adds to it, and the
//! first reads again.
//!
//! A first transaction that is rolled back then has answered no reader twice: it passes.

use bson::{DateTime, doc};

use super::{ITEMS_APART, district, order};
use crate::{
    acid::{
        Verdict,
        actor::{Actor, End, meet},
        stage::Stage,
    },
    error::{OpError, OpResult},
    targets::{Find, Update},
    workload::tpcc::{
        ids::Customer,
        schema::{ITEM, NEW_ORDER},
        tx::{
            new_order, orders,
            work::{Work, number},
        },
    },
};

/// Test 7. A new order reads prices from the table of items and from nothing else: it is these
/// reads that are repeated.
pub(super) async fn price_under_new_order(stage: &Stage, test: u32) -> OpResult<Verdict> {
    let item = i64::from(test * ITEMS_APART);
    let price = async |work: &mut Work<'_>| number(&work.row(ITEM, item, &["I_PRICE"]).await?, "I_PRICE");
    let (mut first, mut second) = (stage.actor().await?, stage.actor().await?);
    first.begin().await?;
    let before = price(&mut first.work()).await?;
    let raise = doc! {"$inc": {"I_PRICE": before / 10}};
    let (_, (), again) = meet(
        &mut second,
        async |work| work.update(ITEM, Update { filter: doc! {"_id": item}, update: raise.clone() }).await,
        async || again(&mut first, &price).await,
    )
    .await?;
    let after = price(&mut second.work()).await?;
    if after != before + before / 10 {
        return Ok(Err(format!("the price was {before}, was raised by a tenth, and is {after}")));
    }
    Ok(same("the price", Some(before), again.map(Some)))
}

/// Test 8. The district has no order that is to be delivered.
pub(super) async fn new_order_under_delivery(stage: &Stage, test: u32) -> OpResult<Verdict> {
    let district = district(test);
    let of = doc! {"NO_W_ID": 1_i64, "NO_D_ID": i64::from(test)};
    let (mut first, mut second) = (stage.actor().await?, stage.actor().await?);
    while first.work().session.delete(NEW_ORDER, of.clone()).await? {}
    let oldest = async |work: &mut Work<'_>| {
        let find = Find::new(of.clone()).sort(doc! {"NO_O_ID": 1});
        work.session.find_one(NEW_ORDER, find).await?.map(|row| number(&row, "NO_O_ID")).transpose()
    };
    first.begin().await?;
    let before = oldest(&mut first.work()).await?;
    let input = order(Customer { district, number: 4 });
    let (_, _, again) = meet(
        &mut second,
        async |work| new_order::run_new_order(work, &input, DateTime::now()).await,
        async || again(&mut first, &oldest).await,
    )
    .await?;
    Ok(same("the oldest order to be delivered", before, again))
}

/// Test 9 of the specification.
pub(super) async fn new_order_under_order_status(stage: &Stage, test: u32) -> OpResult<Verdict> {
    let customer = Customer { district: district(test), number: 4 };
    let newest = async |work: &mut Work<'_>| Ok(orders::newest(work, customer).await?.map(|order| order.number));
    let (mut first, mut second) = (stage.actor().await?, stage.actor().await?);
    first.begin().await?;
    let before = newest(&mut first.work()).await?;
    let input = order(customer);
    let (_, _, again) = meet(
        &mut second,
        async |work| new_order::run_new_order(work, &input, DateTime::now()).await,
        async || again(&mut first, &newest).await,
    )
    .await?;
    Ok(same("the newest order", before, again))
}

/// Reads again and commits; `None` if the transaction was rolled back on the way.
async fn again<T>(first: &mut Actor, read: &impl AsyncFn(&mut Work<'_>) -> OpResult<T>) -> OpResult<Option<T>> {
    let read_and_commit = async {
        let answer = read(&mut first.work()).await?;
        first.end(End::Commit).await?;
        Ok(answer)
    };
    match read_and_commit.await {
        Ok(answer) => Ok(Some(answer)),
        Err(OpError::Conflict(_)) => first.end(End::Rollback).await.map(|()| None),
        Err(error) => Err(error),
    }
}

fn same(what: &str, before: Option<i64>, again: Option<Option<i64>>) -> Verdict {
    let tell = |answer: Option<i64>| answer.map_or_else(|| "none".to_owned(), |number| number.to_string());
    match again {
        Some(again) if again != before => Err(format!("{what} was {} first and {} then", tell(before), tell(again))),
        _ => Ok(()),
    }
}
