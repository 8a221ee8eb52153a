//! Objects that MongoTx has stored beside the application's data and that are not needed any more:
//! parts of indexes without the index, and scratch collections of text searches whose clients are
//! gone.
//!
//! A part of an index is also there alone while the index is being made: only a part that has been
//! alone for a while is left over.

use bson::{Document, doc};
use futures_util::TryStreamExt;
use mongotx::{ClientId, Namespace};
use sd2v::{index::missing_index, text::SCRATCH};

use crate::failure::Failure;

/// A stored index without the application's index that it is a part of.
#[derive(Clone, Debug)]
pub(crate) struct LonelyIndex {
    pub(crate) namespace: Namespace,
    pub(crate) name: String,
    /// True if it may belong to an index that is being made.
    pub(crate) is_young: bool,
}

/// The collection of a text search, and the client that made it, by the collection's name.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    pub(crate) namespace: Namespace,
    pub(crate) owner: ClientId,
}

/// The scratch collections among these.
pub(crate) fn split_scratch(all: Vec<Namespace>) -> (Vec<Namespace>, Vec<Scratch>) {
    let (scratch, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|ns| ns.coll.starts_with(SCRATCH));
    let owned = scratch.into_iter().filter_map(|namespace| {
        // `CLIENT.NUMBER`; collections with other names are not MongoTx's.
        let (client, _) = namespace.coll.strip_prefix(SCRATCH)?.split_once('.')?;
        let owner = client.parse().ok()?;
        Some(Scratch { namespace, owner })
    });
    (others, owned.collect())
}

/// Parts of indexes without their index. `age_ms`: age from which on they are not young.
pub(crate) async fn lonely_indexes(
    driver: &mongodb::Client,
    namespaces: &[Namespace],
    age_ms: i64,
) -> Result<Vec<LonelyIndex>, Failure> {
    let mut lonely = Vec::new();
    for namespace in namespaces {
        let coll = driver.database(&namespace.db).collection::<Document>(&namespace.coll);
        // Gone, or replaced by a view, since it was listed.
        let Ok(names) = coll.list_index_names().await else { continue };
        for name in missing_index(&names) {
            let is_young = is_young(&coll, &name, age_ms).await?;
            lonely.push(LonelyIndex { namespace: namespace.clone(), name, is_young });
        }
    }
    Ok(lonely)
}

/// Returns true if it is young, by the server's clock: an index counts its uses from the moment it
/// was made, or the server was started.
async fn is_young(coll: &mongodb::Collection<Document>, name: &str, age_ms: i64) -> Result<bool, Failure> {
    let old = doc! {"$lte": ["$accesses.since", {"$subtract": ["$$NOW", age_ms]}]};
    let pipeline = [doc! {"$indexStats": {}}, doc! {"$match": {"name": name, "$expr": old}}];
    Ok(coll.aggregate(pipeline).await?.try_next().await?.is_none())
}

/// Drops the indexes; returns their number.
pub(crate) async fn drop_indexes(driver: &mongodb::Client, lonely: &[LonelyIndex]) -> Result<usize, Failure> {
    let mut dropped = 0;
    for index in lonely.iter().filter(|index| !index.is_young) {
        let coll = driver.database(&index.namespace.db).collection::<Document>(&index.namespace.coll);
        // The index may have been made meanwhile.
        let names = coll.list_index_names().await?;
        if missing_index(&names).contains(&index.name) {
            coll.drop_index(&index.name).await?;
            dropped += 1;
        }
    }
    Ok(dropped)
}
