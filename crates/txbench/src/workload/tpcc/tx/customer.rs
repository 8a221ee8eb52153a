//! Finding a customer, by number or by last name (clauses 2.5.2.2 and 2.6.2.2).

use bson::{Document, doc};

use super::work::{Work, missing, number};
use crate::{
    error::OpResult,
    targets::Find,
    workload::tpcc::{ids::Customer, input::Who, schema::CUSTOMER},
};

/// The customer with these fields. Of several with the same last name, the one in the middle by
/// first name.
///
/// # Errors
/// [`crate::error::OpError::Fatal`] if there is none; the target's errors.
pub async fn find(work: &mut Work<'_>, who: &Who, fields: &[&str]) -> OpResult<(Customer, Document)> {
    let (district, last) = match who {
        Who::Number(customer) => return Ok((*customer, work.row(CUSTOMER, customer.id(), fields).await?)),
        Who::Name { district, last } => (*district, last),
    };
    let fields = [fields, &["C_ID", "C_FIRST"]].concat();
    let (warehouse, number_of_district) = (i64::from(district.warehouse), i64::from(district.number));
    let filter = doc! {"C_W_ID": warehouse, "C_D_ID": number_of_district, "C_LAST": last};
    let find = Find::new(filter).project(work.projection(&fields)).sort(doc! {"C_FIRST": 1});
    let mut found = work.session.find(CUSTOMER, find).await?;
    if found.is_empty() {
        return Err(missing(CUSTOMER, last));
    }
    let row = found.swap_remove(middle(found.len()));
    let number = number(&row, "C_ID")?;
    Ok((Customer { district, number: u32::try_from(number).unwrap_or_default() }, row))
}

/// The place, from 0, of the one in the middle of `n`, rounded up when counted from 1.
fn middle(n: usize) -> usize {
    n.div_ceil(2) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_rounded_up() {
        assert_eq!([1, 2, 3, 4, 5].map(middle), [0, 0, 1, 1, 2]);
    }
}
