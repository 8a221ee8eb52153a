//! Orders and order lines in collections of their own: inserting, finding and delivering them.

use std::ops::Range;

use bson::{DateTime, Document, doc};

use super::{Delivered, Shown, amount, customer_of, shown};
use crate::{
    error::OpResult,
    targets::{Find, Update},
    workload::tpcc::{
        ids::{Customer, District, Order},
        rows::order::{LineRow, OrderRow},
        schema::{ORDER, ORDER_LINE},
        tx::work::{Work, number},
    },
};

pub(super) async fn insert(work: &mut Work<'_>, order: &OrderRow, lines: &[LineRow]) -> OpResult<()> {
    work.session.insert(ORDER, vec![order.document()]).await?;
    work.insert(ORDER_LINE, lines.iter().map(|line| line.document(order.order)).collect()).await
}

pub(super) async fn newest(work: &mut Work<'_>, customer: Customer) -> OpResult<Option<Shown>> {
    let find = newest_of(work, customer, &["O_ID", "O_ENTRY_D", "O_CARRIER_ID"]);
    let Some(order) = work.session.find_one(ORDER, find).await? else { return Ok(None) };
    let number = number(&order, "O_ID")?;
    let of = lines_of(customer.district, doc! {"$eq": number});
    const FIELDS: &[&str] = &["OL_I_ID", "OL_SUPPLY_W_ID", "OL_QUANTITY", "OL_AMOUNT", "OL_DELIVERY_D"];
    let lines = work.find(ORDER_LINE, of, FIELDS).await?;
    Ok(Some(shown(&order, lines.iter())?))
}

/// Read that finds a customer's newest order.
pub(super) fn newest_of(work: &Work<'_>, customer: Customer, fields: &[&str]) -> Find {
    let Customer { district, number } = customer;
    let (warehouse, district) = (i64::from(district.warehouse), i64::from(district.number));
    let filter = doc! {"O_W_ID": warehouse, "O_D_ID": district, "O_C_ID": i64::from(number)};
    Find::new(filter).sort(doc! {"O_ID": -1}).project(work.projection(fields))
}

pub(super) async fn deliver(work: &mut Work<'_>, order: Order, carrier: u32, at: DateTime) -> OpResult<Delivered> {
    let delivered = doc! {"$set": {"O_CARRIER_ID": i64::from(carrier)}};
    let row = work.read_and_add(ORDER, order.id(), delivered, &["O_C_ID"]).await?;
    let of = lines_of(order.district, doc! {"$eq": order.number});
    let lines = work.find(ORDER_LINE, of, &["OL_AMOUNT"]).await?;
    let dated = |line: &Document| {
        let id = number(line, "_id")?;
        Ok(Update { filter: doc! {"_id": id}, update: doc! {"$set": {"OL_DELIVERY_D": at}} })
    };
    let updates = lines.iter().map(dated).collect::<OpResult<Vec<Update>>>()?;
    work.update_each(ORDER_LINE, updates).await?;
    Ok(Delivered { customer: customer_of(order.district, &row)?, amount_cents: amount(lines.iter())? })
}

pub(super) async fn items(work: &mut Work<'_>, district: District, numbers: Range<i64>) -> OpResult<Vec<i64>> {
    let of = lines_of(district, doc! {"$gte": numbers.start, "$lt": numbers.end});
    let lines = work.find(ORDER_LINE, of, &["OL_I_ID"]).await?;
    lines.iter().map(|line| number(line, "OL_I_ID")).collect()
}

fn lines_of(district: District, numbers: Document) -> Document {
    let (warehouse, district) = (i64::from(district.warehouse), i64::from(district.number));
    doc! {"OL_W_ID": warehouse, "OL_D_ID": district, "OL_O_ID": numbers}
}
