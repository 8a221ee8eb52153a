//! Condition of the documents that can come before one in an order.
//!
//! A read that has found the first document of an order depends on those that could come before it,
//! and on no other: documents behind it may be held, changed, inserted and removed.

use bson::{Bson, Document, doc};

/// The condition of documents that could come before this one, of which all fields in the order are
/// known. It may match others, too. `None`: any could.
///
/// An array has its place by its least or its greatest item, while a comparison is true of any
/// item: so every array counts as one that could.
pub(crate) fn ahead_of(document: &Document, sort: &Document) -> Option<Document> {
    let (field, direction) = sort.iter().next()?;
    let value = document.get(field).filter(|value| is_comparable(value))?;
    if field.contains(['.', '$']) {
        return None;
    }
    // Documents with the same value may come before it by the next field.
    let is_last = sort.len() == 1;
    let behind = match (is_ascending(direction)?, is_last) {
        (true, true) => "$gte",
        (true, false) => "$gt",
        (false, true) => "$lte",
        (false, false) => "$lt",
    };
    Some(doc! {"$nor": [{field: {behind: value.clone(), "$not": {"$type": "array"}}}]})
}

fn is_ascending(direction: &Bson) -> Option<bool> {
    match direction {
        Bson::Int32(1) | Bson::Int64(1) => Some(true),
        Bson::Int32(-1) | Bson::Int64(-1) => Some(false),
        Bson::Double(direction) if *direction == 1.0 => Some(true),
        Bson::Double(direction) if *direction == -1.0 => Some(false),
        _ => None,
    }
}

/// Returns true if a comparison with the value orders all values of its type as a sort does.
fn is_comparable(value: &Bson) -> bool {
    match value {
        Bson::Double(number) => !number.is_nan(),
        Bson::Int32(_) | Bson::Int64(_) | Bson::String(_) | Bson::DateTime(_) | Bson::ObjectId(_) => true,
        _ => false,
    }
}
