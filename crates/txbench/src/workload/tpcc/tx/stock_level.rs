//! Stock-level (clause 2.8): how many of the items in a district's last 20 orders are running out.

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

/// Orders that are looked at.
const LAST_ORDERS: i64 = 20;

/// All of the transaction but its begin and its end: how many items have a stock below the
/// threshold.
///
/// # Errors
/// Those of the target.
pub async fn run(work: &mut Work<'_>, input: &StockLevel) -> OpResult<usize> {
    let district = work.row(DISTRICT, input.district.id(), &["D_NEXT_O_ID"]).await?;
    let next = number(&district, "D_NEXT_O_ID")?;
    let items = orders::items(work, input.district, (next - LAST_ORDERS).max(1)..next).await?;
    let stocks: Vec<i64> = items.into_iter().map(|item| ids::stock(input.district.warehouse, item)).collect();
    let low = doc! {"_id": {"$in": stocks}, "S_QUANTITY": {"$lt": i64::from(input.threshold)}};
    Ok(work.find(STOCK, low, &["_id"]).await?.len())
}
