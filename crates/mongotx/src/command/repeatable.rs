//! Repeatable read: what is read is read-locked first.
//!
//! 1. Select as at read committed.
//! 2. Read-lock what was selected, unless a rival holds its write lock: wait for it, or fail.
//! 3. Read again, now that nobody can change it.
//!
//! A document that was read before must still carry this transaction's lock: a lock that is gone was taken by a rival
//! after the lease had ended (or lost with the server), and the transaction cannot go on.

use bson::doc;
use protocol::TxId;
use sd2v::{
    names::{READERS, WRITER, tx_id_to_bson},
    statement, stored,
};

use super::{
    find, probe,
    query::{Documents, Query, exactly},
};
use crate::{
    coordinator::{
        Core,
        address::{Address, among},
        finisher::IDS_PER_STATEMENT,
        meet::{Patience, locks_only},
        transaction::{Hold, Transaction},
    },
    error::{Error, ErrorKind, Result},
    options::Namespace,
    steps::Step,
};

/// Times that a selection is repeated because documents changed before they were locked.
const SELECTIONS: usize = 16;

pub(crate) async fn find(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Documents> {
    for _ in 0..SELECTIONS {
        let ids = lock_matching(core, tx, ns, query).await?;
        if ids.is_empty() {
            refuse_projection(core, tx, ns, query).await?;
            return Ok(Documents::default());
        }
        let filter = if query.is_fetch() {
            query.filter.clone()
        } else {
            doc! {"$and": [query.filter.clone(), exactly(&ids, &query.terms)]}
        };
        let among_locked = Query { filter, skip: 0, ..query.clone() };
        let found = find::committed(core, Some(tx), ns, &among_locked).await?.all_raw(usize::MAX).await?;
        if found.len() == ids.len() {
            return Ok(Documents::at_hand(found));
        }
    }
    Err(changed_too_often(tx, ns))
}

/// Where everything is that the query finds, read-locked and seen again under the locks.
pub(crate) async fn lock_all(core: &Core, tx: &mut Transaction, ns: &Namespace, query: &Query) -> Result<Vec<Address>> {
    for _ in 0..SELECTIONS {
        let ids = lock_matching(core, tx, ns, query).await?;
        if ids.is_empty() {
            return Ok(ids);
        }
        let filter = doc! {"$and": [query.filter.clone(), exactly(&ids, &query.terms)]};
        let still = Query { filter, ..query.clone() };
        if find::addresses(core, Some(tx), ns, &still, core.options.max_documents).await?.len() == ids.len() {
            return Ok(ids);
        }
    }
    Err(changed_too_often(tx, ns))
}

fn changed_too_often(tx: &Transaction, ns: &Namespace) -> Error {
    let message = format!("documents of {ns} changed {SELECTIONS} times while they were to be read-locked");
    Error::new(ErrorKind::Conflict, message).for_transaction(tx.id())
}

/// What the server refuses even if there is nothing to show.
async fn refuse_projection(core: &Core, tx: &Transaction, ns: &Namespace, query: &Query) -> Result<()> {
    if query.projection.as_ref().is_none_or(probe::is_plain_projection) {
        return Ok(());
    }
    let nowhere = Query { filter: probe::nowhere(&query.filter), ..query.clone() };
    find::committed(core, Some(tx), ns, &nowhere).await.map(drop)
}

/// Steps 1 and 2: where the documents are that the query finds, all of them read-locked (or written by this transaction).
pub(crate) async fn lock_matching(
    core: &Core,
    tx: &mut Transaction,
    ns: &Namespace,
    query: &Query,
) -> Result<Vec<Address>> {
    if query.terms.staleness.is_some() {
        return Err(Error::unsupported(
            "a read of a repeatable-read transaction cannot be stale: it locks what it reads",
        ));
    }
    let ids = find::addresses(core, Some(tx), ns, query, core.options.max_documents).await?;
    if ids.is_empty() {
        return Ok(ids);
    }
    if let Some(reason) = &core.catalog.look_up(&core.server, ns).await?.unlockable {
        let message = format!("repeatable read cannot lock what it reads in {ns}: {reason}");
        return Err(Error::unsupported(message));
    }
    let me = core.ensure_started(tx, ns).await?;
    check_kept(core, tx, ns, &ids, me).await?;
    tx.hold(core, ns, &ids, Hold::Read)?;
    let mut patience = Patience::new(tx.options.lock_wait);
    for some in ids.chunks(IDS_PER_STATEMENT) {
        while lock_some(core, tx, ns, some, me).await? < some.len() {
            if !wait_for_writers(core, ns, some, me, &mut patience).await? {
                // What is missing was removed meanwhile.
                break;
            }
        }
    }
    Ok(ids)
}

async fn lock_some(core: &Core, tx: &mut Transaction, ns: &Namespace, ids: &[Address], me: TxId) -> Result<usize> {
    tx.check_alive()?;
    tx.sending();
    core.server.at(Step::BeforeReadLock).await;
    let command = doc! {"update": &ns.coll, "updates": [statement::lock_read(among(ids), me)]};
    let answer = core.server.prepare(ns, command).await;
    core.server.at(Step::AfterReadLock).await;
    if !answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
        tx.answered();
    }
    let locked = answer?.ok()?.n;
    Ok(usize::try_from(locked).unwrap_or(0))
}

/// Clears the rivals' locks among these documents; false when there were none.
async fn wait_for_writers(
    core: &Core,
    ns: &Namespace,
    ids: &[Address],
    me: TxId,
    patience: &mut Patience,
) -> Result<bool> {
    let filter = doc! {"$and": [among(ids), {WRITER: {"$exists": true, "$ne": tx_id_to_bson(me)}}]};
    let key = core.shard_key(ns).await?;
    let find = doc! {"find": &ns.coll, "filter": filter, "projection": locks_only(&key)};
    let Some(held) = core.server.find_first(ns, find).await? else { return Ok(false) };
    let (at, lock) = (Address::of(&held, &key)?, stored::lock_state(&held)?);
    if let Some(rival) =
        core.clear_locks(ns, &at, &protocol::LockState { readers: Vec::new(), ..lock }, Some(me)).await?
    {
        patience.wait_for(core, ns, &at.id, rival).await?;
    }
    Ok(true)
}

/// What was read before must still be locked.
async fn check_kept(core: &Core, tx: &Transaction, ns: &Namespace, ids: &[Address], me: TxId) -> Result<()> {
    let before: Vec<Address> = ids.iter().filter(|at| tx.has_read(ns, &at.id)).cloned().collect();
    for some in before.chunks(IDS_PER_STATEMENT) {
        let mine = doc! {"$or": [{READERS: tx_id_to_bson(me)}, {WRITER: tx_id_to_bson(me)}]};
        let find = doc! {"find": &ns.coll, "filter": {"$and": [among(some), mine]}, "projection": {"_id": 1}};
        let kept = core.server.collect(&ns.db, find, some.len()).await?;
        if kept.len() < some.len() {
            let message =
                format!("a read lock of the transaction on {ns} is gone: its lease had ended, or the server lost it");
            return Err(Error::new(ErrorKind::Expired, message).for_transaction(Some(me)));
        }
    }
    Ok(())
}
