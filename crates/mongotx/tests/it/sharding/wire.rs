//! Commands that the server received, by its profiler: the shard key is in every command about a
//! known document.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;

/// The profiler of one database: a level of 2 records every operation there, with the statements of
/// updates one by one.
pub(crate) struct Wire {
    db: mongodb::Database,
}

impl Wire {
    pub(crate) async fn tap(db: &mongodb::Database) -> Self {
        db.run_command(doc! {"profile": 2}).await.unwrap();
        Self { db: db.clone() }
    }

    /// Number of commands about documents that were known, by kind; each had the key.
    pub(crate) async fn targeted(&self) -> BTreeMap<String, usize> {
        self.db.run_command(doc! {"profile": 0}).await.unwrap();
        let ns = format!("{}.c", self.db.name());
        let profile = self.db.collection::<Document>("system.profile");
        let entries: Vec<Document> = profile.find(doc! {"ns": ns}).await.unwrap().try_collect().await.unwrap();
        profile.drop().await.unwrap();
        let mut counts = BTreeMap::new();
        for entry in &entries {
            if let Some(kind) = targeted_kind(entry) {
                *counts.entry(kind).or_default() += 1;
            }
        }
        counts
    }
}

/// The kind of command, if it names an `_id`. Fails the test if it names no key beside it.
/// (Aggregations are queries, and go wherever the application's filter leads.)
fn targeted_kind(entry: &Document) -> Option<String> {
    let command = entry.get_document("command").unwrap();
    let conditions = ["q", "filter", "query"].into_iter().filter_map(|place| command.get_document(place).ok());
    let named: Vec<&Document> = conditions.filter(|condition| names_id(condition)).collect();
    // The probe for pending documents comes beside a query, and behind a router as a part of it.
    if command.get_document("projection").is_ok_and(|shown| shown == &doc! {"_xTxId": 1, "_id": 0}) {
        return None;
    }
    // The place of a document is read by its `_id` alone.
    let asks_where = command.get_document("projection").is_ok_and(|shown| shown.contains_key("owner.id"));
    for condition in &named {
        assert!(is_targeted(condition) || asks_where, "without the key: {condition} in {entry}");
    }
    let first = named.into_iter().find(|condition| is_targeted(condition))?;
    let marks = ["_xTxId", "_sTxIds"].into_iter().filter(|mark| first.to_string().contains(mark));
    Some(marks.fold(entry.get_str("op").unwrap().to_owned(), |kind, mark| kind + " " + mark))
}

fn names_id(condition: &Document) -> bool {
    condition.iter().any(|(field, value)| match value {
        _ if field == "_id" => true,
        Bson::Array(operands) => operands.iter().filter_map(Bson::as_document).any(names_id),
        _ => false,
    })
}

/// Returns true if a router would find the whole key and the `_id` in it.
fn is_targeted(condition: &Document) -> bool {
    if ["_id", "region", "owner.id"].iter().all(|field| condition.contains_key(field)) {
        return true;
    }
    let operands = |operator| condition.get_array(operator).into_iter().flatten().filter_map(Bson::as_document);
    operands("$and").any(is_targeted) || (operands("$or").next().is_some() && operands("$or").all(is_targeted))
}

#[test]
fn is_targeted_by_an_id_and_every_field_of_the_key() {
    let whole = doc! {"_id": 1, "region": {"$eq": 1}, "owner.id": {"$eq": 7}};
    assert!(is_targeted(&whole) && names_id(&doc! {"$and": [{"x": 1}, {"_id": 2}]}));
    assert!(is_targeted(&doc! {"$and": [{"x": 1}, whole.clone()]}));
    assert!(is_targeted(&doc! {"$or": [whole.clone(), whole.clone()]}));
    for less in [doc! {"_id": 1}, doc! {"_id": 1, "region": 1}, doc! {"$or": [whole, {"_id": 1}]}, doc! {}] {
        assert!(!is_targeted(&less), "{less}");
    }
}
