//! The rows that a database begins with (clause 4.3.3.1), each as the document that is stored.

mod address;
pub mod customer;
pub mod order;
pub mod stock;
pub mod warehouse;

use bson::DateTime;

/// The date of all rows that are loaded. It is not the time of the load: the same seed makes the
/// same data.
pub fn loaded_at() -> DateTime {
    const FIRST_OF_JANUARY_2020_MS: i64 = 1_577_836_800_000;
    DateTime::from_millis(FIRST_OF_JANUARY_2020_MS)
}
