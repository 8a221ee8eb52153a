//! Pipelines that count documents or gather the values of a field: their last stages, and the
//! content of the groups that they answer.

use bson::{Bson, Document, doc};

use super::documents::Documents;
use crate::{
    document,
    error::{Error, Result},
    numbers::as_i64,
};

/// Bytes of the values that one answer may hold, as in the server.
const MAX_VALUE_BYTES: usize = 16 * 1024 * 1024;
/// The server's codes for more of them: of a collection, and of a view, which it aggregates.
pub(crate) const TOO_BIG: i32 = 17_217;
pub(crate) const VIEW_TOO_BIG: i32 = 10_334;

/// The stage that counts all documents.
pub(crate) fn count_all() -> Document {
    doc! {"$group": {"_id": 1, "n": {"$sum": 1}}}
}

/// The number that it has counted.
pub(crate) fn number(group: Option<&Document>) -> u64 {
    group.and_then(|group| group.get("n")).map_or(0, as_i64) as u64
}

/// The stages that gather the values of a field. Arrays on the way and at its end are taken apart,
/// once each; documents without the field have no value.
pub(crate) fn unwind_and_group(field: &str) -> Result<Vec<Document>> {
    let mut stages = Vec::new();
    let mut path = String::new();
    for component in field.split('.') {
        if component.is_empty() || component.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!(
                "distinct on {field:?} is not supported of a view, and in a transaction that has written to the collection: {component:?} may be a place in an array"
            );
            return Err(Error::unsupported(message));
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(component);
        stages.push(doc! {"$unwind": {"path": format!("${path}"), "preserveNullAndEmptyArrays": true}});
    }
    stages.push(doc! {"$match": {field: {"$exists": true}}});
    stages.push(doc! {"$group": {"_id": format!("${field}")}});
    Ok(stages)
}

/// The values that they have gathered. `too_big`: the code of the error if they are too large for
/// one answer.
pub(crate) async fn values_of(mut groups: Documents, too_big: i32) -> Result<Vec<Bson>> {
    let (mut values, mut bytes) = (Vec::new(), 0);
    while let Some(group) = groups.next().await {
        let group = group?;
        bytes += group.as_bytes().len();
        if bytes > MAX_VALUE_BYTES {
            return Err(Error::invalid(too_big, "distinct too big, 16mb cap"));
        }
        values.extend(document::parse(&group)?.remove("_id"));
    }
    Ok(values)
}
