//! Numbers of rows (clauses 1.2.1 and 4.3.3), and smaller databases of the same shape for small
//! machines.

/// Districts of a warehouse; not scaled.
pub const DISTRICTS: u32 = 10;
/// Number of customers in a district.
pub const FULL_CUSTOMERS: u32 = 3_000;
/// Number of items, in all warehouses.
pub const FULL_ITEMS: u32 = 100_000;
/// Number of different last names.
pub const FULL_NAMES: u32 = 1_000;
/// Least number of customers of a district: an order has up to 15 items, and there must be old and
/// new orders.
const FEWEST_CUSTOMERS: u32 = 30;
const FEWEST_ITEMS: u32 = 100;

/// The size of a database.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Number of warehouses that are loaded.
    pub warehouses: u32,
    /// Items, and so stocks of a warehouse.
    pub items: u32,
    /// Customers of a district, and so its first orders.
    pub customers: u32,
    /// Part of the full size of a warehouse.
    factor: f64,
}

impl Scale {
    /// The size of so many warehouses, each with `factor` (0 to 1) of its items, customers and
    /// orders.
    pub fn new(warehouses: u32, factor: f64) -> Self {
        let scaled = |full: u32, fewest: u32| ((f64::from(full) * factor).ceil() as u32).clamp(fewest, full);
        let items = scaled(FULL_ITEMS, FEWEST_ITEMS);
        Self { warehouses, items, customers: scaled(FULL_CUSTOMERS, FEWEST_CUSTOMERS), factor }
    }

    /// Returns true if warehouses are smaller than TPC-C's. Figures of such a run are not TPC-C's.
    pub fn is_scaled(&self) -> bool {
        self.factor < 1.0
    }

    /// Part of the full size of a warehouse.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Number of different last names: three customers of a district share one.
    pub fn names(&self) -> u32 {
        self.customers.div_ceil(3)
    }

    /// Number of a district's first orders that are delivered: 2,100 of 3,000 (clause 4.3.3.1).
    pub fn delivered(&self) -> u32 {
        self.customers * 7 / 10
    }

    /// Number of order lines, about: an order has 5 to 15.
    pub fn lines_about(&self) -> u64 {
        self.of_districts(self.customers) * 10
    }

    /// Number of rows in all, of which each district has so many.
    pub fn of_districts(&self, each: u32) -> u64 {
        u64::from(self.warehouses) * u64::from(DISTRICTS) * u64::from(each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warehouse_of_full_size_is_the_specification_s() {
        let scale = Scale::new(1, 1.0);
        assert!(!scale.is_scaled());
        assert_eq!((scale.items, scale.customers, scale.names()), (100_000, 3_000, 1_000));
        assert_eq!((scale.delivered(), scale.customers - scale.delivered()), (2_100, 900));
        assert_eq!((scale.of_districts(scale.customers), scale.lines_about()), (30_000, 300_000));
    }

    #[test]
    fn a_smaller_one_says_so_and_keeps_its_shape() {
        let scale = Scale::new(2, 0.1);
        assert!(scale.is_scaled());
        assert_eq!((scale.items, scale.customers, scale.names(), scale.delivered()), (10_000, 300, 100, 210));
        let least = Scale::new(1, 0.000_1);
        assert_eq!((least.items, least.customers, least.delivered()), (100, 30, 21));
    }
}
