//! Orders with their lines in them: inserting, finding and delivering them.

use std::ops::Range;

use bson::{DateTime, doc};

use super::{Delivered, Shown, amount, customer_of, normalized::newest_of, shown};
use crate::{
    error::OpResult,
    workload::tpcc::{
        ids::{Customer, District, Order},
        rows::order::{LineRow, OrderRow},
        schema::ORDER,
        tx::work::{Work, documents, number},
    },
};

pub(super) async fn insert(work: &mut Work<'_>, order: &OrderRow, lines: &[LineRow]) -> OpResult<()> {
    work.session.insert(ORDER, vec![order.with_lines(lines)]).await
}

pub(super) async fn newest(work: &mut Work<'_>, customer: Customer) -> OpResult<Option<Shown>> {
    let find = newest_of(work, customer, &["O_ID", "O_ENTRY_D", "O_CARRIER_ID", "O_DELIVERY_D", "O_LINES"]);
    let Some(order) = work.session.find_one(ORDER, find).await? else { return Ok(None) };
    Ok(Some(shown(&order, documents(&order, "O_LINES"))?))
}

pub(super) async fn deliver(work: &mut Work<'_>, order: Order, carrier: u32, at: DateTime) -> OpResult<Delivered> {
    let delivered = doc! {"$set": {"O_CARRIER_ID": i64::from(carrier), "O_DELIVERY_D": at}};
    let row = work.read_and_add(ORDER, order.id(), delivered, &["O_C_ID", "O_LINES.OL_AMOUNT"]).await?;
    let amount_cents = amount(documents(&row, "O_LINES"))?;
    Ok(Delivered { customer: customer_of(order.district, &row)?, amount_cents })
}

/// The numbers of the orders are enough to know their `_id`s.
pub(super) async fn items(work: &mut Work<'_>, district: District, numbers: Range<i64>) -> OpResult<Vec<i64>> {
    let ids: Vec<i64> = numbers.map(|number| Order { district, number }.id()).collect();
    let orders = work.find(ORDER, doc! {"_id": {"$in": ids}}, &["O_LINES.OL_I_ID"]).await?;
    let lines = orders.iter().flat_map(|order| documents(order, "O_LINES"));
    lines.map(|line| number(line, "OL_I_ID")).collect()
}
