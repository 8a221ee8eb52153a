//! The `_id` of every row: one number, made of its primary key. So any target can address it, one
//! that knows nothing but keys too, and rows of a district are neighbours.

/// Primary key of a district: its warehouse, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct District {
    /// Number of the warehouse, from 1.
    pub warehouse: u32,
    /// Number of the district in its warehouse, from 1 to 10.
    pub number: u32,
}

/// Primary key of a customer: the district, and the number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Customer {
    /// District that the customer belongs to.
    pub district: District,
    /// Number of the customer in the district, from 1.
    pub number: u32,
}

/// Primary key of an order: the district, and the number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order {
    /// District in which it was made.
    pub district: District,
    /// Number of the order in the district, from 1.
    pub number: i64,
}

impl District {
    /// `_id` of the district's document.
    pub fn id(self) -> i64 {
        i64::from(self.warehouse) * 100 + i64::from(self.number)
    }
}

impl Customer {
    /// `_id` of the customer's document.
    pub fn id(self) -> i64 {
        self.district.id() * 100_000 + i64::from(self.number)
    }
}

impl Order {
    /// `_id` of the order and of its row in the table of new orders.
    pub fn id(self) -> i64 {
        self.district.id() * 10_000_000_000 + self.number
    }

    /// `_id` of one of its lines, from 1 to 15.
    pub fn line_id(self, line: usize) -> i64 {
        self.id() * 100 + line as i64
    }
}

/// `_id` of a warehouse's stock of an item.
pub fn stock(warehouse: u32, item: u32) -> i64 {
    i64::from(warehouse) * 1_000_000 + i64::from(item)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn different_rows_have_different_ids() {
        let mut customers = BTreeSet::new();
        let mut lines = BTreeSet::new();
        for warehouse in [1, 2, 10, 1_000] {
            for number in 1..=10 {
                let district = District { warehouse, number };
                customers.extend([1, 10, 2_999, 3_000].map(|number| Customer { district, number }.id()));
                for number in [1, 2, 100, 9_999_999_999] {
                    let order = Order { district, number };
                    lines.extend([1, 2, 15].map(|line| order.line_id(line)));
                }
            }
        }
        assert_eq!((customers.len(), lines.len()), (4 * 10 * 4, 4 * 10 * 4 * 3));
        let stocks: BTreeSet<i64> = [(1, 100_000), (2, 1), (10, 1), (1, 1)].map(|(w, i)| stock(w, i)).into();
        assert_eq!(stocks.len(), 4);
    }
}
