//! Orders and their lines, wherever the schema has them. The transactions do not know where that
//! is.

mod denormalized;
mod normalized;
mod recommended;

use std::{collections::BTreeSet, ops::Range};

use bson::{Bson, DateTime, Document};

use super::work::{Work, number};
use crate::{
    error::OpResult,
    workload::tpcc::{
        ids::{Customer, District, Order},
        rows::order::{LineRow, OrderRow},
        schema::{NEW_ORDER, Schema},
    },
};

/// An order that is to be delivered.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Primary key of the order.
    pub order: Order,
    /// Number of the order's customer, where the schema has it in the order.
    pub customer: Option<u32>,
}

/// An order, as its customer sees it (clause 2.6.2.2).
#[derive(Clone, Debug)]
pub struct Shown {
    /// Number of the order in the district.
    pub number: i64,
    /// Carrier that delivered it, if it was delivered.
    pub carrier: Option<i64>,
    /// Items and their prices in cents.
    pub lines: Vec<(i64, i64)>,
}

/// An order that is delivered now.
#[derive(Clone, Copy, Debug)]
pub struct Delivered {
    /// Primary key of the customer who ordered.
    pub customer: Customer,
    /// Sum of the lines' amounts, in cents.
    pub amount_cents: i64,
}

/// Inserts an order with its lines, and then the row that says that it is not delivered.
///
/// # Errors
/// The target's errors.
pub async fn insert(work: &mut Work<'_>, order: &OrderRow, lines: &[LineRow]) -> OpResult<()> {
    match work.how.schema {
        Schema::Normalized => normalized::insert(work, order, lines).await?,
        Schema::Denormalized => denormalized::insert(work, order, lines).await?,
        Schema::Recommended => recommended::insert(work, order, lines).await?,
    }
    let row = order.new_order(work.how.schema == Schema::Denormalized);
    work.session.insert(NEW_ORDER, vec![row]).await
}

/// Finds a customer's newest order, wherever the schema has it.
///
/// # Errors
/// The target's errors.
pub async fn newest(work: &mut Work<'_>, customer: Customer) -> OpResult<Option<Shown>> {
    match work.how.schema {
        Schema::Normalized => normalized::newest(work, customer).await,
        Schema::Denormalized => denormalized::newest(work, customer).await,
        Schema::Recommended => recommended::newest(work, customer).await,
    }
}

/// Notes that an order is delivered.
///
/// # Errors
/// The target's errors.
pub async fn deliver(work: &mut Work<'_>, open: Open, carrier: u32, at: DateTime) -> OpResult<Delivered> {
    match work.how.schema {
        Schema::Normalized => normalized::deliver(work, open.order, carrier, at).await,
        Schema::Denormalized => denormalized::deliver(work, open, carrier, at).await,
        Schema::Recommended => recommended::deliver(work, open.order, carrier, at).await,
    }
}

/// The items in the orders of a district with these numbers.
///
/// # Errors
/// The target's errors.
pub async fn items(work: &mut Work<'_>, district: District, numbers: Range<i64>) -> OpResult<BTreeSet<u32>> {
    let items = match work.how.schema {
        Schema::Normalized => normalized::items(work, district, numbers).await?,
        Schema::Denormalized => denormalized::items(work, district, numbers).await?,
        Schema::Recommended => recommended::items(work, district, numbers).await?,
    };
    Ok(items.into_iter().filter_map(|item| u32::try_from(item).ok()).collect())
}

/// The customer of an order in this district.
fn customer_of(district: District, order: &Document) -> OpResult<Customer> {
    Ok(Customer { district, number: u32::try_from(number(order, "O_C_ID")?).unwrap_or_default() })
}

/// An order as it is shown, with these lines.
fn shown<'a>(order: &Document, lines: impl Iterator<Item = &'a Document>) -> OpResult<Shown> {
    let carrier = match order.get("O_CARRIER_ID") {
        None | Some(Bson::Null) => None,
        Some(_) => Some(number(order, "O_CARRIER_ID")?),
    };
    let lines = lines.map(|line| Ok((number(line, "OL_I_ID")?, number(line, "OL_AMOUNT")?)));
    Ok(Shown { number: number(order, "O_ID")?, carrier, lines: lines.collect::<OpResult<_>>()? })
}

/// Sum of the lines' amounts.
fn amount<'a>(mut lines: impl Iterator<Item = &'a Document>) -> OpResult<i64> {
    lines.try_fold(0, |sum, line| Ok(sum + number(line, "OL_AMOUNT")?))
}
