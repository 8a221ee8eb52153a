//! Numbers as servers send them: `n: 1` may be of any numeric type.

use bson::Bson;

/// A number of any BSON type.
pub(crate) fn as_i64(value: &Bson) -> i64 {
    match value {
        Bson::Int32(n) => i64::from(*n),
        Bson::Int64(n) => *n,
        Bson::Double(n) => *n as i64,
        _ => 0,
    }
}
