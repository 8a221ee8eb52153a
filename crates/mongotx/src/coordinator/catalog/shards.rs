//! The shard keys of collections: those that the application has declared, and on a router those of
//! its metadata.

use std::{collections::HashMap, sync::Mutex, time::Instant};

use bson::{Document, doc};
use sd2v::shard::ShardKey;

use super::{FRESH, Server, remember};
use crate::{
    error::{Error, Result},
    options::Namespace,
};

/// Source of shard keys: the client's options, or the router.
#[derive(Default)]
pub(crate) struct Shards {
    declared: HashMap<Namespace, ShardKey>,
    /// The deployment is a router's.
    routed: bool,
    known: Mutex<HashMap<Namespace, (Instant, ShardKey)>>,
}

impl Shards {
    /// # Errors
    /// Those of [`ShardKey::parse`], with the collection.
    pub(crate) fn new(declared: &HashMap<Namespace, Vec<String>>, routed: bool) -> Result<Self> {
        let parse = |(ns, fields): (&Namespace, &Vec<String>)| match ShardKey::parse(fields) {
            Ok(key) => Ok((ns.clone(), key)),
            Err(error) => Err(Error::invalid(2, format!("the shard key declared for {ns}: {error}"))),
        };
        Ok(Self { declared: declared.iter().map(parse).collect::<Result<_>>()?, routed, known: Mutex::default() })
    }

    /// Returns true if it is a router's deployment.
    pub(crate) fn are_routed(&self) -> bool {
        self.routed
    }

    /// Returns true if no collection has a key, so that a document that waits to be inserted has
    /// nothing but its `_id`.
    pub(crate) fn none(&self) -> bool {
        self.declared.is_empty() && !self.routed
    }

    /// The key of a collection: none where it has none, and no command where there is no router.
    pub(crate) async fn key(&self, server: &Server, ns: &Namespace) -> Result<ShardKey> {
        if let Some(declared) = self.declared.get(ns) {
            return Ok(declared.clone());
        }
        if !self.routed {
            return Ok(ShardKey::default());
        }
        if let Ok(known) = self.known.lock()
            && let Some((when, key)) = known.get(ns)
            && when.elapsed() < FRESH
        {
            return Ok(key.clone());
        }
        let asked = Instant::now();
        let key = Box::pin(read(server, ns)).await?;
        remember(&self.known, ns, (asked, key.clone()));
        Ok(key)
    }
}

async fn read(server: &Server, ns: &Namespace) -> Result<ShardKey> {
    let find = doc! {"find": "collections", "filter": {"_id": ns.to_string()}, "projection": {"key": 1, "dropped": 1}};
    let found = server.find_first(&Namespace::new("config", "collections"), find).await?;
    Ok(found.map(|entry| key_in(&entry)).transpose()?.unwrap_or_default())
}

/// The key in an entry of `config.collections`. (Old routers keep entries of dropped collections.)
fn key_in(entry: &Document) -> Result<ShardKey> {
    if entry.get_bool("dropped").unwrap_or(false) {
        return Ok(ShardKey::default());
    }
    let fields: Vec<&str> =
        entry.get_document("key").into_iter().flat_map(Document::keys).map(String::as_str).collect();
    Ok(ShardKey::parse(&fields)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_in_an_entry_is_its_fields_in_order() {
        let entry = doc! {"_id": "db.c", "key": {"region": 1, "owner.id": "hashed", "_id": 1}};
        assert_eq!(key_in(&entry).unwrap(), ShardKey::parse(&["region", "owner.id"]).unwrap());
        assert!(key_in(&doc! {"_id": "db.c", "dropped": true, "key": {"region": 1}}).unwrap().is_empty());
        assert!(key_in(&doc! {"_id": "db.c"}).unwrap().is_empty());
    }

    #[test]
    fn new_names_the_collection_of_a_bad_key() {
        let declared = HashMap::from([(Namespace::new("db", "c"), vec!["a..b".to_owned()])]);
        let error = Shards::new(&declared, false).err().unwrap().to_string();
        assert!(error.contains("db.c") && error.contains("a..b"), "{error}");
    }
}
