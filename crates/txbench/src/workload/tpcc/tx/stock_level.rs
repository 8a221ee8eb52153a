//! Stock-level (clause 2.8): counts the items in a district's last 20 orders that are running out.

use bson::doc;

use super::{
    orders,
    work::{Work, number},
};
use crate::{
    error::OpResult,
    workload::tpcc::{
        ids,
        input::StockLevel,
        schema::{DISTRICT, STOCK},
    },
};

/// Number of orders that are looked at.
const LAST_ORDERS: i64 = 20;

/// Runs the transaction without its begin and its end. Returns the number of items with a stock
/// below the threshold.
///
/// # Errors
/// The target's errors.
pub async fn run_stock_level(work: &mut Work<'_>, input: &StockLevel) -> OpResult<usize> {
    let district = work.row(DISTRICT, input.district.id(), &["D_NEXT_O_ID"]).await?;
    let next = number(&district, "D_NEXT_O_ID")?;
    let items = orders::items(work, input.district, (next - LAST_ORDERS).max(1)..next).await?;
    let stocks: Vec<i64> = items.into_iter().map(|item| ids::stock(input.district.warehouse, item)).collect();
    let low = doc! {"_id": {"$in": stocks}, "S_QUANTITY": {"$lt": i64::from(input.threshold)}};
    Ok(work.find(STOCK, low, &["_id"]).await?.len())
}
