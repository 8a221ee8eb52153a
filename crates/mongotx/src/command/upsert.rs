//! An upsert inside a transaction that matched nothing: the server builds the document from the filter's equalities and
//! the update, as it does without MongoTx, but with an unsafe version only.

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::TxId;
use sd2v::{
    names::{UNSAFE, tx_id_to_bson},
    statement,
    update::{Update, rewrite_upsert, upsert_id},
};

use super::{
    Terms, insert,
    update::{UpdateCommand, replacement_to_insert},
};
use crate::{
    coordinator::{
        Core,
        meet::Patience,
        prepare::{Change, Target},
        transaction::{Hold, Transaction},
        unique::{Before, Placed},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that it is tried again because a rival had one of its unique values.
const ATTEMPTS: usize = 256;

/// Inserts, and answers the new document's `_id`.
pub(crate) async fn run(core: &Core, tx: &mut Transaction, ns: &Namespace, command: &UpdateCommand) -> Result<Bson> {
    let id = upsert_id(&command.filter, &command.update)?;
    if let Update::Replacement(replacement) = &command.update {
        let (_, document) = replacement_to_insert(id, replacement);
        return insert::one(core, tx, ns, document).await;
    }
    let me = core.ensure_started(tx, ns).await?;
    let collection = core.catalog.admit_writes(&core.server, ns, me).await?;
    let id = id.unwrap_or_else(|| ObjectId::new().into());
    let mut patience = Patience::new(tx.options.lock_wait);
    for _ in 0..ATTEMPTS {
        match place(core, tx, ns, command, &id, me).await {
            Ok(false) => return Ok(id),
            Ok(true) => {
                let uniques = &collection.uniques;
                let placed = Placed { ns, id: &id, uniques, before: &Before::Absent, inserted: None };
                core.check_placed(tx, &placed, me, &mut patience).await?;
                return Ok(id);
            }
            Err(error) if error.is_pending_duplicate() => {
                core.meet_pending_duplicate(ns, &collection.uniques, error, me, &mut patience).await?;
            }
            Err(error) => return Err(error),
        }
    }
    let message =
        format!("the key of {{_id: {id}}} in {ns} changed hands {ATTEMPTS} times while it was to be upserted");
    Err(Error::new(ErrorKind::Conflict, message).for_transaction(Some(me)))
}

/// True: its unique values are still to be asked about.
async fn place(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &UpdateCommand,
    id: &Bson,
    me: TxId,
) -> Result<bool> {
    match build(core, tx, ns, command, id, me).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_pending_duplicate() => Err(error),
        Err(error) if error.is_duplicate_key() && matches!(command.update, Update::Pipeline(_)) => {
            insert_and_change(core, tx, ns, command, id, me).await.map(|_| false)
        }
        Err(error) if error.is_duplicate_key() => {
            let document = build_aside(core, tx, ns, command, id, me).await?;
            insert::one(core, tx, ns, document).await.map(|_| false)
        }
        Err(error) => Err(error),
    }
}

async fn build(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &UpdateCommand,
    id: &Bson,
    me: TxId,
) -> Result<()> {
    let (q, u) = rewrite_upsert(&command.filter, &command.update, id, &tx_id_to_bson(me))?;
    let mut statement = doc! {"q": q, "u": u, "upsert": true, "multi": false};
    if let Some(filters) = &command.array_filters {
        statement.insert("arrayFilters", filters.clone());
    }
    if let Some(collation) = &command.terms.collation {
        statement.insert("collation", collation.clone());
    }
    let mut update = doc! {"update": &ns.coll, "updates": [statement]};
    if let Some(variables) = &command.terms.variables {
        update.insert("let", variables.clone());
    }
    tx.hold(core, ns, std::slice::from_ref(id), Hold::Insert)?;
    let answer = core.send_prepared(tx, ns, update).await?.ok()?;
    if answer.upserted.is_none() {
        return Err(Error::new(
            ErrorKind::Corruption,
            format!("an upsert into {ns} changed a document instead of inserting one"),
        ));
    }
    Ok(())
}

/// A pipeline may read the `_id`, and must not read another: what the filter gives is inserted, then changed.
async fn insert_and_change(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &UpdateCommand,
    id: &Bson,
    me: TxId,
) -> Result<Bson> {
    let unchanged = Update::Pipeline(vec![doc! {"$replaceWith": "$$ROOT"}]);
    let from_filter = UpdateCommand { update: unchanged, ..command.clone() };
    let document = build_aside(core, tx, ns, &from_filter, id, me).await?;
    insert::one(core, tx, ns, document).await?;
    let terms = Terms { variables: command.terms.variables.clone(), ..Terms::default() };
    let target = Target { ns, id, filter: &doc! {"_id": id.clone()}, terms: &terms };
    match core.prepare(tx, &target, &command.change()).await {
        Ok(_) => Ok(id.clone()),
        Err(refused) if refused.ends_transaction() => Err(refused),
        Err(refused) => {
            core.prepare(tx, &target, &Change::Remove).await?;
            Err(refused)
        }
    }
}

/// The `_id` is in use: by a document that this transaction has removed, or by somebody else's. The new document is
/// built under another `_id`, taken away again, and inserted as documents are, which finds out.
async fn build_aside(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    command: &UpdateCommand,
    id: &Bson,
    me: TxId,
) -> Result<Document> {
    let aside = Bson::ObjectId(ObjectId::new());
    let without_id = UpdateCommand {
        filter: sd2v::filter::without_id(&command.filter).unwrap_or_else(|| command.filter.clone()),
        update: command.update.without_id(),
        ..command.clone()
    };
    build(core, tx, ns, &without_id, &aside, me).await?;
    let find = doc! {"find": &ns.coll, "filter": {"_id": aside.clone()}, "projection": {UNSAFE: 1}};
    let built = core.server.find_first(ns, find).await?;
    core.server.delete(ns, vec![statement::undo_delete(doc! {"_id": aside}, &[me])]).await?.ok()?;
    let Some(Bson::Document(mut document)) = built.and_then(|mut stored| stored.remove(UNSAFE)) else {
        return Err(Error::new(ErrorKind::Corruption, format!("the document just upserted into {ns} is not there")));
    };
    document.insert("_id", id.clone());
    Ok(document)
}
