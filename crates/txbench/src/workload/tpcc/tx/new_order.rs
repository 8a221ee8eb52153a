//! New-order (clause 2.4): a number from the district, what is ordered from the stocks, and the
//! order's rows.

use std::collections::BTreeMap;

use bson::{DateTime, Document, doc};

use super::{
    orders,
    stock::{self, Taken},
    work::{Work, missing, number, text},
};
use crate::{
    error::OpResult,
    targets::Update,
    workload::tpcc::{
        draw::ORIGINAL,
        ids::{self, Order},
        input::{Line, NewOrder},
        rows::order::{LineRow, OrderRow},
        schema::{CUSTOMER, DISTRICT, ITEM, STOCK, WAREHOUSE},
    },
};

/// Output of the terminal (clause 2.4.3.3).
#[derive(Clone, Debug)]
pub struct Answer {
    /// Key of the new order.
    pub order: Order,
    /// Lines of the new order.
    pub lines: Vec<AnswerLine>,
    /// Amount that the customer has to pay.
    pub total_cents: i64,
    /// True if an item does not exist: the transaction has to be rolled back.
    pub wrong_item: bool,
}

/// One line of the output.
#[derive(Clone, Debug)]
pub struct AnswerLine {
    /// Name of the item that the line orders.
    pub item_name: String,
    /// Quantity that is left in the stock.
    pub stock_quantity: i64,
    /// True if both the item's and the stock's data say that it is original.
    pub is_brand: bool,
    /// Price of one item, in cents.
    pub price_cents: i64,
    /// Price of the line, in cents.
    pub amount_cents: i64,
}

/// Documents that the order reads and does not change.
struct Read {
    warehouse: Document,
    customer: Document,
    items: BTreeMap<i64, Document>,
}

/// Runs the transaction without its begin and its end. If an item does not exist, everything is
/// done that can be (clause 2.4.2.3), and the caller rolls back.
///
/// # Errors
/// The target's errors; a conflict if a row changed since it was read.
pub async fn run_new_order(work: &mut Work<'_>, input: &NewOrder, at: DateTime) -> OpResult<Answer> {
    let all: Vec<&Line> = input.lines.iter().collect();
    let (district, number, read, stocks) = if work.how.writes_first {
        let (district, number) = take_number(work, input).await?;
        let stocks = stock::take(work, input, &all).await?;
        (district, number, read(work, input).await?, stocks)
    } else {
        let read = read(work, input).await?;
        let (district, number) = take_number(work, input).await?;
        let stocks = stock::take(work, input, &read.known(&all)).await?;
        (district, number, read, stocks)
    };
    let order = Order { district: input.customer.district, number };
    let known = read.known(&all);
    // Writes first: there may be a stock of nothing among them, the wrong item's.
    let stocks: Vec<Taken> = stocks.into_iter().flatten().collect();
    if stocks.len() != known.len() {
        return Err(missing(STOCK, format_args!("of an item of the order {}", order.id())));
    }
    let mut answer = Answer { order, lines: Vec::new(), total_cents: 0, wrong_item: known.len() < all.len() };
    let mut rows = Vec::new();
    for (line, taken) in known.iter().zip(stocks) {
        let (shown, row) = price(line, rows.len() + 1, &read, taken)?;
        answer.lines.push(shown);
        rows.push(row);
    }
    insert(work, input, order, at, &rows).await?;
    answer.total_cents = total(&answer, &district, &read)?;
    Ok(answer)
}

/// The next number of the district, and the district.
async fn take_number(work: &mut Work<'_>, input: &NewOrder) -> OpResult<(Document, i64)> {
    const FIELDS: &[&str] = &["D_NEXT_O_ID", "D_TAX"];
    let id = input.customer.district.id();
    let increment = doc! {"$inc": {"D_NEXT_O_ID": 1_i64}};
    if work.how.find_and_modify {
        let row = work.change(DISTRICT, id, increment, FIELDS).await?.ok_or_else(|| missing(DISTRICT, id))?;
        let next = number(&row, "D_NEXT_O_ID")?;
        return Ok((row, next - 1));
    }
    let row = work.row(DISTRICT, id, FIELDS).await?;
    let next = number(&row, "D_NEXT_O_ID")?;
    let unchanged = doc! {"_id": id, "D_NEXT_O_ID": next};
    work.update(DISTRICT, Update { filter: unchanged, update: increment }).await?;
    Ok((row, next))
}

