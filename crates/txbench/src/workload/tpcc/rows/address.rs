//! Addresses, which the rows of warehouses, districts and customers have.

use bson::Document;

use crate::workload::tpcc::draw::Draw;

/// Street, city, state and ZIP code, in fields that begin with `prefix` and an underscore.
pub(super) fn address(draw: &mut Draw, prefix: &str) -> Document {
    let mut address = Document::new();
    address.insert(format!("{prefix}_STREET_1"), draw.a_string(10..=20));
    address.insert(format!("{prefix}_STREET_2"), draw.a_string(10..=20));
    address.insert(format!("{prefix}_CITY"), draw.a_string(10..=20));
    address.insert(format!("{prefix}_STATE"), draw.a_string(2..=2));
    address.insert(format!("{prefix}_ZIP"), draw.zip());
    address
}
