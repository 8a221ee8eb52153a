//! Orders with their lines in the customer. An order is found by its customer, or by an index into
//! all customers' orders.

use std::ops::Range;

use bson::{DateTime, doc};

use super::{Delivered, Open, Shown, amount, shown};
use crate::{
    error::OpResult,
    targets::Update,
    workload::tpcc::{
        ids::{Customer, District},
        rows::order::{LineRow, OrderRow},
        schema::{CUSTOMER, ORDER},
        tx::work::{Work, documents, missing, number},
    },
};

pub(super) async fn insert(work: &mut Work<'_>, order: &OrderRow, lines: &[LineRow]) -> OpResult<()> {
    let update = doc! {"$push": {"C_ORDERS": order.embedded(lines)}};
    work.update(CUSTOMER, Update { filter: doc! {"_id": order.by().id()}, update }).await
}

pub(super) async fn newest(work: &mut Work<'_>, customer: Customer) -> OpResult<Option<Shown>> {
    let row = work.row(CUSTOMER, customer.id(), &["C_ORDERS"]).await?;
    let newest = documents(&row, "C_ORDERS").max_by_key(|order| order.get_i64("O_ID").unwrap_or_default());
    newest.map(|order| shown(order, documents(order, "O_LINES"))).transpose()
}

/// Orders are only ever added at the end: the place of one does not change.
pub(super) async fn deliver(work: &mut Work<'_>, open: Open, carrier: u32, at: DateTime) -> OpResult<Delivered> {
    let Open { order, customer } = open;
    let number_of = customer.ok_or_else(|| missing("the customer of order", order.id()))?;
    let customer = Customer { district: order.district, number: number_of };
    let row = work.row(CUSTOMER, customer.id(), &["C_ORDERS.O_ID", "C_ORDERS.O_LINES.OL_AMOUNT"]).await?;
    let mut orders = documents(&row, "C_ORDERS").enumerate();
    let found = orders.find(|(_, found)| found.get_i64("O_ID").is_ok_and(|number| number == order.number));
    let (place, found) = found.ok_or_else(|| missing(ORDER, order.id()))?;
    let delivered = doc! {
        format!("C_ORDERS.{place}.O_CARRIER_ID"): i64::from(carrier),
        format!("C_ORDERS.{place}.O_DELIVERY_D"): at,
    };
    let update = Update { filter: doc! {"_id": customer.id()}, update: doc! {"$set": delivered} };
    work.update(CUSTOMER, update).await?;
    Ok(Delivered { customer, amount_cents: amount(documents(found, "O_LINES"))? })
}

pub(super) async fn items(work: &mut Work<'_>, district: District, numbers: Range<i64>) -> OpResult<Vec<i64>> {
    let (warehouse, number_of) = (i64::from(district.warehouse), i64::from(district.number));
    let range = doc! {"$elemMatch": {"O_ID": {"$gte": numbers.start, "$lt": numbers.end}}};
    let of = doc! {"C_W_ID": warehouse, "C_D_ID": number_of, "C_ORDERS": range};
    let customers = work.find(CUSTOMER, of, &["C_ORDERS.O_ID", "C_ORDERS.O_LINES.OL_I_ID"]).await?;
    let orders = customers.iter().flat_map(|customer| documents(customer, "C_ORDERS"));
    let last = orders.filter(|order| order.get_i64("O_ID").is_ok_and(|number| numbers.contains(&number)));
    last.flat_map(|order| documents(order, "O_LINES")).map(|line| number(line, "OL_I_ID")).collect()
}
