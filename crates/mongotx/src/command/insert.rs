//! `insert`: inside a transaction each document is stored with an unsafe version only.
//!
//! A duplicate `_id` is asked about: committed, or inserted by this transaction, is the server's duplicate-key error;
//! removed by this transaction is revived; an active rival's is a conflict; a leftover is repaired, and the insert is
//! sent again.

use bson::{Bson, Document, doc, oid::ObjectId};
use protocol::TxId;
use sd2v::{
    statement,
    stored::{check_document, pending_insert},
};

use crate::{
    coordinator::{
        Core,
        meet::Patience,
        server::WriteAnswer,
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Progress, Result, WriteError},
    options::Namespace,
};

/// Documents and bytes of one command.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 8 * 1024 * 1024;
const ATTEMPTS: usize = 64;

/// The document with its `_id` first, as the server stores it, made here if it has none.
pub(crate) fn with_id(mut document: Document) -> (Bson, Document) {
    if let Some((name, id)) = document.iter().next()
        && name == "_id"
    {
        return (id.clone(), document);
    }
    let id = document.remove("_id").unwrap_or_else(|| ObjectId::new().into());
    let mut first = doc! {"_id": id.clone()};
    first.extend(std::mem::take(&mut document));
    (id, first)
}

fn check(document: &Document) -> Result<()> {
    Ok(check_document(document)?)
}

/// What a transaction cannot store faithfully.
fn check_pending(document: &Document) -> Result<()> {
    check(document)?;
    for (field, value) in document {
        if field.starts_with('$') {
            return Err(Error::unsupported(format!(
                "the field {field:?} cannot be inserted in a transaction: the server would take it for an operator when the transaction is finished"
            )));
        }
        if matches!(value, Bson::Timestamp(stamp) if stamp.time == 0 && stamp.increment == 0) {
            return Err(Error::unsupported(format!(
                "the field {field:?} is an empty timestamp, which the server would fill in when it is inserted outside a transaction only"
            )));
        }
    }
    Ok(())
}

