//! Taking the ordered quantities from the stocks (clause 2.4.2.2): each by one operation, by a read
//! and an update, or all in a batch.

use std::collections::BTreeMap;

use bson::{Document, doc};

use super::work::{Work, number, text};
use crate::{
    error::OpResult,
    targets::Update,
    workload::tpcc::{
        ids,
        input::{Line, NewOrder},
        rows::stock::dist_field,
        schema::STOCK,
    },
};

/// A stock is filled up when less than this would be left.
const LEAST: i64 = 10;
/// Quantity by which a stock is refilled.
const REFILL: i64 = 91;

/// Values of a stock that an order needs.
#[derive(Clone, Debug)]
pub struct Taken {
    /// Quantity that is left after the order.
    pub quantity: i64,
    /// The stock's text for the district.
    pub dist_info: String,
    /// S_DATA: the text that says whether the stock is original.
    pub data: String,
}

/// Takes what these lines order, each from its stock; `None` for a line whose stock does not exist.
///
/// With the option `batch`, that is one read of all stocks and one write; otherwise each stock is
/// changed and shown by one operation, or by two.
///
/// # Errors
/// The target's errors; a conflict if a stock changed since it was read.
pub async fn take(work: &mut Work<'_>, order: &NewOrder, lines: &[&Line]) -> OpResult<Vec<Option<Taken>>> {
    match work.how.find_and_modify && !work.how.batch {
        true => take_one_by_one(work, order, lines).await,
        false => read_then_update(work, order, lines).await,
    }
}

/// Quantity that is left of `quantity` when `taken` are taken.
fn left(quantity: i64, taken: i64) -> i64 {
    if quantity - taken >= LEAST { quantity - taken } else { quantity - taken + REFILL }
}

async fn take_one_by_one(work: &mut Work<'_>, order: &NewOrder, lines: &[&Line]) -> OpResult<Vec<Option<Taken>>> {
    let dist = dist_field(order.customer.district.number);
    let mut all = Vec::new();
    for line in lines {
        let id = ids::stock(line.supply, line.item);
        let taken = i64::from(line.quantity);
        let update = doc! {"$inc": {
            "S_QUANTITY": -taken,
            "S_YTD": taken,
            "S_ORDER_CNT": 1_i64,
            "S_REMOTE_CNT": remote(order, line),
        }};
        let Some(row) = work.change(STOCK, id, update, &["S_QUANTITY", &dist, "S_DATA"]).await? else {
            all.push(None);
            continue;
        };
        let quantity = number(&row, "S_QUANTITY")?;
        let refilled = left(quantity + taken, taken);
        if refilled != quantity {
            let refill = doc! {"$inc": {"S_QUANTITY": refilled - quantity}};
            work.update(STOCK, Update { filter: doc! {"_id": id}, update: refill }).await?;
        }
        all.push(Some(learn(&row, &dist, refilled)?));
    }
    Ok(all)
}

/// A stock that was read, with its new values: an order may take from it twice.
struct Changing {
    row: Document,
    quantity: i64,
    ytd: i64,
    orders: i64,
    remote: i64,
}

async fn read_then_update(work: &mut Work<'_>, order: &NewOrder, lines: &[&Line]) -> OpResult<Vec<Option<Taken>>> {
    let dist = dist_field(order.customer.district.number);
    let mut wanted: Vec<i64> = lines.iter().map(|line| ids::stock(line.supply, line.item)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut stocks = BTreeMap::new();
    for row in work.rows(STOCK, &wanted, &["S_QUANTITY", &dist, "S_DATA"]).await? {
        let quantity = number(&row, "S_QUANTITY")?;
        stocks.insert(number(&row, "_id")?, Changing { row, quantity, ytd: 0, orders: 0, remote: 0 });
    }
    let mut all = Vec::new();
    for line in lines {
        let Some(stock) = stocks.get_mut(&ids::stock(line.supply, line.item)) else {
            all.push(None);
            continue;
        };
        let taken = i64::from(line.quantity);
        stock.quantity = left(stock.quantity, taken);
        stock.ytd += taken;
        stock.orders += 1;
        stock.remote += remote(order, line);
        all.push(Some(learn(&stock.row, &dist, stock.quantity)?));
    }
    let updates = stocks.iter().map(|(id, stock)| stock.update(*id)).collect::<OpResult<Vec<Update>>>()?;
    work.update_each(STOCK, updates).await?;
    Ok(all)
}

impl Changing {
    /// The update, on condition that the quantity is what was read.
    fn update(&self, id: i64) -> OpResult<Update> {
        let filter = doc! {"_id": id, "S_QUANTITY": number(&self.row, "S_QUANTITY")?};
        let add = doc! {"S_YTD": self.ytd, "S_ORDER_CNT": self.orders, "S_REMOTE_CNT": self.remote};
        Ok(Update { filter, update: doc! {"$set": {"S_QUANTITY": self.quantity}, "$inc": add} })
    }
}

fn remote(order: &NewOrder, line: &Line) -> i64 {
    i64::from(line.supply != order.customer.district.warehouse)
}

fn learn(row: &Document, dist: &str, quantity: i64) -> OpResult<Taken> {
    Ok(Taken { quantity, dist_info: text(row, dist)?.to_owned(), data: text(row, "S_DATA")?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_is_filled_up_before_less_than_ten_are_left() {
        assert_eq!(left(100, 10), 90);
        assert_eq!(left(20, 10), 10);
        assert_eq!(left(19, 10), 100);
        assert_eq!(left(10, 1), 100);
    }
}
