//! What `$indexStats` shows of the stored indexes, in the application's terms.

use bson::{Bson, Document, doc};

use super::form::{OWN, UNIQUE};
use crate::names::SLOT;

/// The stages behind `$indexStats`: they drop MongoTx's own indexes, and show unique indexes with
/// the application's names and keys.
pub(crate) fn show_statistics() -> [Document; 3] {
    let own = format!("^{OWN}(?!{})", UNIQUE.trim_start_matches(OWN).replace('.', r"\."));
    let shown = |path: &str| {
        let is_unique = doc! {"$eq": [{"$indexOfBytes": [path, UNIQUE]}, 0]};
        let behind = doc! {"$substrBytes": [path, UNIQUE.len() as i64, {"$strLenBytes": path}]};
        Bson::Document(doc! {"$cond": [is_unique, behind, path]})
    };
    [
        doc! {"$match": {"name": {"$not": {"$regex": own}}}},
        doc! {"$set": {"name": shown("$name"), "spec.name": shown("$spec.name")}},
        doc! {"$unset": [format!("key.{SLOT}"), format!("spec.key.{SLOT}")]},
    ]
}
