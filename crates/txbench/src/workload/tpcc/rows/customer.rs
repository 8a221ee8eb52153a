//! Rows of customers and of their payments (the history), at the load and later.

use bson::{DateTime, Document, doc};

use super::{address::address, loaded_at};
use crate::workload::tpcc::{
    draw::{Draw, last_name},
    ids::{Customer, District},
    nurand::NuRands,
    scale::Scale,
};

/// Amount that every customer has paid before the run: 10.00.
pub const FIRST_PAYMENT_CENTS: i64 = 1_000;
/// The credit of one customer in ten.
pub const BAD_CREDIT: &str = "BC";

/// A customer, as [`Scale`] has them: the first have one each of the last names, the others any.
pub fn customer(draw: &mut Draw, of: Customer, scale: &Scale, nurands: &NuRands) -> Document {
    let Customer { district, number } = of;
    let name = if number <= scale.names() { number - 1 } else { nurands.last_name.draw(draw) };
    let mut row = doc! {
        "_id": of.id(),
        "C_ID": i64::from(number),
        "C_D_ID": i64::from(district.number),
        "C_W_ID": i64::from(district.warehouse),
        "C_FIRST": draw.a_string(8..=16),
        "C_MIDDLE": "OE",
        "C_LAST": last_name(name),
    };
    row.extend(address(draw, "C"));
    row.extend(doc! {
        "C_PHONE": draw.n_string(16..=16),
        "C_SINCE": loaded_at(),
        "C_CREDIT": if draw.percent(10) { BAD_CREDIT } else { "GC" },
        "C_CREDIT_LIM": 5_000_000_i64,
        "C_DISCOUNT": draw.uniform(0..=5_000).cast_signed(),
        "C_BALANCE": -FIRST_PAYMENT_CENTS,
        "C_YTD_PAYMENT": FIRST_PAYMENT_CENTS,
        "C_PAYMENT_CNT": 1_i64,
        "C_DELIVERY_CNT": 0_i64,
        "C_DATA": draw.a_string(300..=500),
    });
    row
}

/// The row of a payment, without `_id`.
pub fn payment(by: Customer, to: District, amount_cents: i64, at: DateTime, data: &str) -> Document {
    doc! {
        "H_C_ID": i64::from(by.number),
        "H_C_D_ID": i64::from(by.district.number),
        "H_C_W_ID": i64::from(by.district.warehouse),
        "H_D_ID": i64::from(to.number),
        "H_W_ID": i64::from(to.warehouse),
        "H_DATE": at,
        "H_AMOUNT": amount_cents,
        "H_DATA": data,
    }
}

/// The payment that every customer has made before, without `_id`.
pub fn first_payment(draw: &mut Draw, by: Customer) -> Document {
    payment(by, by.district, FIRST_PAYMENT_CENTS, loaded_at(), &draw.a_string(12..=24))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_district_has_its_names_and_one_in_ten_with_bad_credit() {
        let scale = Scale::new(1, 1.0);
        let nurands = NuRands::of_load(&scale, 1);
        let mut draw = Draw::new(1, 0);
        let district = District { warehouse: 1, number: 1 };
        let (mut names, mut bad) = (BTreeMap::<String, u32>::new(), 0);
        for number in 1..=3_000 {
            let row = customer(&mut draw, Customer { district, number }, &scale, &nurands);
            *names.entry(row.get_str("C_LAST").unwrap_or_default().to_owned()).or_default() += 1;
            bad += u32::from(row.get_str("C_CREDIT").unwrap() == BAD_CREDIT);
            assert!(row.get_i32("C_DISCOUNT").is_ok_and(|discount| (0..=5_000).contains(&discount)));
            assert!(row.get_str("C_DATA").is_ok_and(|data| (300..=500).contains(&data.len())));
            assert_eq!((row.get_i64("C_BALANCE").unwrap(), row.get_i64("C_YTD_PAYMENT").unwrap()), (-1_000, 1_000));
            if number == 372 {
                assert_eq!(row.get_str("C_LAST").unwrap(), "PRICALLYOUGHT");
            }
        }
        assert_eq!(names.len(), 1_000);
        assert!((240..=360).contains(&bad), "{bad}");
    }
}
