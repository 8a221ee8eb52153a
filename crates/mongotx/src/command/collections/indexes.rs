//! Making, changing and dropping indexes for the application.
//!
//! Each goes on when the caller's future is dropped, because half an index refuses or removes
//! documents without being listed. Only the waits for other writers end with the caller: then what
//! was made so far is taken back.

use std::sync::Arc;

use bson::{Bson, Document};

use super::to_its_end::{to_its_end, to_its_end_for};
use crate::{coordinator::Core, error::Result, options::Namespace};

/// Creates indexes, all of them or none: each with whether its unsafe versions are to be indexed,
/// too. Returns their names.
pub(crate) async fn create_indexes(
    core: &Arc<Core>,
    ns: &Namespace,
    specs: Vec<(Document, bool)>,
) -> Result<Vec<String>> {
    let (own, on) = (Arc::clone(core), ns.clone());
    to_its_end_for(core, &format!("making indexes of {ns}"), |caller| async move {
        own.schema.create_indexes(&on, &specs, &caller).await
    })
    .await
}

/// Changes options of a collection, of an index among them. Returns what was changed of the index.
pub(crate) async fn modify_collection(core: &Arc<Core>, ns: &Namespace, options: Document) -> Result<Document> {
    let (own, on) = (Arc::clone(core), ns.clone());
    let work = async move { own.schema.modify_collection(&on, &options).await };
    to_its_end(core, &format!("changing {ns}"), work).await
}

/// Drops indexes by their names or their key patterns, all of them or none.
pub(crate) async fn drop_indexes_named(core: &Arc<Core>, ns: &Namespace, asked: Vec<Bson>) -> Result<()> {
    let (own, on) = (Arc::clone(core), ns.clone());
    let work = async move { own.catalog.drop_indexes_named(&on, &asked).await };
    to_its_end(core, &format!("dropping indexes of {ns}"), work).await
}

/// Drops every index but that on `_id`.
pub(crate) async fn drop_indexes(core: &Arc<Core>, ns: &Namespace) -> Result<()> {
    let (own, on) = (Arc::clone(core), ns.clone());
    let work = async move { own.catalog.drop_indexes(&on).await };
    to_its_end(core, &format!("dropping all indexes of {ns}"), work).await
}
