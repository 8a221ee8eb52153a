//! The content of an event about one document, from its two versions. Pure: nothing is read, and
//! the event has no number and no time yet.

use bson::{Bson, Document, doc};
use protocol::Version;
use sd2v::{
    difference::{difference, is_same},
    stored,
};

use crate::{coordinator::catalog::Watch, error::Result, options::Namespace};

/// The event of a document that a transaction holds, if it has changed it.
pub(super) fn event(ns: &Namespace, stored: Document, is_replaced: bool, watch: Watch) -> Result<Option<Document>> {
    let lock = stored::whole_lock_state(&stored)?;
    let id = stored.get("_id").cloned().unwrap_or(Bson::Null);
    let before = if lock.insert { None } else { stored::extract(stored.clone(), Version::Safe) };
    let after = if lock.remove { None } else { stored::extract(stored, Version::Unsafe) };
    let images = watch == Watch::WithImages;
    let mut event = doc! {
        "operationType": "delete",
        "ns": {"db": &ns.db, "coll": &ns.coll},
        "documentKey": {"_id": id},
    };
    match (&before, after) {
        (None, None) => return Ok(None),
        (Some(_), None) => {}
        (None, Some(after)) => {
            event.insert("operationType", "insert");
            event.insert("fullDocument", after);
        }
        (Some(before), Some(after)) => {
            if is_same(&Bson::Document(before.clone()), &Bson::Document(after.clone())) {
                return Ok(None);
            }
            match difference(before, &after).filter(|_| !is_replaced) {
                Some(difference) => {
                    event.insert("operationType", "update");
                    event.insert("updateDescription", difference.to_document());
                    if images {
                        event.insert("postImage", after);
                    }
                }
                None => {
                    event.insert("operationType", "replace");
                    event.insert("fullDocument", after);
                }
            }
        }
    }
    if images {
        event.extend(before.map(|before| ("fullDocumentBeforeChange".to_owned(), before.into())));
    }
    Ok(Some(event))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use bson::oid::ObjectId;

    use super::*;

    fn kind_and_event(stored: Document, is_replaced: bool) -> Option<(String, Document)> {
        let mut whole = doc! {"_id": 1, "_xTxId": {"c": ObjectId::new(), "n": 1_i64}};
        whole.extend(stored);
        let event = event(&Namespace::new("d", "c"), whole, is_replaced, Watch::WithImages).unwrap()?;
        Some((event.get_str("operationType").unwrap().to_owned(), event))
    }

    #[test]
    fn what_is_stored_tells_what_was_done() {
        let kind = |stored, is_replaced| kind_and_event(stored, is_replaced).map(|(kind, _)| kind);
        let is = |name: &str| Some(name.to_owned());
        assert_eq!(kind(doc! {"_insert": true, "_unsafe": {"_id": 1, "a": 1}}, false), is("insert"));
        assert_eq!(kind(doc! {"a": 1, "_remove": true}, false), is("delete"));
        assert_eq!(kind(doc! {"a": 1, "_unsafe": {"_id": 1, "a": 2}}, false), is("update"));
        assert_eq!(kind(doc! {"a": 1, "_unsafe": {"_id": 1, "a": 2}}, true), is("replace"));
        assert_eq!(kind(doc! {"a": 1, "b": 1, "_unsafe": {"_id": 1, "b": 1, "a": 1}}, false), is("replace"));
        assert_eq!(kind(doc! {"a": 1, "_unsafe": {"_id": 1, "a": 1}}, true), None);
        assert_eq!(kind(doc! {"_insert": true, "_remove": true}, false), None);
    }

    #[test]
    fn images_are_the_two_versions() {
        let (_, event) = kind_and_event(doc! {"a": 1, "_unsafe": {"_id": 1, "a": 2}}, false).unwrap();
        assert_eq!(event.get_document("fullDocumentBeforeChange").unwrap(), &doc! {"_id": 1, "a": 1});
        assert_eq!(event.get_document("postImage").unwrap(), &doc! {"_id": 1, "a": 2});
        let (_, event) = kind_and_event(doc! {"a": 1, "_remove": true}, false).unwrap();
        assert_eq!(event.get_document("fullDocumentBeforeChange").unwrap(), &doc! {"_id": 1, "a": 1});
    }
}
