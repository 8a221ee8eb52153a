//! The form of a record: `{_id: "user…", writes: 0, field0: "…", …}`.

use bson::{Document, doc};
use rand::{RngExt, SeedableRng, distr::Alphanumeric, rngs::StdRng};

use super::{keys::key, options::YcsbOptions};

/// Name of the collection, as in YCSB.
pub(super) const RECORDS: &str = "usertable";
/// Name of the field that counts a record's writes since it came.
pub(super) const WRITTEN: &str = "writes";

/// The record with this number.
pub(super) fn new(options: &YcsbOptions, number: u64, seed: u64) -> Document {
    let mut random = StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut record = doc! {"_id": key(number), WRITTEN: 0_i64};
    for field in 0..options.fields {
        record.insert(name(field), value(options, &mut random));
    }
    record
}

/// Name of a field, by its number.
pub(super) fn name(field: u32) -> String {
    format!("field{field}")
}

/// A random value for a field.
pub(super) fn value(options: &YcsbOptions, random: &mut StdRng) -> String {
    random.sample_iter(Alphanumeric).take(options.field_bytes as usize).map(char::from).collect()
}

/// Number of a record's writes; or the fault in the record.
pub(super) fn writes(options: &YcsbOptions, record: &Document) -> Result<u64, String> {
    let whole = |field| record.get_str(name(field)).is_ok_and(|value| value.len() == options.field_bytes as usize);
    if record.len() != 2 + options.fields as usize || !(0..options.fields).all(whole) {
        return Err(format!("a record is not whole: {record}"));
    }
    let writes = record.get_i64(WRITTEN).ok().and_then(|writes| u64::try_from(writes).ok());
    writes.ok_or_else(|| format!("a record without its number of writes: {record}"))
}
