//! A copy of collections that is made of events alone.

use std::collections::BTreeMap;

use bson::{Bson, Document};
use mongotx::{Event, Namespace, Position};
use sd2v::difference::Difference;

/// The documents of each collection, by the bytes of their `_id`s.
#[derive(Default)]
pub(crate) struct Copy {
    collections: BTreeMap<String, BTreeMap<Vec<u8>, Document>>,
    last: Option<Position>,
}

impl Copy {
    pub(crate) fn of(events: &[Event]) -> Self {
        let mut copy = Self::default();
        events.iter().for_each(|event| copy.apply(event));
        copy
    }

    /// Applies an event, which has to fit: an inserted document must not be there yet, a changed or
    /// deleted one must.
    pub(crate) fn apply(&mut self, event: &Event) {
        if let Some(last) = self.last {
            assert_eq!((event.position.era, event.position.number), (last.era, last.number + 1), "{event:?}");
        }
        self.last = Some(event.position);
        let content = &event.document;
        let ns = content.get_document("ns").unwrap();
        let ns = format!("{}.{}", ns.get_str("db").unwrap(), ns.get_str("coll").unwrap());
        let documents = self.collections.entry(ns).or_default();
        let key = content.get_document("documentKey").unwrap().to_vec().unwrap();
        let full = || content.get_document("fullDocument").unwrap().clone();
        match content.get_str("operationType").unwrap() {
            "insert" => assert_eq!(documents.insert(key, full()), None, "{content}"),
            "replace" => assert!(documents.insert(key, full()).is_some(), "{content}"),
            "delete" => assert!(documents.remove(&key).is_some(), "{content}"),
            "update" => {
                let before = documents.get(&key).unwrap_or_else(|| panic!("not there: {content}"));
                let difference = Difference::from_document(content.get_document("updateDescription").unwrap()).unwrap();
                let after = difference.apply(before).unwrap_or_else(|| panic!("does not fit {before}: {content}"));
                documents.insert(key, after);
            }
            other => panic!("{other}"),
        }
    }

    /// In the order of their `_id`s, which are all numbers, or all strings.
    pub(crate) fn documents(&self, ns: &Namespace) -> Vec<Document> {
        let mut all: Vec<Document> =
            self.collections.get(&ns.to_string()).into_iter().flat_map(BTreeMap::values).cloned().collect();
        all.sort_by_key(|document| match document.get("_id") {
            Some(Bson::Int32(id)) => (i64::from(*id), String::new()),
            Some(Bson::Int64(id)) => (*id, String::new()),
            Some(other) => (0, other.to_string()),
            None => (0, String::new()),
        });
        all
    }
}
