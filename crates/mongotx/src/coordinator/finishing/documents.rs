//! Finishing and undoing documents, one command for any number of them: the statements that every
//! finisher and every repairer sends, and what to do where a unique index is in the way.
//!
//! Documents of one transaction may exchange values of a unique index. One after the other, the
//! first would meet a value that the second still has. Then all of the transaction's documents step
//! aside first: their safe values stay readable and no longer count (decision 0006).

use bson::Document;
use protocol::Decided;
use sd2v::statement::{self, FoundBy, RepairStatement};

use crate::{
    coordinator::{
        request::address::{Address, among},
        server::Server,
    },
    error::{ErrorKind, Result},
    options::Namespace,
};

/// Finishes what these committed transactions hold of `who`; `deletes`: some were removed.
/// Returns the number of documents.
pub(crate) async fn finish(
    server: &Server,
    ns: &Namespace,
    who: &Document,
    writers: &[Decided],
    deletes: bool,
) -> Result<i64> {
    let by = found_by(server, ns);
    let removed = match deletes {
        true => server.repair_by_delete(ns, vec![statement::finish_delete(who.clone(), writers, by)]).await?.ok()?.n,
        false => 0,
    };
    Ok(removed + replace(server, ns, who, writers).await?)
}

/// Index by which documents are found that are named by their `_id`s.
fn found_by(server: &Server, ns: &Namespace) -> FoundBy {
    if server.clustered.has(ns) { FoundBy::Lock } else { FoundBy::Id }
}

/// As many documents are named each by a statement of its own, the server's shortest way; more of
/// them together by one.
const FEW: usize = 1;

/// Finishes what these committed transactions hold of these documents. Returns how many.
pub(crate) async fn finish_at(
    server: &Server,
    ns: &Namespace,
    at: &[Address],
    writers: &[Decided],
    deletes: bool,
) -> Result<i64> {
    if !deletes && at.len() <= FEW {
        let each = at.iter().map(|at| statement::finish_one(at.filter(), writers)).collect();
        let answer = server.repair(ns, each).await?;
        if !answer.errors.iter().any(|(_, error)| error.is_duplicate_key()) {
            return Ok(answer.ok()?.modified);
        }
    }
    finish(server, ns, &among(at), writers, deletes).await
}

/// Finishes what is not removed. Returns how many.
pub(crate) async fn replace(server: &Server, ns: &Namespace, who: &Document, writers: &[Decided]) -> Result<i64> {
    let statement = statement::finish_replace(who.clone(), writers, found_by(server, ns));
    let first = server.repair(ns, vec![statement.clone()]).await?;
    if !first.errors.iter().any(|(_, error)| error.is_duplicate_key()) {
        return Ok(first.ok()?.n);
    }
    // A scan that goes on meanwhile may miss what moves in its index (decision 0069).
    let moving = server.own_changes().writing(ns);
    let replaced = exchange(server, ns, statement, writers).await;
    if !replaced.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
        moving.over();
    }
    replaced
}

/// Puts documents that exchange values of unique indexes aside, and then in their places.
async fn exchange(server: &Server, ns: &Namespace, replace: RepairStatement, writers: &[Decided]) -> Result<i64> {
    // Documents that this transaction has removed elsewhere go first, too.
    server.repair_by_delete(ns, vec![statement::finish_delete(Document::new(), writers, FoundBy::Lock)]).await?.ok()?;
    server.repair(ns, vec![statement::step_aside(writers)]).await?.ok()?;
    Ok(server.repair(ns, vec![replace]).await?.ok()?.n)
}

/// Undoes what these transactions hold of `who`; `deletes`: some were inserted.
pub(crate) async fn undo(
    server: &Server,
    ns: &Namespace,
    who: &Document,
    writers: &[Decided],
    deletes: bool,
) -> Result<i64> {
    let removed = match deletes {
        true => server.repair_by_delete(ns, vec![statement::undo_delete(who.clone(), writers)]).await?.ok()?.n,
        false => 0,
    };
    let unlocked = server.repair(ns, vec![statement::undo_unlock(who.clone(), writers)]).await?.ok()?;
    Ok(removed + unlocked.n)
}
