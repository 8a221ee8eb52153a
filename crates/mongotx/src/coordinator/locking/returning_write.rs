//! A prepared write that returns the document: locked, changed and answered by one `findAndModify`.
//!
//! The statement is the one that [`super::single_write`] would send first, and so is its meaning;
//! only the command around it is another. (Of a document that is known by its key, removals and
//! mere locks demand the key in a pipeline, as updates do: the answer shows whether it is locked.)
//! Where one statement cannot do everything, or did nothing, nothing is said here and the caller
//! goes the long way.

use bson::{Bson, Document, RawDocumentBuf, raw::cstr};
use protocol::TxId;
use sd2v::{
    filter::{Exact, plain_demands},
    names::{UNSAFE, WRITER, tx_id_to_bson},
    statement::{self, OwnReadLock},
    stored,
    update::{fuse_lock, fuse_remove},
};

use super::{Locking, change::Change, target::Target};
use crate::{
    coordinator::{
        finishing::lock_wait::LockWait,
        request::own_key::id_key,
        server::live::FindAndModifyAnswer,
        siblings::Claim,
        transaction::{Hold, Transaction},
    },
    error::Result,
};

/// Both versions of a document that was locked and changed.
pub(crate) struct DocumentImages {
    /// The document before the change.
    pub(crate) before: Document,
    /// The document after the change, in this transaction's view; `None`: removed.
    pub(crate) after: Option<Document>,
}

impl DocumentImages {
    /// Both versions of a document that the transaction has just locked and changed.
    pub(super) fn of(mut stored_document: Document) -> Self {
        let after = match stored_document.remove(UNSAFE) {
            Some(Bson::Document(after)) => Some(after),
            _ => None,
        };
        stored::strip(&mut stored_document);
        Self { before: stored_document, after }
    }
}

impl Locking {
    /// Locks and changes one document that this transaction does not hold yet. `None`: whether it
    /// matches is not known. `fields`: no more than these of the stored document are shown, the
    /// lock among them.
    pub(crate) async fn prepare_returning(
        &self,
        tx: &mut Transaction,
        target: &Target<'_>,
        change: &Change<'_>,
        fields: Option<Document>,
    ) -> Result<Option<DocumentImages>> {
        // The lock in the answer shows what this statement has done only where it was not there
        // before.
        let may_be_held = !tx.is_untouched(target.ns, &target.at.id) || tx.has_read_locks(target.ns);
        if may_be_held || !target.options.is_plain() {
            return Ok(None);
        }
        let me = self.lifecycle.ensure_started(tx, target.ns).await?;
        let collection = self.catalog.admit_writes(target.ns, me).await?;
        if !self.consequences(&collection, target, change).await?.are_none() {
            return Ok(None);
        }
        if !change.is_one_statement() || target.condition()?.text.is_some() {
            return Ok(None);
        }
        let claims = tx.claims.clone();
        let claim = match claims.as_ref().filter(|_| target.is_the_document(tx)) {
            Some(claims) => self.claim(claims, target, &LockWait::new(tx.lock_wait())).await?,
            None => None,
        };
        let left = match &claim {
            Some(claim) => claim.left(),
            // The server checks whether the document matches, so this transaction does not wait for
            // its turn.
            None => claims.as_ref().and_then(|all| all.left_at(target.ns, id_key(&target.at.id))),
        };
        let statement = self.statement_over(target, change, me, left).await?;
        let Some(mut statement) = statement else { return Ok(None) };
        if let Some(fields) = fields {
            statement.append(cstr!("fields"), RawDocumentBuf::try_from(&fields)?);
        }
        tx.check_alive()?;
        let hold = if matches!(change, Change::Remove) { Hold::Remove } else { Hold::Change };
        tx.hold(&self.options, target.ns, std::slice::from_ref(target.at), hold)?;
        let found = match self.server.send_find_and_modify(tx, target.ns, &statement, &change.touches()).await? {
            FindAndModifyAnswer::Found(found) if found.get(WRITER) == Some(&tx_id_to_bson(me)) => found,
            FindAndModifyAnswer::Found(_) | FindAndModifyAnswer::Nothing => {
                // The next attempt waits in turn for the document.
                tx.not_held(target.ns, target.at);
                return Ok(None);
            }
            FindAndModifyAnswer::Refused => return Ok(None),
        };
        match (claim, &claims) {
            (Some(claim), _) => claim.keep(),
            (None, Some(claims)) => claims.took(target.ns, id_key(&target.at.id)),
            (None, None) => {}
        }
        tx.note_locked(target.ns, std::slice::from_ref(target.at), hold == Hold::Remove);
        Ok(Some(DocumentImages::of(found)))
    }

