//! Rows of warehouses and of their districts, at the load.

use bson::{Document, doc};

use crate::workload::tpcc::{
    draw::Draw,
    ids::District,
    rows::{address::address, customer::FIRST_PAYMENT_CENTS},
    scale::{DISTRICTS, Scale},
};

/// A warehouse. It has been paid what its customers have paid.
pub fn warehouse(draw: &mut Draw, number: u32, scale: &Scale) -> Document {
    let id = i64::from(number);
    let mut row = doc! {"_id": id, "W_ID": id, "W_NAME": draw.a_string(6..=10)};
    row.extend(address(draw, "W"));
    row.insert("W_TAX", draw.uniform(0..=2_000).cast_signed());
    row.insert("W_YTD", paid(scale) * i64::from(DISTRICTS));
    row
}

/// A district. Its next order has the number after those of the first orders.
pub fn district(draw: &mut Draw, of: District, scale: &Scale) -> Document {
    let (number, warehouse) = (i64::from(of.number), i64::from(of.warehouse));
    let mut row = doc! {"_id": of.id(), "D_ID": number, "D_W_ID": warehouse, "D_NAME": draw.a_string(6..=10)};
    row.extend(address(draw, "D"));
    row.insert("D_TAX", draw.uniform(0..=2_000).cast_signed());
    row.insert("D_YTD", paid(scale));
    row.insert("D_NEXT_O_ID", i64::from(scale.customers) + 1);
    row
}

/// Sum of the payments of a district's customers before the run.
fn paid(scale: &Scale) -> i64 {
    FIRST_PAYMENT_CENTS * i64::from(scale.customers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_warehouse_and_its_districts_begin_with_the_amounts_of_the_specification() {
        let scale = Scale::new(1, 1.0);
        let mut draw = Draw::new(1, 0);
        let row = warehouse(&mut draw, 1, &scale);
        assert_eq!(row.get_i64("W_YTD").unwrap(), 30_000_000);
        let row = district(&mut draw, District { warehouse: 1, number: 7 }, &scale);
        assert_eq!(row.get_i64("D_YTD").unwrap(), 3_000_000);
        assert_eq!(row.get_i64("D_NEXT_O_ID").unwrap(), 3_001);
        assert!(row.get_i32("D_TAX").is_ok_and(|tax| (0..=2_000).contains(&tax)));
    }
}
