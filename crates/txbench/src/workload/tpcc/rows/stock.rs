//! Rows of items, and of the stock that each warehouse has of them.

use bson::{Document, doc};

use crate::workload::tpcc::{draw::Draw, ids, scale::DISTRICTS};

/// The row of an item.
pub fn item(draw: &mut Draw, number: u32) -> Document {
    let id = i64::from(number);
    doc! {
        "_id": id,
        "I_ID": id,
        "I_IM_ID": i64::from(draw.uniform(1..=10_000)),
        "I_NAME": draw.a_string(14..=24),
        "I_PRICE": draw.cents(100..=10_000),
        "I_DATA": draw.data(),
    }
}

/// The row of a warehouse's stock of an item.
pub fn stock(draw: &mut Draw, warehouse: u32, item: u32) -> Document {
    let mut row = doc! {
        "_id": ids::stock(warehouse, item),
        "S_I_ID": i64::from(item),
        "S_W_ID": i64::from(warehouse),
        "S_QUANTITY": i64::from(draw.uniform(10..=100)),
    };
    for district in 1..=DISTRICTS {
        row.insert(dist_field(district), draw.a_string(24..=24));
    }
    row.extend(doc! {"S_YTD": 0_i64, "S_ORDER_CNT": 0_i64, "S_REMOTE_CNT": 0_i64, "S_DATA": draw.data()});
    row
}

/// The field of a stock that goes into the order lines of a district.
pub fn dist_field(district: u32) -> String {
    format!("S_DIST_{district:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_stocks_are_in_the_ranges_of_the_specification() {
        let mut draw = Draw::new(1, 0);
        for number in 1..=500 {
            let item = item(&mut draw, number);
            assert!(item.get_i64("I_PRICE").is_ok_and(|price| (100..=10_000).contains(&price)));
            assert!(item.get_str("I_NAME").is_ok_and(|name| (14..=24).contains(&name.len())));
            let stock = stock(&mut draw, 3, number);
            assert!(stock.get_i64("S_QUANTITY").is_ok_and(|quantity| (10..=100).contains(&quantity)));
            assert!((1..=10).all(|d| stock.get_str(dist_field(d)).is_ok_and(|info| info.len() == 24)));
            assert_eq!((stock.get_i64("S_YTD").unwrap(), stock.get_i64("S_W_ID").unwrap()), (0, 3));
        }
    }
}
