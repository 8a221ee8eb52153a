//! Delivery (clause 2.7): the oldest order of each district of a warehouse that is not delivered.
//! All ten are one transaction (clause 2.7.2 leaves that open).

use bson::{DateTime, Document, doc};

use super::{
    orders::{self, Delivered, Open},
    work::{Work, number},
};
use crate::{
    error::{OpError, OpResult},
    targets::{Change, Find, Update},
    workload::tpcc::{
        ids::{Customer, District, Order},
        input::Delivery,
        scale::DISTRICTS,
        schema::{CUSTOMER, NEW_ORDER},
    },
};

/// Delivers at most one order of each district, and returns them for the log of clause 2.7.2.2. A
/// district without an order to deliver is skipped.
///
/// # Errors
/// The target's errors; a conflict if a rival was faster to deliver an order.
pub async fn run_delivery(work: &mut Work<'_>, input: &Delivery, at: DateTime) -> OpResult<Vec<Order>> {
    let districts = (1..=DISTRICTS).map(|number| District { warehouse: input.warehouse, number });
    let mut open = Vec::new();
    let mut delivered = Vec::new();
    for district in districts {
        let Some(oldest) = take_oldest(work, district).await? else { continue };
        open.push(oldest);
        if !work.how.writes_first {
            delivered.push(orders::deliver(work, oldest, input.carrier, at).await?);
        }
    }
    if work.how.writes_first {
        for oldest in &open {
            delivered.push(orders::deliver(work, *oldest, input.carrier, at).await?);
        }
    }
    work.update_each(CUSTOMER, delivered.iter().map(charge).collect()).await?;
    Ok(open.into_iter().map(|open| open.order).collect())
}

/// The oldest order of a district that is not delivered; it counts as delivered from then on.
async fn take_oldest(work: &mut Work<'_>, district: District) -> OpResult<Option<Open>> {
    let filter = doc! {"NO_W_ID": i64::from(district.warehouse), "NO_D_ID": i64::from(district.number)};
    let projection = work.projection(&["NO_O_ID", "NO_C_ID"]);
    let find = Find::new(filter).sort(doc! {"NO_O_ID": 1}).project(projection);
    let row = match work.how.find_and_modify {
        true => work.session.find_and_modify(NEW_ORDER, find, Change::Remove).await?,
        false => work.session.find_one(NEW_ORDER, find).await?,
    };
    let Some(row) = row else { return Ok(None) };
    let open = open(district, &row)?;
    if !work.how.find_and_modify && !work.session.delete(NEW_ORDER, doc! {"_id": open.order.id()}).await? {
        return Err(OpError::Conflict("delivered by another"));
    }
    Ok(Some(open))
}

fn open(district: District, row: &Document) -> OpResult<Open> {
    let customer = row.get("NO_C_ID").is_some().then(|| number(row, "NO_C_ID")).transpose()?;
    let customer = customer.and_then(|customer| u32::try_from(customer).ok());
    Ok(Open { order: Order { district, number: number(row, "NO_O_ID")? }, customer })
}

/// The update that charges the customer for the order.
fn charge(delivered: &Delivered) -> Update {
    let Delivered { customer, amount_cents } = *delivered;
    let id = Customer::id(customer);
    Update { filter: doc! {"_id": id}, update: doc! {"$inc": {"C_BALANCE": amount_cents, "C_DELIVERY_CNT": 1_i64}} }
}