    /// The statement, which takes the document over if a committed transaction may have left it. If
    /// no statement can, waits until it is finished.
    async fn statement_over(
        &self,
        target: &Target<'_>,
        change: &Change<'_>,
        me: TxId,
        left: Option<TxId>,
    ) -> Result<Option<RawDocumentBuf>> {
        let statement = returning_statement(target, change, me, left)?;
        if statement.is_some() || left.is_none() {
            return Ok(statement);
        }
        self.finished(target.ns, left).await;
        returning_statement(target, change, me, None)
    }
}

/// As [`statement_of`], for a `findAndModify`, whose answer shows the lock: of a document that the
/// filter names by a key, the query says nothing but the `_id`.
fn returning_statement(
    target: &Target<'_>,
    change: &Change<'_>,
    me: TxId,
    left: Option<TxId>,
) -> Result<Option<RawDocumentBuf>> {
    let is_by_key = !target.filter.contains_key("_id") && target.options.collation.is_none();
    let demands = plain_demands(target.filter).filter(|_| is_by_key);
    let pipeline = demands.and_then(|demands| match change {
        Change::Remove if left.is_none() => fuse_remove(me, &demands),
        Change::Update { array_filters: None, .. } if change.is_lock() => fuse_lock(me, left.as_slice(), &demands),
        _ => None,
    });
    match pipeline {
        Some(pipeline) => {
            let query = RawDocumentBuf::try_from(&target.at.filter())?;
            Ok(Some(statement::lock_change(query, pipeline)))
        }
        None => statement_of(target, change, me, left, &[]),
    }
}

/// If a committed transaction may have left the document, makes the statement take it over. Returns
/// that transaction if the statement cannot: the document has to be finished before.
pub(super) fn taken_over(
    statement: &mut RawDocumentBuf,
    target: &Target<'_>,
    change: &Change<'_>,
    me: TxId,
    claim: Option<&Claim<'_>>,
    as_read: &[Exact],
) -> Result<Option<TxId>> {
    let Some(left) = claim.and_then(Claim::left) else { return Ok(None) };
    match statement_of(target, change, me, Some(left), as_read)? {
        Some(taking_over) => *statement = taking_over,
        None => return Ok(Some(left)),
    }
    Ok(None)
}

/// Statement that locks and changes in one, where that is provably the same. `left`: a committed
/// transaction whose lock may be taken over. `as_read`: conditions of an update besides, under
/// which the document is as it was read; a removal and a mere lock do not demand them.
pub(super) fn statement_of(
    target: &Target<'_>,
    change: &Change<'_>,
    me: TxId,
    left: Option<TxId>,
    as_read: &[Exact],
) -> Result<Option<RawDocumentBuf>> {
    let condition = target.condition()?;
    if condition.text.is_some() {
        return Ok(None);
    }
    let safe = target.safe_or_left(&condition, left)?;
    let whole = |statement: Document| RawDocumentBuf::try_from(&statement);
    Ok(match change {
        Change::Remove if left.is_some() => None,
        Change::Remove => Some(whole(statement::lock_remove(safe, me, OwnReadLock::None, false))?),
        Change::Update { array_filters: Some(_), .. } => None,
        Change::Update { .. } if change.is_lock() && left.is_some() => {
            let query = whole(safe)?;
            fuse_lock(me, left.as_slice(), &[]).map(|pipeline| statement::lock_change(query, pipeline))
        }
        Change::Update { .. } if change.is_lock() => {
            Some(whole(statement::lock_copy(safe, me, OwnReadLock::None, false))?)
        }
        Change::Update { update, .. } => target.fused(update, me, left, as_read)?,
    })
}
