//! Repeatable read: what is read is read-locked first.
//!
//! 1. Select as at read committed.
//! 2. Read-lock what was selected ([`crate::coordinator::locking::read_locks`]), unless a rival
//!    holds its write lock: wait for it, or fail. Something was removed before it was locked: again
//!    from 1.
//! 3. Read again, now that no rival can change it. If a document does not match any more: again
//!    from 1.

use bson::doc;

use super::committed;
use crate::{
    command::query::{documents::Documents, drawn, nowhere::nowhere, plain_projection},
    coordinator::{
        Core,
        request::{
            address::Address,
            query::{Query, exactly},
        },
        transaction::Transaction,
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
};

/// Times that a selection is repeated because documents changed before they were locked.
const SELECTIONS: usize = 16;

pub(crate) async fn find(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Documents> {
    let again = drawn::lasting(&query.filter)?;
    let again = again.as_ref().unwrap_or(&query.filter);
    for _ in 0..SELECTIONS {
        let Some(ids) = lock_matching(core, tx, ns, query).await? else { continue };
        if ids.is_empty() {
            refuse_projection(core, tx, ns, query).await?;
            return Ok(Documents::default());
        }
        let filter = if query.is_fetch() {
            again.clone()
        } else {
            doc! {"$and": [again.clone(), exactly(&ids, &query.options)]}
        };
        let among_locked = Query { filter, skip: 0, ..query.clone() };
        let found = committed::find(core, Some(tx), ns, &among_locked).await?.all_raw(usize::MAX).await?;
        if found.len() == ids.len() {
            return Ok(Documents::at_hand(found));
        }
    }
    Err(changed_too_often(tx, ns))
}

/// Addresses of all documents that the query finds, read-locked and seen again under the locks.
pub(crate) async fn lock_all(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Vec<Address>> {
    let again = drawn::lasting(&query.filter)?;
    let again = again.as_ref().unwrap_or(&query.filter);
    for _ in 0..SELECTIONS {
        let Some(ids) = lock_matching(core, tx, ns, query).await? else { continue };
        if ids.is_empty() {
            return Ok(ids);
        }
        let filter = doc! {"$and": [again.clone(), exactly(&ids, &query.options)]};
        let still = Query { filter, skip: 0, ..query.clone() };
        if committed::addresses(core, Some(tx), ns, &still, core.options.max_documents).await?.len() == ids.len() {
            return Ok(ids);
        }
    }
    Err(changed_too_often(tx, ns))
}

fn changed_too_often(tx: &Transaction, ns: &Namespace) -> Error {
    let message = format!("documents of {ns} changed {SELECTIONS} times while they were to be read-locked");
    Error::new(ErrorKind::Conflict, message).for_transaction(tx.id())
}

/// Refuses a projection that the server refuses even if there is nothing to show.
async fn refuse_projection(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<()> {
    if query.projection.as_ref().is_none_or(plain_projection::is_plain_projection) {
        return Ok(());
    }
    let matching_nothing = Query { filter: nowhere(&query.filter), ..query.clone() };
    committed::find(core, Some(tx), ns, &matching_nothing).await.map(drop)
}

/// Steps 1 and 2: where the documents are that the query finds, all of them read-locked (or written
/// by this transaction). `None`: one of them was removed before it was locked.
async fn lock_matching(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    query: &Query,
) -> Result<Option<Vec<Address>>> {
    if query.options.staleness.is_some() {
        return Err(Error::unsupported(
            "a read of a repeatable-read transaction cannot be stale: it locks what it reads",
        ));
    }
    let found = committed::addresses(core, Some(tx), ns, query, core.options.max_documents).await?;
    if found.is_empty() {
        return Ok(Some(found));
    }
    if let Some(reason) = &core.catalog.look_up(ns).await?.unlockable {
        let message = format!("repeatable read cannot lock what it reads in {ns}: {reason}");
        return Err(Error::unsupported(message));
    }
    let me = core.lifecycle.ensure_started(tx, ns).await?;
    Ok(core.read_locks.lock_for_reading(tx, ns, &found, me).await?.then_some(found))
}