async fn read(work: &mut Work<'_>, input: &NewOrder) -> OpResult<Read> {
    let warehouse = i64::from(input.customer.district.warehouse);
    let warehouse = work.row(WAREHOUSE, warehouse, &["W_TAX"]).await?;
    let customer = work.row(CUSTOMER, input.customer.id(), &["C_DISCOUNT", "C_LAST", "C_CREDIT"]).await?;
    let mut wanted: Vec<i64> = input.lines.iter().map(|line| line.item.into()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut items = BTreeMap::new();
    for item in work.rows(ITEM, &wanted, &["I_PRICE", "I_NAME", "I_DATA"]).await? {
        items.insert(number(&item, "_id")?, item);
    }
    Ok(Read { warehouse, customer, items })
}

impl Read {
    /// The lines whose item exists.
    fn known<'a>(&self, lines: &[&'a Line]) -> Vec<&'a Line> {
        lines.iter().copied().filter(|line| self.items.contains_key(&line.item.into())).collect()
    }
}

fn price(line: &Line, place: usize, read: &Read, taken: Taken) -> OpResult<(AnswerLine, LineRow)> {
    let item = read.items.get(&line.item.into()).ok_or_else(|| missing(ITEM, line.item))?;
    let price_cents = number(item, "I_PRICE")?;
    let amount_cents = price_cents * i64::from(line.quantity);
    let shown = AnswerLine {
        item_name: text(item, "I_NAME")?.to_owned(),
        stock_quantity: taken.quantity,
        is_brand: text(item, "I_DATA")?.contains(ORIGINAL) && taken.data.contains(ORIGINAL),
        price_cents,
        amount_cents,
    };
    let row = LineRow {
        number: place,
        item: line.item,
        supply: line.supply,
        quantity: line.quantity,
        amount_cents,
        dist_info: taken.dist_info,
        delivered: None,
    };
    Ok((shown, row))
}

async fn insert(work: &mut Work<'_>, input: &NewOrder, order: Order, at: DateTime, rows: &[LineRow]) -> OpResult<()> {
    let ids::Customer { district, number: customer } = input.customer;
    let all_local = input.lines.iter().all(|line| line.supply == district.warehouse);
    let order = OrderRow { order, customer, at, carrier: None, line_count: input.lines.len(), all_local };
    orders::insert(work, &order, rows).await
}

/// The sum, less the customer's discount, with the taxes of the warehouse and the district.
fn total(answer: &Answer, district: &Document, read: &Read) -> OpResult<i64> {
    let sum: i64 = answer.lines.iter().map(|line| line.amount_cents).sum();
    let discount = number(&read.customer, "C_DISCOUNT")?;
    let tax = number(&read.warehouse, "W_TAX")? + number(district, "D_TAX")?;
    Ok(with_taxes(sum, discount, tax))
}

/// The sum with taxes, rounded to cents; discount and tax in hundredths of a percent.
fn with_taxes(sum_cents: i64, discount: i64, tax: i64) -> i64 {
    const WHOLE: i64 = 10_000;
    (sum_cents * (WHOLE - discount) * (WHOLE + tax) + WHOLE * WHOLE / 2) / (WHOLE * WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_less_the_discount_and_with_both_taxes() {
        // 100.00 less 50 % with 20 % and 20 % taxes.
        assert_eq!(with_taxes(10_000, 5_000, 4_000), 7_000);
        assert_eq!(with_taxes(10_000, 0, 0), 10_000);
        // 0.99 * 0.9 * 1.0 = 0.891.
        assert_eq!(with_taxes(99, 1_000, 0), 89);
    }
}
