//! Prepared writes of several documents, each with a change of its own, or to be removed: locked
//! and changed by one command.
//!
//! 1. Claim the documents in their order, so that two transactions of this client never hold what
//!    the other waits for.
//! 2. Send the statements that [`super::prepare`] would send one by one, all in one `update`. Each
//!    takes its lock if and only if it has changed its document.
//! 3. All have: done. Otherwise those before the first that has not are done; those after it are
//!    given back, because a transaction that waits for one document must not hold what its order
//!    puts after that.
//!
//! What is eligible is what one statement does completely; everything else takes the way of single
//! documents.

use std::collections::HashSet;

use bson::Document;
use protocol::TxId;

use super::{
    Core,
    address::Address,
    meet::Patience,
    own_key::{OwnKey, coarse_key, id_key},
    prepare::{Change, Target},
    prepare_shown::statement_of,
    server::WriteAnswer,
    transaction::{Hold, Transaction},
};
use crate::{error::Result, options::Namespace};

/// Documents in one command, and bytes of statements.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// One document and its change.
pub(crate) struct Each<'a> {
    pub(crate) target: Target<'a>,
    pub(crate) change: Change<'a>,
}

impl Core {
    /// Locks and changes as many of the first of these as one command can, each a different
    /// document of `ns`. Answers how many: whether the next one matches is not known.
    #[tracing::instrument(name = "mongotx.prepare_each", level = "debug", skip_all, fields(%ns, documents = all.len()))]
    pub(crate) async fn prepare_each(&self, tx: &mut Transaction, ns: &Namespace, all: &[Each<'_>]) -> Result<usize> {
        if tx.has_read_locks(ns) {
            return Ok(0);
        }
        let me = self.ensure_started(tx, ns).await?;
        let mut statements = self.eligible(tx, ns, all, me).await?;
        if statements.len() < 2 {
            return Ok(0);
        }
        let claims = tx.claims.clone();
        let (mut claimed, patience) = (Vec::new(), Patience::new(tx.options.lock_wait));
        for each in &all[..statements.len()] {
            claimed.push(match claims.as_ref().filter(|_| each.target.is_the_document(tx)) {
                Some(claims) => self.claim(claims, &each.target, &patience).await?,
                None => None,
            });
        }
        for ((statement, each), claim) in statements.iter_mut().zip(all).zip(&claimed) {
            self.take_over(statement, &each.target, &each.change, (me, claim.as_ref())).await?;
        }
        tx.check_alive()?;
        let all = &all[..statements.len()];
        let at: Vec<Address> = all.iter().map(|each| each.target.at.clone()).collect();
        let (removed, _) = apart(all);
        // All have room, or none takes any.
        tx.hold(self, ns, &at, Hold::Change)?;
        if !removed.is_empty() {
            tx.hold(self, ns, &removed, Hold::Remove)?;
        }
        let command = bson::doc! {"update": &ns.coll, "updates": statements, "ordered": true};
        let answer = self.send_prepared(tx, ns, command).await?;
        let done = match self.in_order(tx, ns, &at, &answer, me).await {
            Ok(done) => done,
            Err(error) => {
                // The change may have been made, or may still be: it must not be made twice.
                tx.sending();
                return Err(error);
            }
        };
        let (removed, changed) = apart(&all[..done]);
        tx.note_locked(ns, &changed, false);
        tx.note_locked(ns, &removed, true);
        for (claim, at) in claimed.into_iter().zip(&at[..done]) {
            match (claim, &claims) {
                (Some(claim), _) => claim.keep(),
                (None, Some(claims)) => claims.took(ns, id_key(&at.id)),
                (None, None) => {}
            }
        }
        Ok(done)
    }

    /// The statements of the first ones that can go together.
    async fn eligible(&self, tx: &Transaction, ns: &Namespace, all: &[Each<'_>], me: TxId) -> Result<Vec<Document>> {
        let collection = self.catalog.admit_writes(&self.server, ns, me).await?;
        let (mut statements, mut bytes, mut seen) = (Vec::new(), 0, HashSet::new());
        for Each { target, change } in all.iter().take(BATCH) {
            // Of two that may name the same document, the answer would not tell which has changed
            // it.
            let simple =
                target.terms.is_plain() && tx.is_untouched(ns, &target.at.id) && seen.insert(coarse_key(&target.at.id));
            if !simple || !self.consequences(&collection, target, change).await?.are_none() {
                break;
            }
            let Some(statement) = statement_of(target, change, me, None)? else { break };
            bytes += statement.to_vec().map_or(BATCH_BYTES, |bytes| bytes.len());
            if bytes > BATCH_BYTES {
                break;
            }
            statements.push(statement);
        }
        Ok(statements)
    }

    /// How many of the first were changed, none after them being held.
    async fn in_order(
        &self,
        tx: &mut Transaction,
        ns: &Namespace,
        at: &[Address],
        answer: &WriteAnswer,
        me: TxId,
    ) -> Result<usize> {
        if answer.errors.is_empty() && usize::try_from(answer.modified).is_ok_and(|modified| modified == at.len()) {
            return Ok(at.len());
        }
        let mine = self.held_among(ns, at, me).await?;
        let done = at.iter().take_while(|at| mine.contains(&OwnKey::of(&at.id))).count();
        if !usize::try_from(answer.modified).is_ok_and(|modified| modified == done) {
            // Whatever of it is held: a document may be stored under an equal `_id` of another
            // type.
            self.give_back(tx, ns, &at[done..]).await?;
        }
        // The command was answered: it will not lock them any more.
        at[done..].iter().for_each(|at| tx.not_held(ns, at));
        Ok(done)
    }
}

/// The documents that are to be removed, and those that are to be changed.
fn apart(all: &[Each<'_>]) -> (Vec<Address>, Vec<Address>) {
    let (removed, changed): (Vec<&Each<'_>>, Vec<&Each<'_>>) =
        all.iter().partition(|each| matches!(each.change, Change::Remove));
    let at = |some: Vec<&Each<'_>>| some.into_iter().map(|each| each.target.at.clone()).collect();
    (at(removed), at(changed))
}
