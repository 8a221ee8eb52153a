//! Customers, payments and orders of one district, in the three layouts.

use bson::{Bson, Document};

use super::{Load, bulk::Bulk};
use crate::{
    error::BenchError,
    workload::tpcc::{
        ids::{Customer, District},
        nurand::NuRands,
        rows::{
            customer::{customer, first_payment},
            order::{LineRow, OrderRow, first_orders},
        },
        schema::{CUSTOMER, HISTORY, NEW_ORDER, ORDER, ORDER_LINE, Schema},
    },
};

/// The rows of one district.
struct Rows {
    customers: Vec<Document>,
    /// One of each customer, in the same order, without `_id`.
    payments: Vec<Document>,
    orders: Vec<(OrderRow, Vec<LineRow>)>,
}

pub(super) async fn load(
    bulk: &mut Bulk<'_>,
    load: &Load,
    district: District,
    nurands: &NuRands,
) -> Result<(), BenchError> {
    let mut draw = load.draw(district.warehouse, district.number);
    let of = |number| Customer { district, number };
    let numbers = 1..=load.scale.customers;
    let rows = Rows {
        customers: numbers.clone().map(|number| customer(&mut draw, of(number), &load.scale, nurands)).collect(),
        payments: numbers.map(|number| first_payment(&mut draw, of(number))).collect(),
        orders: first_orders(&mut draw, district, &load.scale),
    };
    bulk.put(NEW_ORDER, new_orders(&rows, load.schema)).await?;
    match load.schema {
        Schema::Normalized => normalized(bulk, rows).await,
        Schema::Recommended => recommended(bulk, rows).await,
        Schema::Denormalized => bulk.put(CUSTOMER, whole_customers(rows)).await,
    }
}

fn new_orders(rows: &Rows, schema: Schema) -> Vec<Document> {
    let with_customer = schema == Schema::Denormalized;
    let open = rows.orders.iter().filter(|(order, _)| order.carrier.is_none());
    open.map(|(order, _)| order.new_order(with_customer)).collect()
}

async fn normalized(bulk: &mut Bulk<'_>, mut rows: Rows) -> Result<(), BenchError> {
    let payments = history(&mut rows);
    bulk.put(CUSTOMER, rows.customers).await?;
    bulk.put(HISTORY, payments).await?;
    bulk.put(ORDER, rows.orders.iter().map(|(order, _)| order.document()).collect()).await?;
    let lines = rows.orders.iter().flat_map(|(order, lines)| lines.iter().map(|line| line.document(order.order)));
    bulk.put(ORDER_LINE, lines.collect()).await
}

async fn recommended(bulk: &mut Bulk<'_>, mut rows: Rows) -> Result<(), BenchError> {
    let payments = history(&mut rows);
    bulk.put(CUSTOMER, rows.customers).await?;
    bulk.put(HISTORY, payments).await?;
    bulk.put(ORDER, rows.orders.iter().map(|(order, lines)| order.with_lines(lines)).collect()).await
}

/// The payments as rows of their own. A table of payments has no key: the customer's stands for the
/// first one.
fn history(rows: &mut Rows) -> Vec<Document> {
    let ids = rows.customers.iter().filter_map(|customer| customer.get("_id").cloned());
    let payments = std::mem::take(&mut rows.payments);
    let with_id = |(id, payment): (Bson, Document)| {
        let mut row = Document::from_iter([("_id".to_owned(), id)]);
        row.extend(payment);
        row
    };
    ids.zip(payments).map(with_id).collect()
}

/// The customers with all that belongs to them.
fn whole_customers(rows: Rows) -> Vec<Document> {
    let mut customers = rows.customers;
    for (customer, payment) in customers.iter_mut().zip(rows.payments) {
        customer.insert("C_HISTORY", [payment]);
    }
    for (order, lines) in rows.orders {
        customers[order.customer as usize - 1].insert("C_ORDERS", [order.embedded(&lines)]);
    }
    customers
}