/// Outside a transaction: one plain insert.
pub(crate) async fn one_directly(core: &Core, ns: &Namespace, document: Document) -> Result<Bson> {
    check(&document)?;
    let (id, document) = with_id(document);
    let mut patience = Patience::new(core.options.write_wait);
    for _ in 0..ATTEMPTS {
        let command = doc! {"insert": &ns.coll, "documents": [document.clone()]};
        let answer = core.server.write(&ns.db, command).await.map_err(super::direct::indeterminate)?;
        match answer.ok() {
            Err(error) if error.is_duplicate_key() => {
                if !way_is_free(core, ns, &id, None, &mut patience).await? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(id),
        }
    }
    Err(too_many_attempts(ns, &id))
}

/// Inside a transaction.
pub(crate) async fn one(core: &Core, tx: &mut Transaction, ns: &Namespace, document: Document) -> Result<Bson> {
    check_pending(&document)?;
    let me = core.ensure_started(tx, ns).await?;
    core.catalog.admit_writes(&core.server, ns).await?;
    let (id, document) = with_id(document);
    let stored = pending_insert(me, &document)?;
    tx.hold(core, ns, std::slice::from_ref(&id), Hold::Insert)?;
    let mut patience = Patience::new(tx.options.lock_wait);
    for _ in 0..ATTEMPTS {
        let answer = send(core, tx, ns, vec![stored.clone()], true).await?;
        match answer.ok() {
            Err(error) if error.is_duplicate_key() => {
                if revive(core, tx, ns, &id, &document, me).await? {
                    return Ok(id);
                }
                if !way_is_free(core, ns, &id, Some(me), &mut patience).await? {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
            Ok(_) => return Ok(id),
        }
    }
    Err(too_many_attempts(ns, &id))
}

fn too_many_attempts(ns: &Namespace, id: &Bson) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("the document {{_id: {id}}} of {ns} changed hands {ATTEMPTS} times while it was to be inserted"),
    )
}

async fn send(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    documents: Vec<Document>,
    ordered: bool,
) -> Result<WriteAnswer> {
    core.send_prepared(tx, ns, doc! {"insert": &ns.coll, "documents": documents, "ordered": ordered}).await
}

/// A document that this transaction has removed comes back.
async fn revive(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    id: &Bson,
    document: &Document,
    me: TxId,
) -> Result<bool> {
    if !tx.has_written(ns) {
        return Ok(false);
    }
    let command = doc! {"update": &ns.coll, "updates": [statement::revive(id.clone(), document, me)]};
    Ok(core.send_prepared(tx, ns, command).await?.ok()?.n == 1)
}

/// Was it a leftover, now repaired, that had the `_id`? False: the `_id` is taken.
async fn way_is_free(
    core: &Core,
    ns: &Namespace,
    id: &Bson,
    me: Option<TxId>,
    patience: &mut Patience,
) -> Result<bool> {
    let Some(lock) = core.fetch_locks(ns, id).await? else { return Ok(true) };
    let Some(writer) = lock.writer.filter(|writer| Some(*writer) != me) else { return Ok(false) };
    match core.clear_locks(ns, id, &lock, me).await? {
        None => Ok(true),
        // It exists now and will exist, whatever becomes of the rival's change.
        Some(_) if !lock.insert && !lock.remove => Ok(false),
        Some(_) => {
            patience.wait_for(core, ns, id, writer).await?;
            Ok(true)
        }
    }
}

/// Several documents in a transaction. Answers their `_id`s; an error carries what was refused and how many were
/// inserted.
pub(crate) async fn many(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    documents: Vec<Document>,
    ordered: bool,
) -> Result<Vec<Bson>> {
    let mut batch = Batch { ids: Vec::with_capacity(documents.len()), refused: Vec::new(), ordered };
    let mut waiting: Vec<(usize, Document)> = Vec::new();
    let mut bytes = 0;
    let last = documents.len().saturating_sub(1);
    for (index, document) in documents.into_iter().enumerate() {
        let (id, document) = with_id(document);
        bytes += document.to_vec().map_or(0, |bytes| bytes.len());
        batch.ids.push(id);
        waiting.push((index, document));
        if waiting.len() >= BATCH || bytes >= BATCH_BYTES || index == last {
            bytes = 0;
            if !batch.insert(core, tx, ns, std::mem::take(&mut waiting)).await? {
                break;
            }
        }
    }
    batch.finish(ns)
}

struct Batch {
    ids: Vec<Bson>,
    refused: Vec<WriteError>,
    ordered: bool,
}

impl Batch {
    /// False: stop here.
    async fn insert(
        &mut self,
        core: &Core,
        tx: &mut Transaction,
        ns: &Namespace,
        documents: Vec<(usize, Document)>,
    ) -> Result<bool> {
        let me = core.ensure_started(tx, ns).await?;
        core.catalog.admit_writes(&core.server, ns).await?;
        let mut rest = &documents[..];
        while !rest.is_empty() {
            // Up to the first that cannot even be sent.
            let stored = rest.iter().map_while(|(_, document)| {
                check_pending(document).and_then(|()| Ok(pending_insert(me, document)?)).ok()
            });
            let stored: Vec<Document> = stored.collect();
            let sent = stored.len();
            let ids: Vec<Bson> = rest[..sent].iter().map(|(index, _)| self.ids[*index].clone()).collect();
            tx.hold(core, ns, &ids, Hold::Insert)?;
            let done = match sent {
                0 => 0,
                _ => {
                    let answer = send(core, tx, ns, stored, true).await?;
                    answer.errors.first().map_or(sent, |(at, _)| *at)
                }
            };
            // The one that was refused goes the slow way, which finds out why.
            if let Some((index, document)) = rest.get(done)
                && let Err(error) = one(core, tx, ns, document.clone()).await
            {
                if error.ends_transaction() {
                    return Err(error);
                }
                self.refused.push(WriteError {
                    index: *index,
                    code: error.code().unwrap_or(0),
                    message: error.to_string(),
                });
                if self.ordered {
                    self.ids.truncate(*index);
                    return Ok(false);
                }
            }
            rest = rest.get(done + 1..).unwrap_or_default();
        }
        Ok(true)
    }

    fn finish(self, ns: &Namespace) -> Result<Vec<Bson>> {
        let Some(first) = self.refused.first() else { return Ok(self.ids) };
        let refused_here = if self.ordered { 0 } else { self.refused.len() };
        let progress = Progress { inserted: (self.ids.len() - refused_here) as u64, ..Progress::default() };
        let message =
            format!("{} of the documents inserted into {ns} refused; the first: {}", self.refused.len(), first.message);
        Err(Error::invalid(first.code, message).with_write_errors(self.refused).with_progress(progress))
    }
}
