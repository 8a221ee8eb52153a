//! Payment (clause 2.5): the amount goes to the warehouse's and the district's sums, the customer's
//! balance, and the history.

use bson::{Bson, DateTime, Document, doc};

use super::{
    customer,
    work::{Work, missing, number, text},
};
use crate::{
    error::OpResult,
    targets::Update,
    workload::tpcc::{
        ids::Customer,
        input::{Payment, Who},
        rows::customer::{BAD_CREDIT, payment},
        schema::{CUSTOMER, DISTRICT, HISTORY, Schema, WAREHOUSE},
    },
};

const OF_WAREHOUSE: &[&str] = &["W_NAME", "W_STREET_1", "W_STREET_2", "W_CITY", "W_STATE", "W_ZIP"];
const OF_DISTRICT: &[&str] = &["D_NAME", "D_STREET_1", "D_STREET_2", "D_CITY", "D_STATE", "D_ZIP"];
const OF_CUSTOMER: &[&str] = &[
    "C_FIRST",
    "C_MIDDLE",
    "C_LAST",
    "C_STREET_1",
    "C_STREET_2",
    "C_CITY",
    "C_STATE",
    "C_ZIP",
    "C_PHONE",
    "C_SINCE",
    "C_CREDIT",
    "C_CREDIT_LIM",
    "C_DISCOUNT",
    "C_BALANCE",
    "C_PAYMENT_CNT",
    "C_DATA",
];
/// Greatest length of a customer's data, in characters.
const DATA_CHARS: usize = 500;

/// Output of the terminal (clause 2.5.3.3), in part.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Primary key of the customer who paid.
    pub customer: Customer,
    /// Balance of the customer after the payment.
    pub balance_cents: i64,
    /// True if the customer's credit is bad.
    pub bad_credit: bool,
}

/// Runs the transaction without its begin and its end.
///
/// # Errors
/// The target's errors; a conflict if the customer changed since it was read.
pub async fn run_payment(work: &mut Work<'_>, input: &Payment, at: DateTime) -> OpResult<Answer> {
    if work.how.writes_first {
        let names = add_to_sums(work, input).await?;
        let (customer, row) = find(work, &input.who).await?;
        return pay(work, input, customer, row, &names, at).await;
    }
    let (customer, row) = find(work, &input.who).await?;
    let names = add_to_sums(work, input).await?;
    pay(work, input, customer, row, &names, at).await
}

/// The customer, with the row where the update does not return it.
async fn find(work: &mut Work<'_>, who: &Who) -> OpResult<(Customer, Document)> {
    match (work.how.find_and_modify, who) {
        (true, Who::Number(customer)) => Ok((*customer, Document::new())),
        (true, Who::Name { .. }) => customer::find(work, who, &[]).await,
        (false, _) => customer::find(work, who, OF_CUSTOMER).await,
    }
}

/// Adds to the warehouse's and the district's sums of the year; returns the history's text about
/// them.
async fn add_to_sums(work: &mut Work<'_>, input: &Payment) -> OpResult<String> {
    let amount = input.amount_cents;
    let add = doc! {"$inc": {"W_YTD": amount}};
    let warehouse = work.read_and_add(WAREHOUSE, input.to.warehouse.into(), add, OF_WAREHOUSE).await?;
    let add = doc! {"$inc": {"D_YTD": amount}};
    let district = work.read_and_add(DISTRICT, input.to.id(), add, OF_DISTRICT).await?;
    Ok(format!("{}    {}", text(&warehouse, "W_NAME")?, text(&district, "D_NAME")?))
}

async fn pay(
    work: &mut Work<'_>,
    input: &Payment,
    customer: Customer,
    row: Document,
    names: &str,
    at: DateTime,
) -> OpResult<Answer> {
    let paid = payment(customer, input.to, input.amount_cents, at, names);
    let mut update = doc! {"$inc": {
        "C_BALANCE": -input.amount_cents,
        "C_YTD_PAYMENT": input.amount_cents,
        "C_PAYMENT_CNT": 1_i64,
    }};
    if work.how.schema == Schema::Denormalized {
        update.insert("$push", doc! {"C_HISTORY": paid.clone()});
    }
    let answer = match work.how.find_and_modify {
        true => change_then_look(work, input, customer, update).await?,
        false => look_then_change(work, input, customer, &row, update).await?,
    };
    if work.how.schema != Schema::Denormalized {
        let mut history = doc! {"_id": input.history_id};
        history.extend(paid);
        work.session.insert(HISTORY, vec![history]).await?;
    }
    Ok(answer)
}

async fn change_then_look(
    work: &mut Work<'_>,
    input: &Payment,
    customer: Customer,
    update: Document,
) -> OpResult<Answer> {
    let id = customer.id();
    let row = work.change(CUSTOMER, id, update, OF_CUSTOMER).await?.ok_or_else(|| missing(CUSTOMER, id))?;
    let bad_credit = text(&row, "C_CREDIT")? == BAD_CREDIT;
    if bad_credit {
        let update = doc! {"$set": {"C_DATA": data(input, customer, text(&row, "C_DATA")?)}};
        work.update(CUSTOMER, Update { filter: doc! {"_id": id}, update }).await?;
    }
    Ok(Answer { customer, balance_cents: number(&row, "C_BALANCE")?, bad_credit })
}

/// Every payment raises the count of payments: while it is the same, so is what was read.
async fn look_then_change(
    work: &mut Work<'_>,
    input: &Payment,
    customer: Customer,
    row: &Document,
    mut update: Document,
) -> OpResult<Answer> {
    let bad_credit = text(row, "C_CREDIT")? == BAD_CREDIT;
    if bad_credit {
        update.insert("$set", doc! {"C_DATA": data(input, customer, text(row, "C_DATA")?)});
    }
    let unchanged = doc! {"_id": customer.id(), "C_PAYMENT_CNT": number(row, "C_PAYMENT_CNT")?};
    work.update(CUSTOMER, Update { filter: unchanged, update }).await?;
    Ok(Answer { customer, balance_cents: number(row, "C_BALANCE")? - input.amount_cents, bad_credit })
}

/// The data of a customer with bad credit: this payment, before what was there.
fn data(input: &Payment, customer: Customer, before: &str) -> Bson {
    let Customer { district, number } = customer;
    let (whole, cents) = (input.amount_cents / 100, input.amount_cents % 100);
    let (d, w, to) = (district.number, district.warehouse, input.to);
    let payment = format!("{number} {d} {w} {} {} {whole}.{cents:02} ", to.number, to.warehouse);
    (payment + before).chars().take(DATA_CHARS).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tpcc::ids::District;

    #[test]
    fn the_data_of_bad_credit_begins_with_the_payment_and_keeps_500_characters() {
        let to = District { warehouse: 4, number: 5 };
        let customer = Customer { district: District { warehouse: 2, number: 3 }, number: 1 };
        let input = Payment { to, who: Who::Number(customer), amount_cents: 123_405, history_id: -1 };
        assert_eq!(data(&input, customer, "x").as_str(), Some("1 3 2 5 4 1234.05 x"));
        assert_eq!(data(&input, customer, &"x".repeat(500)).as_str().map(str::len), Some(500));
    }
}
