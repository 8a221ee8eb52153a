//! Writes of one document outside transactions, as bytes: one conditional command, as in
//! [`super::direct`], made without reading the document or the update into values first.
//!
//! An update by operators is sent without a condition, where the server refuses it if the document
//! is held ([`crate::coordinator::server::guarded`]).
//!
//! Whatever is out of the ordinary takes the way of [`mod@insert`], [`mod@update`] and
//! [`mod@delete`], which sends the write (again): a name that has to be looked at, a unique index,
//! a server that is not alone, a document that is held, one that is not there. Nothing was done
//! before that, for the first attempt was not sent, changed nothing, or was refused.

use std::sync::Arc;

use bson::{Bson, Document, RawBsonRef, RawDocument, doc};
use sd2v::{raw, update::Update};

use super::{
    delete, insert,
    update::{self, UpdateResult, result_of},
    write_commands::{DeleteCommand, UpdateCommand},
};
use crate::{
    coordinator::{Core, request::query_options::QueryOptions},
    document::{exact, is_exact},
    error::Result,
    options::Namespace,
};

/// Inserts a document, and answers its `_id`.
pub(crate) async fn insert(core: &Arc<Core>, ns: &Namespace, document: &RawDocument) -> Result<Bson> {
    if let Some(id) = first_id(document)
        && raw::is_storable(document)
        && is_exact(document)
        && is_quick(core, ns).await?
        && let Some(answer) = core.server.insert_raw(ns, document).await?
    {
        match answer.ok() {
            // The `_id` may belong to a document that is not committed, or is removed.
            Err(error) if error.is_duplicate_id() => {}
            answer => return answer.and_then(|_| Ok(Bson::try_from(id)?)),
        }
    }
    Box::pin(async { insert::one_directly(core, ns, exact(document)?).await }).await
}

/// Changes or replaces the document with this `_id`.
pub(crate) async fn update(
    core: &Arc<Core>,
    ns: &Namespace,
    id: RawBsonRef<'_>,
    update: &RawDocument,
) -> Result<UpdateResult> {
    if is_value(id)
        && raw::is_plain_update(update)
        && is_exact(update)
        && is_quick(core, ns).await?
        && let Some(sent) = core.server.update_raw(ns, id, update, &core.options.tx_database).await?
    {
        match sent.answer.ok() {
            // The document is held, or the server refuses the update itself: nothing was done.
            Err(_) if sent.is_guarded => {}
            // A guarded statement that matches nothing has met no lock: there is no such document.
            Ok(answer) if answer.n > 0 || sent.is_guarded => return Ok(result_of(&answer)),
            answer => drop(answer?),
        }
    }
    Box::pin(async {
        let command = update_command(id, exact(update)?)?;
        update::update_documents(core, None, ns, &command).await
    })
    .await
}

fn update_command(id: RawBsonRef<'_>, update: Document) -> Result<UpdateCommand> {
    let update = match update.keys().next().is_some_and(|first| first.starts_with('$')) {
        true => Update::parse_update(update.into())?,
        false => Update::replacement(update)?,
    };
    let (filter, options) = (exactly(id)?, QueryOptions::default());
    Ok(UpdateCommand { filter, update, multi: false, upsert: false, array_filters: None, options })
}

/// Deletes the document with this `_id`, and answers how many documents that were: one, or none.
pub(crate) async fn delete(core: &Arc<Core>, ns: &Namespace, id: RawBsonRef<'_>) -> Result<u64> {
    if is_value(id)
        && core.catalog.check_written(ns, false).is_ok()
        && !delete::is_watched(core, ns).await?
        && let Some(answer) = core.server.delete_raw(ns, id).await?
        && answer.ok()?.n > 0
    {
        return Ok(1);
    }
    Box::pin(async {
        let command = DeleteCommand { filter: exactly(id)?, multi: false, options: QueryOptions::default() };
        delete::delete_documents(core, None, ns, &command).await
    })
    .await
}

/// Returns true if a write of one document is one command here: the collection may be written to,
/// and no unique index counts pending values.
async fn is_quick(core: &Core, ns: &Namespace) -> Result<bool> {
    core.catalog.check_written(ns, false)?;
    Ok(!core.catalog.look_up(ns).await?.needs_transaction(None))
}

/// The `_id`, if it is the document's first field, as it is stored.
fn first_id(document: &RawDocument) -> Option<RawBsonRef<'_>> {
    let (name, id) = document.iter().next()?.ok()?;
    (name.as_str() == "_id").then_some(id)
}

/// Returns true if the value stands for itself in a filter, and is no condition.
fn is_value(id: RawBsonRef<'_>) -> bool {
    matches!(
        id,
        RawBsonRef::ObjectId(_)
            | RawBsonRef::String(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_)
            | RawBsonRef::Binary(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Boolean(_)
    )
}

fn exactly(id: RawBsonRef<'_>) -> Result<Document> {
    Ok(doc! {"_id": {"$eq": Bson::try_from(id)?}})
}
